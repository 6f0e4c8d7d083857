"""Do all expert-parallel ranks agree on the size of the all-to-all? The program a2asim, inside Python.

>>> import a2asim
>>> report = a2asim.check("python3 -m sglang.launch_server --model-path M --tp 4 --dp 4 --enable-dp-attention "
...                       "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass",
...                       version="v0.5.15", num_experts=256, top_k=8, hidden_size=7168)
>>> report.agrees
True
>>> print(report)
sglang ...AGREES...
>>> _ = report.raise_for_errors()
"""
from ._commands import check, command_of, explain, explore, plan, replay, rule, upgrade, versions
from ._commands import DATA
from ._program import View
from ._report import Capacity, Finding, Report
from ._run import A2asimError, ErrorsFound, Output, UnusableInput, run
from ._program import version as _version
from ._testing import assert_agrees

__version__ = _version()
for _error in (A2asimError, ErrorsFound, UnusableInput):
    _error.__module__ = "a2asim"  # what a traceback shows
__all__ = ["A2asimError", "Capacity", "DATA", "ErrorsFound", "Finding", "Output", "Report", "UnusableInput", "View",
           "assert_agrees", "check", "command_of", "explain", "explore", "plan", "replay", "rule", "run", "upgrade",
           "versions"]
