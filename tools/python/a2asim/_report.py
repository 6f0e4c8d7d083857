"""What a command found, as objects over its JSON (tools/docs/json.md lists the keys)."""
from __future__ import annotations

import dataclasses
import html
from typing import Any, Callable, Optional

from ._run import ErrorsFound, Output


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding; `a2asim explain ID` tells more about its id."""

    id: str
    severity: str
    phase: Optional[str] = None
    message: str = ""
    consequence: Optional[str] = None
    why: Any = None
    fix: Any = None
    witness: Optional[dict[str, Any]] = None
    scenario: Optional[str] = None
    step: Optional[int] = None
    data: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def is_error(self) -> bool:
        return self.severity == "error"


@dataclasses.dataclass(frozen=True)
class Capacity:
    max_num_tokens: Optional[int] = None
    workspace_bytes_per_rank: Optional[int] = None
    source: Optional[str] = None
    dispatch_bytes_per_token: Optional[int] = None
    combine_bytes_per_token: Optional[int] = None


def _made(kind: Any, keys: dict[str, Any], **more: Any) -> Any:
    known = {field.name for field in dataclasses.fields(kind)} - set(more)
    return kind(**{key: value for key, value in keys.items() if key in known}, **more)


class Report:
    """What check, replay, explore, plan or upgrade found."""

    def __init__(self, data: dict[str, Any], output: Output, command: str, text: Callable[[], str],
                 page: Callable[[], str], ok: Optional[bool] = None) -> None:
        self.data = data
        self.command = command
        self.exit_code = output.exit_code
        self.ok = output.exit_code == 0 if ok is None else ok  # False: an error, or not what a scenario expects
        self._text, self._page = text, page
        self._shown: Optional[str] = None

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The servers of a check, the scenarios of a replay, the points of a plan; else the document itself."""
        for key in ("servers", "scenarios", "points"):
            if self.data.get(key):
                return list(self.data[key])
        return [self.data]

    @property
    def verdict(self) -> str:
        """Of several servers or scenarios: the first that is not "agrees"."""
        said = [part.get("verdict") or part.get("verdict_after") or part.get("can_run") for part in self.parts]
        return next((one for one in said if one not in ("agrees", "yes")), said[0]) or "undecided"

    @property
    def agrees(self) -> bool:
        return self.verdict in ("agrees", "yes")

    @property
    def findings(self) -> list[Finding]:
        found = []
        for part in self.parts:
            found += [_made(Finding, one, data=one) for one in part.get("findings") or part.get("start_findings") or []]
            for step in part.get("steps") or []:
                found += [_made(Finding, one, step=step["step"], data=one) for one in step["findings"]]
        return found

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_error]

    @property
    def capacity(self) -> Optional[Capacity]:
        """Of the first part that has one."""
        known = [part["capacity"] for part in self.parts if part.get("capacity")]
        return _made(Capacity, known[0]) if known else None

    @property
    def topology(self) -> dict[str, Any]:
        return next((part["topology"] for part in self.parts if part.get("topology")), {})

    def raise_for_errors(self) -> Report:
        """Raises ErrorsFound if the program found an error; else gives the report itself."""
        if not self.ok:
            raise ErrorsFound(self)
        return self

    def page(self) -> str:
        """The page of --report: one HTML document that needs no network."""
        return self._page()

    def __str__(self) -> str:
        if self._shown is None:
            self._shown = self._text()
        return self._shown

    def __repr__(self) -> str:
        return f"<a2asim {self.command}: {self.verdict}, {len(self.errors)} errors>"

    def _repr_html_(self) -> str:
        colour = "#1a7f37" if self.ok else "#cf222e"
        rows = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell or '')}</td>"
                             for cell in (one.severity, one.id, one.phase, one.message)) + "</tr>"
            for one in self.findings[:20] if one.severity != "note")
        head = "<tr><th>severity</th><th>finding</th><th>phase</th><th>what</th></tr>"
        table = f"<table>{head}{rows}</table>" if rows else ""
        return (f"<div><b style='color:{colour}'>{html.escape(self.verdict)}</b> ({html.escape(self.command)}){table}"
                f"<details><summary>text</summary><pre>{html.escape(str(self))}</pre></details></div>")
