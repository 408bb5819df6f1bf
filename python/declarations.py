"""Makes from C headers the module by which cffi calls the library without a compiler.

cffi reads declarations and constants, not the preprocessor's language. Lake's public headers use
little of that: include guards, C++ guards, numbers and initialisers, of which only numbers count.
"""

import re

import cffi


def declarations(text):
    """The declarations of one header, and the constants that are plain numbers."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = text.replace("\\\n", " ")
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", text, flags=re.S | re.M)
    lines = []
    for line in text.splitlines():
        number = re.fullmatch(r"#\s*define\s+(\w+)\s+(\d+)\s*", line)
        if number:
            lines.append(f"#define {number[1]} {number[2]}")
        elif not line.lstrip().startswith("#"):
            lines.append(line)
    return "\n".join(lines)


def write(headers, module):
    """Writes the Python file `module` from the headers, in the order in which they include."""
    ffi = cffi.FFI()
    ffi.cdef("\n".join(declarations(path.read_text()) for path in headers))
    ffi.set_source("lake._abi", None)
    ffi.emit_python_code(str(module))
