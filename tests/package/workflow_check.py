#!/usr/bin/env python3
"""workflow_check.py WORKFLOW PROGRAM EXAMPLES: the example workflow is safe to copy, and its shell does what it says.

Pinned actions, least permissions, no expression pasted into a shell; and the step `Check` is run, on a launch that
disagrees, on one that agrees, and on a file that is no launch.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    print("SKIPPED: needs python3-yaml")
    sys.exit(0)

workflow_file, program, examples = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
text = workflow_file.read_text()
workflow = yaml.safe_load(text)
assert "pull_request_target" not in text
assert workflow["permissions"] == {}, "nothing is allowed unless a job says so"

for name, job in workflow["jobs"].items():
    assert set(job["permissions"].items()) == {("contents", "read"), ("security-events", "write")}, job["permissions"]
    assert job["timeout-minutes"] <= 30
    for step in job["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", step["uses"]), f"not pinned: {step['uses']}"
        assert "${{" not in step.get("run", ""), "an expression in a shell can be an injection: pass it through env"
    checkout = next(step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@"))
    assert checkout["with"]["persist-credentials"] is False
pins = re.findall(r"uses: \S+@[0-9a-f]{40}(.*)", text)
assert len(pins) == text.count("uses:") and all(re.fullmatch(r" # v[0-9.]+", pin) for pin in pins), "name the releases"

job = workflow["jobs"]["check"]
steps = {step["name"]: step for step in job["steps"] if "name" in step}
shell = steps["Check"]["run"]
upload = steps["Upload the findings"]
assert upload["with"]["sarif_file"] == "a2asim.sarif"
# A token of a fork's pull request may not write security events.
guard = upload["if"]
assert guard.startswith("${{") and guard.endswith("}}") and "!cancelled()" in guard
assert "github.event.pull_request.head.repo.full_name == github.repository" in guard
assert job["runs-on"] != "ubuntu-latest", "the package fits one system"
for run in (step["run"] for step in job["steps"] if "run" in step):
    subprocess.run(["bash", "-n"], input=run, text=True, check=True)

with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "bin").mkdir()
    (folder / "bin/a2asim").symlink_to(program)
    (folder / "no_launch.sh").write_text("echo hello\n")
    (folder / "hostile.sh").write_text("python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 4\n--" +
                                       "z" * 54 + " ::error::no '##[error]no' ::add-mask::a2asim\n")

    words = set()

    def check(script, sglang):
        """The step as GitHub runs it; gives its exit code and the SARIF file, if one is left to upload."""
        environment = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "SGLANG": sglang, "SCRIPT": str(script)}
        (folder / "a2asim.sarif").unlink(missing_ok=True)
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", shell], cwd=folder,
                              env=environment, capture_output=True, text=True)
        sarif = folder / "a2asim.sarif"
        lines = (done.stdout + done.stderr).splitlines()
        stop = re.fullmatch(r"::stop-commands::([0-9a-f]{32})", lines[0])
        assert stop and lines.count(f"::{stop[1]}::") == 1, "what the script says stands between these two lines"
        assert not any(stop[1] in line for line in lines[1:lines.index(f"::{stop[1]}::")])
        words.add(stop[1])
        if sarif.exists():
            assert ("DISAGREES" in done.stdout) == (done.returncode == 1), "the log says it in words"
        return done.returncode, json.loads(sarif.read_text()) if sarif.exists() else None

    code, sarif = check(examples / "collapse.sh", "pr29461")
    assert code == 1 and sarif["version"] == "2.1.0", code
    assert any(result["ruleId"] == "geometry_disagreement" for result in sarif["runs"][0]["results"])
    code, sarif = check(examples / "collapse.sh", "pr30450")
    assert code == 0 and not any(result.get("level") == "error" for result in sarif["runs"][0]["results"])
    code, sarif = check(folder / "no_launch.sh", "pr30450")
    assert code == 2 and sarif is None, (code, sarif)
    check(folder / "hostile.sh", "pr30450")
    assert len(words) == 4, "another word each time"
    assert "vars." not in text, "variables of the repository are empty in pull requests from forks"

print(f"{workflow_file.name}: {len(pins)} pinned actions, the check step runs")
