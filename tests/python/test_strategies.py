"""The Hypothesis strategies: what they draw can be used, and the program keeps its word on it."""
import a2asim
from a2asim import strategies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SHAPE = {"num_experts": 256, "top_k": 8, "hidden_size": 7168}


@FEW
@given(strategies.launches(), st.sampled_from(a2asim.versions()))
def test_every_launch_has_a_verdict(launch, version):
    assert a2asim.check(launch, version=version, **SHAPE).verdict in (
        "agrees", "disagrees", "over_capacity", "rejected", "out_of_scope")


def test_launches_of_both_verdicts_are_drawn():
    seen = set()

    @FEW
    @given(strategies.launches())
    def collect(launch):
        seen.add(a2asim.check(launch, version="pr29461", **SHAPE).verdict)

    collect()
    assert {"agrees", "disagrees"} <= seen


@FEW
@given(st.data())
def test_batches_fit_to_their_deployment(data):
    report = a2asim.check({"model_path": "M", "tp": 4, "dp": 4, "enable_dp_attention": True,
                           "moe_a2a_backend": "flashinfer", "moe_runner_backend": "flashinfer_cutlass"},
                          version="pr30450", **SHAPE)
    step = data.draw(strategies.batches(report))
    assert len(step["tokens"]) == 4 and 0 < sum(step["tokens"]) and max(step["tokens"]) <= 64


@FEW
@given(strategies.scenarios())
def test_where_check_finds_no_error_no_drawn_step_disagrees(scenario):
    shape = {key: scenario["model"][key] for key in ("num_experts", "top_k", "hidden_size")}
    replayed = a2asim.replay(scenario, fidelity="geometry")
    if replayed.verdict == "disagrees":
        assert not a2asim.check(scenario["launch"], version=scenario["sglang"], env=scenario["env"], **shape).ok
