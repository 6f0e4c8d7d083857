"""settings_check.py PROGRAM SOURCE: a2asim.toml, its schema, the pre-commit hook and the composite action go together.

The schema takes the shipped file; the program takes every key of the schema, and refuses every other; what the hook and
the action run is run here, on a launch that agrees and on one that disagrees.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import tomllib
    import yaml
except ImportError as missing:
    print(f"SKIPPED: needs {missing.name} (Python 3.11, python3-jsonschema, python3-yaml)")
    sys.exit(77)

program, source = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
schema = json.loads((source / "tools/docs/a2asim.schema.json").read_text())
jsonschema.Draft7Validator.check_schema(schema)
example = (source / "tools/examples/settings/a2asim.toml").read_text()
jsonschema.validate(tomllib.loads(example), schema)

GOOD = ("python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention "
        "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --max-running-requests 512 "
        "--chunked-prefill-size 8192 --cuda-graph-max-bs 64")
BAD = GOOD + " --enable-dp-lm-head --moe-dense-tp-size 1"
VALUES = {"model": '"DeepSeek-V3"', "num-experts": "256", "top-k": "8", "hidden-size": "7168", "gpu-memory": "141",
          "env": '{ A = "1" }', "ignore": '[{ id = "wasted", reason = "x" }]', "paths": '["."]', "exclude": '["x/**"]',
          "strict": "false", "model-config": '"config.json"', "gpu": '"H200"', "nvlink-domain": "8"}
versions = set(schema["properties"]) - set(VALUES) - {"per-path"}


def check(folder, *arguments):
    return subprocess.run([program, "check", *arguments], cwd=folder, capture_output=True, text=True)


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    (root / "serve.sh").write_text(GOOD + "\n")
    (root / "config.json").write_text('{"num_experts": 256, "num_experts_per_tok": 8, "hidden_size": 7168}')
    shape = {key: VALUES[key] for key in ("num-experts", "top-k", "hidden-size")}  # these belong together
    for where, properties in (("", schema["properties"]), ('[[per-path]]\npath = "*.sh"\n',
                                                           schema["properties"]["per-path"]["items"]["properties"])):
        for key in properties:
            if key in ("per-path", "path"):
                continue
            lines = shape if key in shape else {key: VALUES.get(key, '"latest"')}
            (root / "a2asim.toml").write_text(where + "".join(f"{name} = {value}\n" for name, value in lines.items()))
            done = check(root, "serve.sh")
            assert done.returncode in (0, 1), f"{where}{key}: {done.stderr}"
        (root / "a2asim.toml").write_text(where + "no-such-key = 1\n")
        assert check(root, "serve.sh").returncode == 2
    told = subprocess.run([program, "check", "--help"], capture_output=True, text=True).stdout
    assert versions == set(re.findall(r"--(\w+) VERSION", told)), f"{versions}: every engine's version is a key"

    # The shipped settings, and what the hook and the action run.
    (root / "a2asim.toml").write_text(example)
    hook = yaml.safe_load((source / "tools/examples/pre-commit-hooks.yaml").read_text())[0]["hooks"][0]
    action = yaml.safe_load((source / "tools/examples/github/action/action.yml").read_text())
    steps = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite" and len(steps) == 1
    assert "${{" not in steps[0]["run"], "an expression in a shell can be an injection: pass it through env"
    (root / "bin").mkdir()
    (root / "bin/a2asim").symlink_to(program)
    environment = {"PATH": f"{root}/bin:{os.environ['PATH']}", "PATHS": ".", "ARGUMENTS": "--sglang v0.5.13"}
    for launch, code in ((GOOD, 0), (BAD, 1)):
        (root / "serve.sh").write_text(f"# a2asim: version=v0.5.13\n{launch}\n")
        done = subprocess.run(["bash", "-c", hook["entry"]], cwd=root, env=environment, capture_output=True, text=True)
        assert done.returncode == code, f"hook: {done.returncode} {done.stdout}{done.stderr}"
        done = subprocess.run(["bash", "-e", "-c", steps[0]["run"]], cwd=root, env=environment, capture_output=True,
                              text=True)
        assert done.returncode == code, f"action: {done.returncode} {done.stdout}{done.stderr}"
        assert ("::error file=serve.sh" in done.stdout) == (code == 1), done.stdout
print(f"{len(schema['properties'])} keys of a2asim.toml, a hook and an action")
