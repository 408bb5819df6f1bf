"""What goes into the wheel besides the sources: the declarations made from the C header, the two
libraries, and the licences of the system's libraries that the wheel will carry."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Every Linux system that a manylinux wheel runs on has these; they stay outside.
OF_THE_SYSTEM = {"libc6", "libgcc-s1", "libstdc++6"}


def licences(library):
    """The copyright files of the Debian packages that `library` needs, by package."""
    listed = subprocess.run(["ldd", library], check=True, capture_output=True, text=True).stdout
    found = {}
    for path in re.findall(r"=> (/\S+)", listed):
        package = owner(path) or owner(os.path.realpath(path))
        if package is None:
            sys.exit(f"{path} belongs to no Debian package: its licence is not known")
        if package not in OF_THE_SYSTEM:
            found[package] = f"/usr/share/doc/{package}/copyright"
    return found


def owner(path):
    # A merged /usr gives one file two names, and dpkg knows one of them.
    for name in (path, path.removeprefix("/usr"), "/usr" + path):
        done = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return None


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        sys.path.insert(0, str(ROOT / "python"))
        import declarations

        build = pathlib.Path(os.environ["LAKE_BUILD_DIR"])
        self.made = tempfile.TemporaryDirectory()
        abi = pathlib.Path(self.made.name) / "_abi.py"
        declarations.write([ROOT / "include/lake/status.h", ROOT / "include/lake/lake.h"], abi)
        include = build_data["force_include"]
        include[str(abi)] = "lake/_abi.py"
        library = (build / "liblake.so").resolve()
        include[str(library)] = "lake/liblake.so"
        include[str(build / "python" / "liblake_capsules.so")] = "lake/liblake_capsules.so"
        include[str(ROOT / "LICENSE")] = "lake/licenses/lake"
        for package, path in licences(library).items():
            include[path] = f"lake/licenses/{package}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version, build_data, artifact_path):
        self.made.cleanup()
