"""pytest: the fixture and marker `a2asim`, and scenario files as tests. Installed with the package; nothing to import.

    @pytest.mark.a2asim(version="v0.5.15", num_experts=256, top_k=8, hidden_size=7168)
    def test_launch(a2asim):
        a2asim.assert_agrees("launch/*.sh")

Files that fit `a2asim_scenarios` (pytest.ini; default: scenarios/*.yaml and *.scenario.yaml) are replayed; a file
passes if it ends as its `expect` says, or without `expect` if no error is found.
"""
from __future__ import annotations

import fnmatch
import functools
import pathlib
import re
from typing import Any, Iterator, Optional

import pytest

import a2asim as package

FIRST_BYTES = 1 << 16  # of a file that is looked at before it is taken for a scenario


class Checker:
    """The functions of a2asim that take a launch, with the options of the marker."""

    def __init__(self, defaults: dict[str, Any]) -> None:
        self.assert_agrees = functools.partial(package.assert_agrees, **defaults)
        self.check = functools.partial(package.check, **defaults)
        self.replay = package.replay
        self.explore = package.explore


@pytest.fixture
def a2asim(request: pytest.FixtureRequest) -> Checker:
    """a2asim.assert_agrees("launch/*.sh"), a2asim.check(..); the marker's arguments are options of both."""
    defaults: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("a2asim"))):
        defaults.update(marker.kwargs)
    return Checker(defaults)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("a2asim_scenarios", "patterns of scenario files that are replayed as tests", type="linelist",
                  default=["*scenarios/*.yaml", "*.scenario.yaml"])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "a2asim(**options): options of a2asim.check for the fixture a2asim")


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> Optional[pytest.Collector]:
    patterns = [one if one[0] in "*/" else "*/" + one for one in parent.config.getini("a2asim_scenarios")]
    if not any(fnmatch.fnmatch(file_path.as_posix(), pattern) for pattern in patterns):
        return None
    with open(file_path, "rb") as file:
        text = file.read(FIRST_BYTES)
    is_scenario = all(re.search(rb"^" + key + rb"\s*:", text, re.MULTILINE) for key in (b"name", b"steps"))
    return ScenarioFile.from_parent(parent, path=file_path) if is_scenario else None


class ScenarioFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield ScenarioItem.from_parent(self, name="replay")


class ScenarioItem(pytest.Item):
    def runtest(self) -> None:
        package.replay(self.path).raise_for_errors()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, package.A2asimError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[pathlib.Path, int, str]:
        return self.path, 0, f"scenario {self.path.name}"
