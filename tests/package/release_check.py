#!/usr/bin/env python3
"""release_check.py SOURCE_DIR: what tools/release says of itself holds, as far as no build is needed.

Pinned actions and least permissions; the options of CMake that its files name are there; build.sh refuses a maintainer
whom nobody can write to, a tag of another version, and a folder that is not empty.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import types

root = pathlib.Path(sys.argv[1])
release = root / "tools/release"
workflow = (release / "release.yml").read_text()
for action in re.findall(r"uses: (\S+)", workflow):
    assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), f"not pinned: {action}"
assert "\npermissions: {}\n" in workflow and "pull_request" not in workflow
for run in re.findall(r"run: \|\n((?:          .*\n)+)", workflow):
    assert "${{" not in run, "an expression pasted into a shell"

cmake = "".join((root / name).read_text() for name in ("CMakeLists.txt", "tools/cmake/A2asimTargets.cmake"))
for name in ("build.sh", "Dockerfile"):
    options = set(re.findall(r"-D(A2ASIM_\w+)=", (release / name).read_text()))
    assert options and all(re.search(rf"\b(option|set)\({option} ", cmake) for option in options), options
for source in re.findall(r"COPY --from=build /a2asim/(\S+)", (release / "Dockerfile").read_text()):
    assert source.startswith("build/") or (root / source).exists(), source


def said(folder, *args, **environment):
    """The last line of a copy's build.sh, which must end with 2 before anything is built."""
    done = subprocess.run(["bash", folder / "tools/release/build.sh", *args], capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], **environment})
    assert done.returncode == 2 and not (folder / "build/release-static-OFF").exists(), done
    return done.stderr.strip().splitlines()[-1]


with tempfile.TemporaryDirectory() as name:
    copy = pathlib.Path(name, "clone")
    shutil.copytree(release, copy / "tools/release")
    shutil.copy(root / "tools/setup.sh", copy / "tools")
    text = (root / "CMakeLists.txt").read_text()
    (copy / "CMakeLists.txt").write_text(re.sub(r'(set\(A2ASIM_MAINTAINER ")[^"]*', r"\1A <a@b.invalid>", text))
    assert "no real maintainer" in said(copy)
    (copy / "CMakeLists.txt").write_text(re.sub(r'(set\(A2ASIM_MAINTAINER ")[^"]*', r"\1A <a@b.example>", text))
    assert "make them equal" in said(copy, GITHUB_REF_NAME="v99.0.0")
    assert "is not empty" in said(copy, str(copy))
# The tag of a wheel, from what readelf says of its files.
sys.path.insert(0, str(root / "tools/python"))
import backend  # noqa: E402


def tag(*needed, brought=()):
    listed = "".join(f"Shared library: [{word}]\n" if ".so" in word else f"Name: {word}\n" for word in needed)
    backend.subprocess = types.SimpleNamespace(run=lambda *_, **__: types.SimpleNamespace(stdout=listed, returncode=0))
    return backend.platform([pathlib.Path(name) for name in ("module.so", *brought)])


assert tag("libc.so.6", "GLIBC_2.2.5").startswith("manylinux_2_17_")
assert tag("libc.so.6", "libstdc++.so.6", "GLIBC_2.34", "GLIBCXX_3.4.30").startswith("manylinux_2_35_")
assert tag("libc.so.6", "GLIBC_2.36", "GLIBCXX_3.4.11").startswith("manylinux_2_36_")
assert tag("libyaml-cpp.so.0.7", "GLIBC_2.34", brought=["libyaml-cpp.so.0.7"]).startswith("manylinux_2_34_")
assert tag("libyaml-cpp.so.0.7", "GLIBC_2.34").startswith("linux_")
assert tag("libstdc++.so.6", "GLIBCXX_3.4.99").startswith("linux_")
print("tools/release holds")
