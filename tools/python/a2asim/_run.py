"""One run of the program inside this process, and its errors as exceptions."""
from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from . import _program

if TYPE_CHECKING:
    from ._report import Report

Rule = Callable[[_program.View], int]
Progress = Callable[[str], object]


class A2asimError(Exception):
    """Everything that this package raises."""


class UnusableInput(A2asimError, ValueError):
    """The program could not use its input; the message is its line: what, where, and how to fix it."""


class ErrorsFound(A2asimError, AssertionError):
    """raise_for_errors(): the program found an error. The message is its text; `report` has the findings."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclasses.dataclass(frozen=True)
class Output:
    exit_code: int
    out: str
    err: str


def options(given: dict[str, Any]) -> list[str]:
    """{"num_experts": 256, "verbose": True, "fp8": None} -> --num-experts 256 --verbose"""
    words = []
    for name, value in given.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            words += [option, ",".join(map(str, value))]
        else:
            words += [option, str(value)]
    return words


def on_terminal() -> Optional[Progress]:
    """Shows progress where a person looks: a terminal or a notebook."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return None

    def show(words: str) -> None:
        sys.stderr.write("\r" + words.ljust(78)[:78] + ("" if words else "\r"))
        sys.stderr.flush()

    return show


def run(args: Sequence[str], input: str = "", rule: Optional[Rule] = None,
        progress: Optional[Progress] = None) -> Output:
    """Runs `a2asim ARGS`. Exit code 2 becomes UnusableInput; what a rule raises is raised here.

    >>> run(["--version"]).out.split()[0]
    'a2asim'
    >>> run(["chekc"])
    Traceback (most recent call last):
    a2asim.UnusableInput: there is no command 'chekc': did you mean 'check'?
    """
    name = f"{getattr(rule, '__name__', 'rule')}() in Python"
    show = progress or on_terminal()
    try:
        output = Output(*_program.run(list(args), input, rule, name, show))
    finally:
        if show is not None and progress is None:
            show("")
    if output.exit_code == 2:
        line = output.err.strip()
        for prefix in (f"a2asim {args[0]}: " if args else "", "a2asim: "):
            line = line[len(prefix):] if prefix and line.startswith(prefix) else line
        raise UnusableInput(line)
    return output
