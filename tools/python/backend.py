"""The build backend that pyproject.toml names: CMake builds the module and the program, this packs them into a wheel.

pip install . --config-settings build-dir=build/release     uses that build folder (else build/python)
"""
from __future__ import annotations

import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tools/python/a2asim"
DATA = {"examples": ROOT / "tools/examples", "scenarios": ROOT / "sim/scenarios"}
OLDEST_PYTHON = "3.9"
GLIBC_WITH_GLIBCXX = {19: 17, 22: 24, 24: 27, 28: 31, 29: 34, 30: 35, 33: 39}  # 3.4.N -> 2.N: distributions have both


def fact(pattern):
    """The one place of each is CMakeLists.txt."""
    return re.search(pattern, (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


def version():
    return fact(r"project\(a2asim VERSION ([\d.]+)")


def metadata():
    name, mail = re.fullmatch(r"(.*) <(.*)>", fact(r'set\(A2ASIM_MAINTAINER "([^"]+)"')).groups()
    return "\n".join(["Metadata-Version: 2.1", "Name: a2asim", f"Version: {version()}",
                      "Summary: " + fact(r'DESCRIPTION "([^"]+)"'), f"Maintainer: {name}", f"Maintainer-email: {mail}",
                      "License: Apache-2.0", f"Requires-Python: >={OLDEST_PYTHON}", "Provides-Extra: test",
                      "Requires-Dist: pytest; extra == 'test'", "Requires-Dist: hypothesis; extra == 'test'",
                      "Description-Content-Type: text/markdown", "", (ROOT / "README.md").read_text(encoding="utf-8")])


def built(settings):
    """Builds, and gives the module and the program."""
    folder = ROOT / settings.get("build-dir", "build/python")
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    if not (folder / "CMakeCache.txt").exists():
        run("cmake", "-S", ROOT, "-B", folder, *generator, "-DCMAKE_BUILD_TYPE=Release", "-DA2ASIM_CUDA=OFF",
            "-DA2ASIM_BUILD_TESTS=OFF", "-DA2ASIM_PYTHON_MODULE=ON", "-DA2ASIM_UNITY=ON", "-DA2ASIM_WERROR=OFF",
            f"-DPython_EXECUTABLE={sys.executable}")
    run("cmake", "--build", folder, "--target", "a2asim", "a2asim_python")
    (module,) = (folder / "tools/python/a2asim").glob("_program*" + sysconfig.get_config_var("EXT_SUFFIX"))
    return module, folder / "tools/a2asim"


def run(*words):
    try:
        subprocess.run([str(word) for word in words], check=True, stdout=sys.stderr)
    except FileNotFoundError:
        sys.exit(f"a2asim: {words[0]} is missing: install what tools/setup.sh names, and pybind11-dev and python3-dev")
    except subprocess.CalledProcessError as error:
        sys.exit(f"a2asim: the build failed (exit code {error.returncode}, its output is above); "
                 "install what tools/setup.sh names, and pybind11-dev and python3-dev")


def platform(files):
    """linux_x86_64; manylinux_2_N_x86_64 where only files and libraries of every distribution are needed, by glibc."""
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    everywhere = r"lib(c|m|pthread|dl|rt|stdc\+\+|gcc_s)\.so|ld-linux"
    newest = [17]
    for file in files:
        said = subprocess.run(["readelf", "-dVW", str(file)], capture_output=True, text=True)
        needed = set(re.findall(r"Shared library: \[(.*?)\]", said.stdout)) - {file.name for file in files}
        if said.returncode or not all(re.match(everywhere, name) for name in needed):
            return machine
        newest += [int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", said.stdout)]
        for minor in re.findall(r"\bGLIBCXX_3\.4\.(\d+)", said.stdout):
            newest.append(min((glibc for at, glibc in GLIBC_WITH_GLIBCXX.items() if at >= int(minor)), default=99))
    return machine if max(newest) == 99 else machine.replace("linux_", f"manylinux_2_{max(newest)}_", 1)


def contents(module, program):
    """Path in the wheel -> (bytes, may it be executed)."""
    info, scripts = f"a2asim-{version()}.dist-info", f"a2asim-{version()}.data/scripts"
    files = {f"a2asim/{path.name}": (path.read_bytes(), False) for path in sorted(PACKAGE.iterdir()) if path.is_file()}
    brought = [path for path in sorted(module.parent.glob("lib*.so*"))]
    for path in [module, *brought]:
        files[f"a2asim/{path.name}"] = (path.read_bytes(), True)
    for name, folder in DATA.items():
        files.update({f"a2asim/data/{name}/{path.relative_to(folder).as_posix()}": (path.read_bytes(), False)
                      for path in sorted(folder.rglob("*")) if path.is_file()})
    files[f"{scripts}/a2asim"] = (program.read_bytes(), True)
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"{tag}-{tag}-{platform([module, program, *brought])}"
    files[f"{info}/METADATA"] = (metadata().encode(), False)
    for license in [ROOT / "LICENSE", *module.parent.glob("LICENSE.*")]:
        files[f"{info}/{license.name}"] = (license.read_bytes(), False)
    files[f"{info}/entry_points.txt"] = (b"[pytest11]\na2asim = a2asim.pytest_plugin\n", False)
    about = f"Wheel-Version: 1.0\nGenerator: a2asim\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files[f"{info}/WHEEL"] = (about.encode(), False)
    return files, info, tag


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files, info, tag = contents(*built(config_settings or {}))
    record = ""
    for path, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), False)
    name = f"a2asim-{version()}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, (data, executable) in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))  # equal inputs, equal bytes
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return name
