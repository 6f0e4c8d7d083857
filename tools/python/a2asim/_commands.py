"""The program's commands as functions. num_experts=256 stands for --num-experts 256."""
from __future__ import annotations

import functools
import json
import pathlib
import tempfile
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from ._report import Report
from ._run import Progress, Rule, options, run

Launch = Union[str, pathlib.Path, Sequence[str], Mapping[str, Any]]
Scenario = Union[str, pathlib.Path, Mapping[str, Any]]

STARTS = {"sglang": "python3 -m sglang.launch_server", "vllm": "vllm serve", "trtllm": "trtllm-serve"}
DATA = pathlib.Path(__file__).parent / "data"


def rule(size: Rule) -> Rule:
    """Marks a sizing rule: View -> runtime_max_tokens_per_rank. An AssertionError is the rank's own refusal.

    >>> @rule
    ... def own_rows(view):
    ...     return view.rows
    >>> import a2asim
    >>> own_rows(a2asim.View(rows=3))
    3
    """
    if not callable(size):
        raise TypeError("@a2asim.rule goes above a function: def size(view): return view.rows")
    return size


def command_of(arguments: Mapping[str, Any], engine: str = "sglang") -> list[str]:
    """The launch command of a dictionary of arguments; True stands for an option without a value.

    >>> command_of({"tp": 8, "enable_dp_attention": True, "cuda_graph_bs": [1, 2]})[3:]
    ['--tp', '8', '--enable-dp-attention', '--cuda-graph-bs', '1', '2']
    """
    words = STARTS[engine].split()
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words += map(str, value) if isinstance(value, (list, tuple)) else [str(value)]
    return words


def _report(name: str, args: Sequence[str], tail: Sequence[str] = (), *, input: str = "", rule: Optional[Rule] = None,
            progress: Optional[Progress] = None, keep: Any = None,
            text: Optional[Callable[[str], str]] = None) -> Report:
    def again(more: Sequence[str]) -> str:
        keep  # files that the command reads live as long as the report
        return run([name, *args, *more, *tail], input, rule, progress).out

    def page() -> str:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "report.html")
            again(["--report", str(path)])
            return path.read_text(encoding="utf-8")

    output = run([name, *args, "--format", "json", *tail], input, rule, progress)
    return Report(json.loads(output.out), output, name, (lambda: text(output.out)) if text else lambda: again([]), page)


def _launch(launch: Launch, engine: Optional[str]) -> tuple[list[str], list[str], str]:
    """Options, words at the end, and standard input."""
    if isinstance(launch, pathlib.Path):
        return ["--file", str(launch)], [], ""
    if isinstance(launch, str):
        return ["--file", "-"], [], launch
    words = command_of(launch, engine or "sglang") if isinstance(launch, Mapping) else [str(word) for word in launch]
    return [], ["--", *words], ""


def _version(version: Optional[str], engine: Optional[str]) -> list[str]:
    return [] if version is None else [f"--{engine or 'sglang'}", version]


def _environment(env: Optional[Mapping[str, Any]]) -> list[str]:
    return [word for name, value in (env or {}).items() for word in ("--env", f"{name}={value}")]


def check(launch: Launch, *, version: Optional[str] = None, engine: Optional[str] = None,
          env: Optional[Mapping[str, Any]] = None, rule: Optional[Rule] = None, progress: Optional[Progress] = None,
          **more: Any) -> Report:
    """Will all ranks agree, does it fit? `launch`: text, a pathlib.Path, a list of words, or a dictionary of arguments.

    >>> report = check(DATA / "examples/collapse.sh", version="pr29461", num_experts=256, top_k=8, hidden_size=7168)
    >>> report.agrees, report.verdict, report.errors[0].id
    (False, 'disagrees', 'geometry_disagreement')
    >>> report.capacity.max_num_tokens
    4096
    >>> check("echo hello")
    Traceback (most recent call last):
    a2asim.UnusableInput: ...
    """
    before, tail, text = _launch(launch, engine)
    named = ["--engine", engine] if engine else []
    args = [*named, *_version(version, engine), *_environment(env), *options(more), *before]
    return _report("check", args, tail, input=text, rule=rule, progress=progress)


def upgrade(launch: Launch, *, to: str, from_: Optional[str] = None, env: Optional[Mapping[str, Any]] = None,
            engine: Optional[str] = None, progress: Optional[Progress] = None, **more: Any) -> Report:
    """What another version changes for this launch."""
    before, tail, text = _launch(launch, engine)
    args = [*options({"from": from_, "to": to, **more}), *_environment(env), *before[1:]]
    return _report("upgrade", args, tail, input=text, progress=progress)


def replay(*scenarios: Scenario, version: Optional[str] = None, engine: Optional[str] = None,
           rule: Optional[Rule] = None, progress: Optional[Progress] = None, **more: Any) -> Report:
    """Runs scenarios on the simulated cluster. Each is a path, a text of YAML or JSON, or a dictionary.

    >>> replay(DATA / "scenarios/collapse.yaml").ok, replay(DATA / "scenarios/collapse.yaml").verdict
    (True, 'disagrees')
    """
    folder = tempfile.TemporaryDirectory(prefix="a2asim_")
    files = []
    for number, scenario in enumerate(scenarios):
        is_text = isinstance(scenario, Mapping) or (isinstance(scenario, str) and "\n" in scenario)
        if not is_text:
            files.append(str(scenario))
            continue
        path = pathlib.Path(folder.name, f"scenario{number}.yaml")
        path.write_text(json.dumps(scenario) if isinstance(scenario, Mapping) else str(scenario), encoding="utf-8")
        files.append(str(path))
    args = [*files, *_version(version, engine), *options(more)]
    return _report("replay", args, rule=rule, progress=progress, keep=folder)


def _merged(document: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "explore.json")
        path.write_text(document, encoding="utf-8")
        return run(["merge", str(path)]).out


def explore(rule: Optional[Rule] = None, *, version: Optional[str] = None, engine: Optional[str] = None,
            shard: str = "0/1", progress: Optional[Progress] = None, **more: Any) -> Report:
    """Tries all small configurations and batches, with the version's rule or your own, smallest first.

    >>> found = explore(lambda view: max(view.rows, 1), version="pr30450", budget=40000)
    >>> found.errors[0].id, len(set(found.errors[0].witness["tokens_per_dp_rank"])) > 1
    ('geometry_disagreement', True)
    >>> replay(found.errors[0].scenario, rule=lambda view: max(view.rows, 1)).verdict
    'disagrees'
    """
    args = [*_version(version, engine), *options({"shard": shard, **more})]
    text = _merged if shard == "0/1" else None
    return _report("explore", args, rule=rule, progress=progress, text=text)


def plan(model: Optional[str] = None, *, ep: Union[int, Iterable[int]], tokens: Union[int, Iterable[int]],
         version: Optional[str] = None, engine: Optional[str] = None, progress: Optional[Progress] = None,
         **more: Any) -> Report:
    """Memory, traffic and waste of a deployment before it exists; lists of `ep` and `tokens` make a sweep.

    >>> plan("DeepSeek-V3", ep=[8, 16], tokens=128).verdict
    'yes'
    """
    sizes = {name: one if isinstance(one, int) else list(one) for name, one in (("ep", ep), ("tokens", tokens))}
    return _report("plan", [*_version(version, engine), *options({"model": model, **sizes, **more})], progress=progress)


@functools.lru_cache(maxsize=None)
def versions(engine: str = "sglang") -> tuple[str, ...]:
    """The versions that the program knows, oldest first.

    >>> "pr30450" in versions()
    True
    """
    document = json.loads(run(["generations", "--format", "json"]).out)
    return tuple(one["name"] for one in document["generations"])


def explain(finding: str) -> str:
    """What a finding means, why it happens and how to fix it.

    >>> explain("geometry_disagreement").splitlines()[0].split(":")[0]
    'geometry_disagreement'
    """
    return run(["explain", finding]).out
