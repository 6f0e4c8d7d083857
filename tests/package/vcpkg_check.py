#!/usr/bin/env python3
"""vcpkg_check.py SOURCE_DIR VERSION: the port says what CMake says. vcpkg itself is not needed, nor run.

The manifest is valid, carries the project's version, and depends on exactly the packages that CMake looks for.
"""
import json
import pathlib
import re
import sys

# find_package's name, or the folder of a header that find_path looks for -> vcpkg's. Threads is the system's.
PORTS = {"Eigen3": "eigen3", "nlohmann_json": "nlohmann-json", "CLI11": "cli11", "Threads": None,
         "kainjow": "kainjow-mustache", "toml": "tomlplusplus"}

source, version = pathlib.Path(sys.argv[1]), sys.argv[2]
port = source / "tools/vcpkg/ports/a2asim"
manifest = json.loads((port / "vcpkg.json").read_text())
assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", manifest["name"]), manifest["name"]
assert manifest["name"] == port.name
assert manifest["version"] == version, f"vcpkg.json says {manifest['version']}, project() says {version}"

listed = [entry if isinstance(entry, str) else entry["name"] for entry in manifest["dependencies"]]
host = {entry["name"] for entry in manifest["dependencies"] if isinstance(entry, dict) and entry.get("host")}
assert listed == sorted(listed), "dependencies are sorted by name"
found = re.findall(r"(?:find_package\(|find_path\(\w+ )(\w[\w-]*)", (source / "tools/cmake/A2asimTargets.cmake").read_text())
wanted = {PORTS.get(name, name) for name in found} - {None}
assert set(listed) - host == wanted, f"vcpkg.json: {sorted(set(listed) - host)}, CMake: {sorted(wanted)}"

# Helpers that the port file calls come from the host dependencies, and the options that it sets exist.
portfile = (port / "portfile.cmake").read_text()
assert {"vcpkg-cmake", "vcpkg-cmake-config"} == host
options = re.findall(r"-D(A2ASIM_\w+)=", portfile)
cmake = (source / "CMakeLists.txt").read_text()
for option in options:
    assert re.search(rf"(option|set)\({option} ", cmake), f"portfile.cmake sets {option}, which CMakeLists.txt has not"
assert (port / "../../../..").resolve() == source.resolve()

changes = re.search(r"^## (\S+)$", (source / "tools/CHANGELOG.md").read_text(), re.MULTILINE)
assert changes and changes[1] == version, f"the newest entry of CHANGELOG.md is {changes and changes[1]}, not {version}"
print(f"vcpkg port {manifest['version']}: {', '.join(sorted(wanted))}")
