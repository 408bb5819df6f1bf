#!/usr/bin/env python3
"""What the compiler does not check about Lake's sources.

    tools/lint/lint.py --build build/release [CHECK...]

Checks: format, size, banned, layers, headers, places, tidy. All of them without arguments. Files
that have not changed since they were last found clean are not analysed again (tidy).
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
C_FOLDERS = ("src", "include", "tests", "bench", "examples", "python")
MAX_LINES = 800
MAX_COLUMNS = 100

BANNED = {
    "strcpy": "use a view or buffer of base",
    "strcat": "use a buffer of base",
    "sprintf": "use snprintf",
    "vsprintf": "use vsnprintf",
    "gets": "use fgets",
    "strtok": "use a cursor of base",
    "atoi": "use the checked parsers of base",
    "atol": "use the checked parsers of base",
    "atof": "use the checked parsers of base",
    "rand": "use the random source of base",
}


def git_files(*patterns):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
                         cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [f for f in out.splitlines() if os.path.isfile(os.path.join(ROOT, f))]


def c_files():
    return [f for f in git_files("*.c", "*.h", "*.cc") if f.split("/")[0] in C_FOLDERS]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """The text with comments and literals blanked; lines keep their numbers."""
    def blank(match):
        token = match.group(0)
        kept = token[0] * 2 if token[0] in "\"'" else " "
        return kept + "\n" * token.count("\n")
    return TOKENS.sub(blank, text)


def without_sizeof(text):
    """The text with every sizeof(...) replaced by one word."""
    out, at = [], 0
    for match in re.finditer(r"\bsizeof\s*\(", text):
        if match.start() < at:
            continue
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        out += [text[at:match.start()], "SIZEOF", "\n" * text.count("\n", match.start(), end)]
        at = end
    return "".join(out) + text[at:]


def argument(text, start):
    """What stands between the parenthesis that opens before start and its partner."""
    depth, end = 1, start
    while end < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[start:end - 1]


def check_format():
    files = c_files()
    if not files:
        return []
    run = subprocess.run(["clang-format", "--dry-run", "--Werror", *files], cwd=ROOT,
                         capture_output=True, text=True)
    lines = [l for l in run.stderr.splitlines() if ": error:" in l or ": warning:" in l]
    seen, out = set(), []
    for line in lines:
        name = line.split(":")[0]
        if name not in seen:
            seen.add(name)
            out.append(f"{line} (make format)")
    if run.returncode and not out:
        out.append(run.stderr.strip())
    return out


def check_size():
    out = []
    for path in c_files():
        lines = read(path).split("\n")
        if len(lines) - 1 > MAX_LINES:
            out.append(f"{path}: {len(lines) - 1} lines, {MAX_LINES} are allowed: look for the "
                       "second idea in it")
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS:
                out.append(f"{path}:{number}: {len(line)} columns, {MAX_COLUMNS} are allowed")
    return out


def check_banned():
    out = []
    call = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    allocation = re.compile(r"\b(malloc|realloc|alloca)\s*\(")
    product = re.compile(r"[\w)\]]\s*\*\s*[\w(]")
    for path in c_files():
        text = without_sizeof(code_only(read(path)))
        for match in call.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            out.append(f"{path}:{line}: {match.group(1)} is banned: {BANNED[match.group(1)]}")
        for match in allocation.finditer(text):
            inner = argument(text, match.end())
            if product.search(inner):
                line = text.count("\n", 0, match.start()) + 1
                out.append(f"{path}:{line}: {match.group(1)} of a product may overflow: use the "
                           "checked helpers of base, or calloc")
    return out


def read_layers():
    """The rows `| \`folder\` | what it is | may use |` of docs/architecture.md: the one place that
    says who may use whom. A folder may also use what those use."""
    out = {}
    for line in read("docs/architecture.md").splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`(\w+)`", cells[0])
        if name and len(cells) == 3:
            out[name.group(1)] = re.findall(r"\w+", cells[2])
    return out


def reachable(layers, folder):
    out, todo = {folder}, list(layers[folder])
    while todo:
        name = todo.pop()
        if name == "everything":
            return set(layers)
        if name in layers and name not in out:
            out.add(name)
            todo += layers[name]
    return out


def check_layers():
    out = []
    layers = read_layers()
    if len(layers) < 5:
        return ["docs/architecture.md: has no table of folders and what they may use"]
    src = os.path.join(ROOT, "src")
    for folder in sorted(os.listdir(src)):
        if not os.path.isdir(os.path.join(src, folder)):
            continue
        if folder not in layers:
            out.append(f"src/{folder}: not in the table of docs/architecture.md")
            continue
        allowed = reachable(layers, folder)
        build = f"src/{folder}/CMakeLists.txt"
        if os.path.exists(os.path.join(ROOT, build)):
            text = re.sub(r"#[^\n]*", "", read(build))
            for call in re.finditer(r"lake_library\(([^)]*)\)", text):
                used = re.search(r"\bUSES\b((?:\s+\w+)*)", call.group(1))
                for name in used.group(1).split() if used else []:
                    if name in ("LINKS", "PROTO"):
                        break
                    if name not in allowed:
                        out.append(f"{build}: {folder} may not use {name}")
            for name in re.findall(r"\blake_(\w+)", text):
                if name in layers and name not in allowed:
                    out.append(f"{build}: {folder} may not use {name}")
        for path in git_files(f"src/{folder}"):
            if not path.endswith((".c", ".h", ".cc")):
                continue
            for match in re.finditer(r'^\s*#\s*include\s+["<]([^">]+)[">]', read(path), re.M):
                name = match.group(1)
                other = name.split("/")[0]
                if name.startswith(".."):
                    out.append(f"{path}: includes {name}: reach a folder by its one header")
                elif "/" in name and other in layers and other != folder:
                    if other not in allowed:
                        out.append(f"{path}: includes {name}: {folder} may not use {other}")
                    elif name != f"{other}/{other}.h":
                        out.append(f"{path}: includes {name}: others see {other}/{other}.h only")
    return out


def check_headers():
    out = []
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-Iinclude"]
    for path in git_files("include/lake/*.h"):
        name = path[len("include/"):]
        for language, standard, compiler in (("c", "c11", "cc"), ("c++", "c++17", "c++")):
            with tempfile.NamedTemporaryFile("w", suffix=".c") as f:
                f.write(f"#include <{name}>\nint lake_header_compiles_alone;\n")
                f.flush()
                run = subprocess.run([compiler, *flags, f"-std={standard}", "-x", language, f.name],
                                     cwd=ROOT, capture_output=True, text=True)
            if run.returncode:
                out.append(f"{path} does not compile alone as {standard}:\n{run.stderr.strip()}")
    return out


def check_places():
    """Nothing may depend on one machine's folders or name where packages are served."""
    out = []
    home = re.compile(r"(?<![\w.$}{*-])/(?:home|root|work|Users)/\w")
    hosts = re.compile(r"\b(?:pypi|npmjs|crates|pythonhosted|debian|golang|maven|apache)\.(?:org|io|com)"
                       r"/(?:simple|packages|debian|maven2|api/v1)", re.I)
    registry = re.compile(r"\b(?:registry|files|proxy|repo1?|deb|static)\."
                          r"(?:npmjs|pythonhosted|golang|maven|debian|crates)\.", re.I)
    for path in git_files():
        if path.startswith("tests/fuzz/corpus/"):
            continue
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                text = f.read()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if home.search(line):
                out.append(f"{path}:{number}: names a folder of one machine: {line.strip()[:80]}")
            if hosts.search(line) or registry.search(line):
                out.append(f"{path}:{number}: names a package server: {line.strip()[:80]}")
    return out


def tidy_one(entry, settings, cache):
    command = entry.get("arguments") or shlex.split(entry["command"])
    if "ccache" in os.path.basename(command[0]):
        command = command[1:]
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
    preprocess, skip = [], False
    for word in command:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            skip = True
        elif word not in ("-c", "-MD", "-MMD"):
            preprocess.append(word)
    run = subprocess.run([*preprocess, "-E", "-P"], cwd=entry["directory"], capture_output=True)
    if run.returncode:
        return path, run.stderr.decode(errors="replace")
    mark = os.path.join(cache, hashlib.sha256(settings + run.stdout + read(path).encode()).hexdigest())
    if os.path.exists(mark):
        return path, None
    run = subprocess.run(["clang-tidy", "--quiet", "--extra-arg=-Wno-unknown-warning-option",
                          "-p", os.path.dirname(entry["database"]), path],
                         cwd=ROOT, capture_output=True, text=True)
    if run.returncode:
        return path, run.stdout.strip() or run.stderr.strip()
    with open(mark, "w", encoding="utf-8"):
        pass
    return path, None


def check_tidy(build):
    database = os.path.join(ROOT, build, "compile_commands.json")
    if not os.path.exists(database):
        return [f"{database} is missing: build first (make build)"]
    with open(database, encoding="utf-8") as f:
        entries = json.load(f)
    wanted, seen = [], set()
    for entry in entries:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if path.split("/")[0] in C_FOLDERS and path not in seen:
            seen.add(path)
            wanted.append({**entry, "database": database})
    base = os.environ.get("LAKE_DEPS_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lake")
    cache = os.path.join(base, "tidy")
    os.makedirs(cache, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
    settings = version + "".join(read(f) for f in git_files("*.clang-tidy")).encode()
    out = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, finding in pool.map(lambda e: tidy_one(e, settings, cache), wanted):
            if finding:
                out.append(f"{path}:\n{finding}")
    return out


CHECKS = ("format", "size", "banned", "layers", "headers", "places", "tidy")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    options = parser.parse_args()
    unknown = [c for c in options.checks if c not in CHECKS]
    if unknown:
        parser.error(f"no check {unknown[0]}; there are: {' '.join(CHECKS)}")
    bad = 0
    for name in options.checks or CHECKS:
        found = check_tidy(options.build) if name == "tidy" else globals()[f"check_{name}"]()
        print(f"{name:8} {'ok' if not found else f'{len(found)} findings'}", flush=True)
        for finding in found:
            print("  " + finding.replace("\n", "\n  "))
        bad += len(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
