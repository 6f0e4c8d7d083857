"""Assertions for test suites."""
from __future__ import annotations

import glob
import pathlib
from typing import Any, Union

from ._commands import Launch, check
from ._report import Report
from ._run import UnusableInput


def assert_agrees(*launches: Union[str, Launch], **options: Any) -> list[Report]:
    """Checks launches; raises ErrorsFound at the first error. A string is a pattern of files. Options: see check().

    >>> reports = assert_agrees({"tp": 4, "dp": 4, "enable_dp_attention": True, "moe_a2a_backend": "flashinfer",
    ...                          "moe_runner_backend": "flashinfer_cutlass"}, version="v0.5.15")
    >>> assert_agrees("no/such/*.sh")
    Traceback (most recent call last):
    a2asim.UnusableInput: no file matches 'no/such/*.sh': nothing was checked
    """
    wanted: list[Launch] = []
    for launch in launches:
        if not isinstance(launch, str):
            wanted.append(launch)
            continue
        found = sorted(glob.glob(launch, recursive=True))
        if not found:
            raise UnusableInput(f"no file matches '{launch}': nothing was checked")
        wanted += [pathlib.Path(one) for one in found]
    if not wanted:
        raise UnusableInput("assert_agrees needs a launch: nothing was checked")
    return [check(launch, **options).raise_for_errors() for launch in wanted]
