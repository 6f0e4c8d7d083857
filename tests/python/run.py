"""Runs one part of the tests of the Python module: run.py PART BUILD_DIR. Exit code 77: it cannot here.

Parts: doctests, notebook, install, and the files test_PART.py, which need pytest (strategies: hypothesis, too).
"""
import doctest
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def need(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            print(f"SKIPPED: no {module} (Debian: python3-{module})")
            sys.exit(77)


def doctests():
    import a2asim
    from a2asim import _commands, _run, _testing
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    results = [doctest.testmod(module, optionflags=flags) for module in (a2asim, _commands, _run, _testing)]
    print(results)
    assert all(result.attempted > 0 for result in results), "a module without examples"
    return sum(result.failed for result in results)


def install(build):
    """As a user does, in a fresh environment; what is built already is not built again."""
    need("venv", "ensurepip")
    with tempfile.TemporaryDirectory() as folder:
        python, program = f"{folder}/env/bin/python", f"{folder}/env/bin/a2asim"
        subprocess.run([sys.executable, "-m", "venv", f"{folder}/env"], check=True)
        subprocess.run([python, "-m", "pip", "install", "--no-index", "--no-build-isolation", "-q",
                        "--config-settings", f"build-dir={build}", str(ROOT)], check=True, cwd=folder)
        bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True, env=bare).stdout
        code = ("import a2asim, importlib.metadata as m; assert m.version('a2asim') == a2asim.__version__; "
                "assert any(p.value == 'a2asim.pytest_plugin' for p in m.distribution('a2asim').entry_points); "
                "print('a2asim', a2asim.__version__); "
                "assert a2asim.replay(a2asim.DATA / 'scenarios/collapse.yaml').ok")
        module = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True, env=bare,
                                cwd=folder).stdout
        assert said == module, (said, module)
    return 0


def main(part, build):
    package = os.path.join(build, "tools/python")
    sys.path.insert(0, package)
    os.environ["PYTHONPATH"] = package
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    if part == "doctests":
        return doctests()
    if part == "install":
        return install(build)
    if part == "notebook":
        return subprocess.run([sys.executable, str(HERE / "notebook.py")]).returncode
    need("pytest", *(["hypothesis"] if part == "strategies" else []))
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "a2asim.pytest_plugin",
                           "-p", "pytester", str(HERE / f"test_{part}.py")], cwd=HERE).returncode


sys.exit(main(*sys.argv[1:]))
