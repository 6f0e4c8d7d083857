"""Runs the commands and compares the keys that they print with those of tools/docs/json.md.

json_keys_check.py PROGRAM SOURCE
"""
import json
import re
import subprocess
import sys

program, source = sys.argv[1:3]
SHAPE = "--num-experts 256 --top-k 8 --hidden-size 7168"
POINT = f"plan {SHAPE} --ep 8 --tokens 64"
FILES = " ".join(f"{source}/sim/scenarios/{name}.yaml" for name in (
    "collapse", "skip_all_gather", "fault_in_replica", "padding_rows", "fault_gather_sizes"))
# What shows all keys of an output.
CALLS = {
    "check": [f"check --sglang pr29461 --file {source}/tools/examples/collapse.sh",
              f"check {SHAPE} --file {source}/tools/examples/graph_buckets.sh",
              f"check --sglang pr14668 {SHAPE} --file {source}/tools/examples/collapse.sh",
              f"check --vllm v0.20.1 --together {source}/tools/examples/nodes/node0.sh {source}/tools/examples/nodes/node1.sh"],
    "check --sglang all": [f"check --sglang v0.5.13..v0.5.16 {SHAPE} {source}/tools/examples/collapse.sh"],
    "upgrade": [f"upgrade --from v0.5.13 --to v0.5.16 {SHAPE} {source}/tools/examples/collapse.sh"],
    "replay": [f"replay {FILES}"],
    "plan": [f"{POINT} --link-gbps 400", f"{POINT} --sglang pr14668 --max-num-tokens 16"],
    "explore": ["explore --sglang pr29461 --budget 20000", "explore --sglang pr29461 --shard 1/8 --budget 100"],
    "conformance": ["conformance --small --only law"],
    "learn": ["learn"],
    "learn LESSON": ["learn 1", "learn 3", "learn 3 --answer 1,2,3,4"],
    "generations": ["generations"],
    "conform": [f"conform --sglang-source {source}/tests/data/source_package --budget 100 --against {version}"
                for version in ("pr29461", "pr30450")],
    "explain": ["explain --all"],
}


def leaves(value, path=""):
    """The keys of everything that holds no further keys: "steps[].facts.rank"."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from leaves(entry, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for entry in value:
            yield from leaves(entry, path + "[]")
    else:
        yield path


# An empty list or null says nothing about the keys that others have below it.
documented = {}
for section in re.split(r"^## ", open(f"{source}/tools/docs/json.md").read(), flags=re.MULTILINE)[1:]:
    rows = re.findall(r"^\| (.*?) \| .+ \|$", section, flags=re.MULTILINE)
    documented[section.splitlines()[0]] = [key for row in rows if row != "key" for key in row.split(", ")]
assert documented.keys() == CALLS.keys(), f"json.md has {list(documented)}, this test {list(CALLS)}"
problems = []
for command, calls in CALLS.items():
    printed = set()
    for call in calls:
        done = subprocess.run([program, *call.split(), "--format", "json"], capture_output=True, text=True)
        assert done.returncode in (0, 1), f"{call}: {done.stderr}"
        printed |= set(leaves(json.loads(done.stdout)))
    patterns = {key: re.compile(re.escape(key.removesuffix("[]")).replace(r"\*", ".+")) for key in documented[command]}
    for path in sorted(printed):
        # A server has the keys that stand at the top where there is one only.
        if command == "check" and path.startswith("servers[].") and path.removeprefix("servers[].") in printed:
            continue
        above = any(key.startswith((path + ".", path + "[]")) for key in patterns)
        if not above and not any(pattern.fullmatch(path) for pattern in patterns.values()):
            problems.append(f"{command}: {path} is printed and not in tools/docs/json.md")
    for key, pattern in patterns.items():
        if not any(pattern.fullmatch(path) for path in printed):
            problems.append(f"{command}: {key} is in tools/docs/json.md and not printed")
print("\n".join(problems) or f"{sum(map(len, documented.values()))} keys of {len(CALLS)} outputs are as documented")
sys.exit(1 if problems else 0)
