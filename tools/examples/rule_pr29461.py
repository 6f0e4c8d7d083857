#!/usr/bin/env python3
"""The sizing rule of SGLang #29461 as a program of one's own.

    a2asim explore --sglang pr29461 --rule-cmd "python3 tools/examples/rule_pr29461.py"

finds what went wrong with it (#30242): while graphs are captured the local rows are baked, and ranks that replay
buckets of unequal size disagree. One JSON object a line: a rank's view in, the size of the all-to-all out.
"""
import json
import sys

for line in sys.stdin:
    view = json.loads(line)
    counts = view["dp_global"]
    size = max(view["rows"], 1)  # until #22394 a rank without tokens sends a dummy row
    if counts is not None and len(counts) > 1:
        size = max(max(counts), 1 if view["rows"] == 0 else 0)
    elif view["ep_size"] > 1 and not view["require_mlp_tp_gather"] and not view["capture"]:
        size = view["max_num_tokens"]
    print(json.dumps({"id": view["id"], "runtime_max_tokens_per_rank": size}), flush=True)
