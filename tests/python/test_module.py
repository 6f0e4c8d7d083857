"""The module: errors, rules, interrupts, threads."""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import threading

import a2asim
import pytest

SCRIPT = a2asim.DATA / "examples/collapse.sh"
SHAPE = {"num_experts": 256, "top_k": 8, "hidden_size": 7168}
RULE = "pr29461"


def size_of_pr29461(view):
    """tools/examples/rule_pr29461.py, as a function."""
    size = max(view.rows, 1)
    counts = view.dp_global
    if counts is not None and len(counts) > 1:
        size = max(max(counts), 1 if view.rows == 0 else 0)
    elif view.ep_size > 1 and not view.require_mlp_tp_gather and not view.capture:
        size = view.max_num_tokens
    return size


def test_text_path_words_and_dictionary_are_one_launch():
    words = shlex.split("python3 -m sglang.launch_server --tp 4 --dp 4 --enable-dp-attention "
                        "--moe-a2a-backend flashinfer")
    arguments = {"tp": 4, "dp": 4, "enable_dp_attention": True, "moe_a2a_backend": "flashinfer", "skip": None}
    said = [a2asim.check(launch, version=RULE, **SHAPE).data for launch in (words, shlex.join(words), arguments)]
    for one in said:
        one.pop("servers", None)
    assert said[0]["capacity"] == said[1]["capacity"] == said[2]["capacity"]
    assert said[0]["verdict"] == said[1]["verdict"] == said[2]["verdict"]


def test_text_and_json_are_the_programs_own():
    report = a2asim.check(SCRIPT, version=RULE, **SHAPE)
    args = ["check", "--sglang", RULE, "--num-experts", "256", "--top-k", "8", "--hidden-size", "7168",
            "--file", str(SCRIPT)]
    assert str(report) == a2asim.run(args).out
    assert report.data == json.loads(a2asim.run([*args, "--format", "json"]).out)


def test_unusable_input_is_the_programs_line():
    with pytest.raises(a2asim.UnusableInput) as caught:
        a2asim.check("echo hello", version=RULE)
    assert "\n" not in str(caught.value) and not str(caught.value).startswith("a2asim")
    with pytest.raises(a2asim.UnusableInput, match="no such file|No such file|does not exist|cannot"):
        a2asim.check(pathlib.Path("/no/such/file.sh"))
    with pytest.raises(a2asim.UnusableInput):
        a2asim.check("python3 -m sglang.launch_server", no_such_option=1)


def test_errors_raise_with_the_report():
    with pytest.raises(a2asim.ErrorsFound, match="geometry_disagreement") as caught:
        a2asim.check(SCRIPT, version=RULE, **SHAPE).raise_for_errors()
    assert caught.value.report.errors[0].is_error


def test_what_others_wrote_is_escaped():
    with_markup = "python3 -m sglang.launch_server --model-path '<script>alert(1)</script>' --tp 2 --nonsense '<b>'"
    try:
        assert "<script>" not in a2asim.check(with_markup, version=RULE, **SHAPE)._repr_html_()
    except a2asim.UnusableInput as line:
        assert "<b>" in str(line) or "nonsense" in str(line)


def test_a_rule_finds_what_the_same_program_finds():
    command = f"{sys.executable} {a2asim.DATA / 'examples/rule_pr29461.py'}"
    outside = a2asim.explore(version=RULE, budget=60000, rule_cmd=command).data
    inside = a2asim.explore(size_of_pr29461, version=RULE, budget=60000).data
    assert outside.pop("rule") == command and inside.pop("rule") == "size_of_pr29461() in Python"
    assert inside == outside and inside["verdict"] == "disagrees"


def test_an_assertion_is_the_ranks_refusal_and_any_other_exception_comes_out():
    def refuses(view):
        assert view.rows < 2, "at most one row"
        return 4

    found = a2asim.explore(refuses, version="pr30450", budget=20000)
    assert "at most one row" in json.dumps(found.data)

    def broken(view):
        return {}[view.rows]

    with pytest.raises(KeyError):
        a2asim.explore(broken, version="pr30450", budget=20000)


@pytest.mark.parametrize("answer", [None, 1.5, True, "4", -1, 2**40, 2**70])
def test_what_is_no_size_is_refused(answer):
    with pytest.raises(a2asim.UnusableInput, match="the rule '<lambda>\\(\\) in Python' answered"):
        a2asim.explore(lambda view: answer, version="pr30450", budget=20000)


def test_a_rule_that_looks_at_more_than_the_view_is_caught():
    calls = iter(range(10**9))
    with pytest.raises(a2asim.UnusableInput, match="a rule may look at nothing but the view"):
        a2asim.explore(lambda view: next(calls), version="pr30450", budget=20000)


def test_a_rule_and_a_program_are_one_too_many():
    with pytest.raises(a2asim.UnusableInput, match="give one of them"):
        a2asim.explore(lambda view: 1, version="pr30450", rule_cmd="true")


def test_views_are_values():
    view = a2asim.View(ep_size=2, rows=1, dp_global=[3, 1])
    assert view.dp_global == (3, 1) and a2asim.View().dp_global is None
    assert eval(repr(view), {"View": a2asim.View}).as_dict() == view.as_dict()
    with pytest.raises(AttributeError):
        view.rows = 2


def test_other_threads_run_meanwhile():
    asked, answer = threading.Event(), threading.Event()
    beside = threading.Thread(target=lambda: asked.wait() and answer.set())
    beside.start()

    def size(view):  # answers only after another thread of Python ran, while this one is inside explore
        asked.set()
        assert answer.wait(60)
        return size_of_pr29461(view)

    assert a2asim.explore(size, version="pr30450", budget=20000).data["cases"] > 0
    beside.join()


def test_progress_is_told_and_who_is_told_can_end_the_run():
    told = []

    class Enough(Exception):
        pass

    def look(words):
        told.append(words)
        raise Enough

    with pytest.raises(Enough):
        a2asim.explore(version="all", progress=look)
    assert len(told) == 1 and "configurations" in told[0]
    assert "\x1b" not in told[0] and "\r" not in told[0]


# What a shell starts in the background ignores SIGINT, and so would Python.
ENDLESS = """
import a2asim, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
asked = []
def size(view):
    if not asked: print('asked', flush=True)
    asked.append(view)
    while {endless}: pass
    return view.rows
try:
    while True: a2asim.explore(size, version='all')
except KeyboardInterrupt:
    print('interrupted')
"""


@pytest.mark.parametrize("endless", [True, False])
def test_ctrl_c_ends_a_run(endless):
    child = subprocess.Popen([sys.executable, "-c", ENDLESS.format(endless=endless)], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert child.stdout.readline() == "asked\n"
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=60)[0] == "interrupted\n"
        assert child.returncode == 0
    finally:
        child.kill()


def test_upgrade_runs_or_says_that_it_is_not_there():
    try:
        report = a2asim.upgrade(SCRIPT, from_="pr29461", to="pr30450", **SHAPE)
    except a2asim.UnusableInput as line:
        assert "there is no command 'upgrade'" in str(line)
    else:
        assert report.agrees
