"""Hypothesis strategies: launches, batches of a deployment, and whole scenarios.

    @given(a2asim.strategies.scenarios())
    def test_no_surprise(scenario):
        a2asim.replay(scenario, fidelity="geometry")
"""
from __future__ import annotations

import shlex
from typing import Any, Mapping, Optional, Sequence, Union

from hypothesis import strategies as st

from . import _commands
from ._report import Report

Step = dict[str, Any]


def launches(max_ranks: int = 8) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of a server with the one-sided all-to-all, for check(): ranks, DP attention, graphs, chunk."""

    @st.composite
    def draw_one(draw: st.DrawFn) -> dict[str, Any]:
        tp = draw(st.sampled_from([size for size in (1, 2, 4, 8, 16, 32, 64) if size <= max_ranks]))
        dp = draw(st.sampled_from([size for size in (1, 2, 4, 8, 16, 32, 64) if size <= tp]))
        is_collapsed = draw(st.booleans())
        graphs = draw(st.one_of(st.just({"disable_cuda_graph": True}),
                                st.integers(1, 64).map(lambda size: {"cuda_graph_max_bs": size})))
        return {"model_path": "M", "tp": tp, "dp": dp, "enable_dp_attention": dp > 1,
                "enable_dp_lm_head": dp > 1 and is_collapsed, "moe_dense_tp_size": 1 if is_collapsed else None,
                "moe_a2a_backend": "flashinfer", "moe_runner_backend": "flashinfer_cutlass",
                "chunked_prefill_size": draw(st.sampled_from([None, 1024, 8192])), **graphs}

    return draw_one()


def batches(deployment: Union[Report, Mapping[str, Any]], max_tokens: int = 64) -> st.SearchStrategy[Step]:
    """Steps of a scenario that fit to a deployment: the report of check(), or {"dp_size": .., "max_num_tokens": ..}."""
    if isinstance(deployment, Report):
        cap = deployment.capacity.max_num_tokens if deployment.capacity else None
        groups = deployment.topology["attn_dp_size"]
    else:
        cap, groups = deployment.get("max_num_tokens"), deployment["dp_size"]
    counts = st.lists(st.integers(0, min(max_tokens, cap or max_tokens)), min_size=groups, max_size=groups)
    return st.builds(lambda mode, tokens: {"mode": mode, "tokens": tokens}, st.sampled_from(["decode", "extend"]),
                     counts.filter(any))


def scenarios(versions: Optional[Sequence[str]] = None, max_ranks: int = 4,
              max_steps: int = 4) -> st.SearchStrategy[dict[str, Any]]:
    """Scenarios for replay(): a launch of these versions (default: all) and its steps."""

    @st.composite
    def draw_one(draw: st.DrawFn) -> dict[str, Any]:
        launch = draw(launches(max_ranks))
        step = batches({"dp_size": launch["dp"] if launch["enable_dp_attention"] else 1, "max_num_tokens": 64})
        return {"name": "drawn", "sglang": draw(st.sampled_from(list(versions or _commands.versions()))),
                "launch": shlex.join(_commands.command_of(launch)),
                "env": {"SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK": "64"},
                "model": {"num_experts": 8 * launch["tp"], "top_k": 2, "hidden_size": 64},
                "seed": draw(st.integers(0, 2**32 - 1)), "steps": draw(st.lists(step, min_size=1, max_size=max_steps))}

    return draw_one()
