"""The dispatcher of the fixed-geometry all-to-all."""

from typing import NamedTuple

import torch
from flashinfer.comm import Mapping, MoeAlltoAll, moe_a2a_get_workspace_size_per_rank

from sglang.srt.environ import envs
from sglang.srt.layers.dp_attention import get_dp_global_num_tokens
from sglang.srt.layers.moe.token_dispatcher import BaseDispatcher
from sglang.srt.model_executor.runner.capture_mode import get_is_capture_mode
from sglang.srt.server_args import get_global_server_args
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
from sglang.srt.utils.common import get_int_env_var, require_mlp_tp_gather

MOE_NVFP4_DISPATCH = envs.SGLANG_MOE_NVFP4_DISPATCH.get()


class Dispatched(NamedTuple):
    hidden_states: torch.Tensor
    topk_ids: torch.Tensor
    topk_weights: torch.Tensor


class FlashinferDispatcher(BaseDispatcher):
    def __init__(self, group, router_topk, num_experts=None, num_local_experts=None, hidden_size=None, params_dtype=None):
        super().__init__()
        self.ep_size, self.ep_rank = group.size(), group.rank()
        self.hidden_size, self.num_experts, self.router_topk = hidden_size, num_experts, router_topk
        args = get_global_server_args()
        chunk = args.chunked_prefill_size or 0
        self.max_num_tokens = get_int_env_var(
            "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK", max(chunk if chunk > 0 else 4096, 4096)
        )
        topk_bytes = 8 * router_topk
        quantized = MOE_NVFP4_DISPATCH and not SpeculativeAlgorithm.from_string(args.speculative_algorithm).is_eagle()
        row_bytes = hidden_size // 2 + hidden_size // 16 if quantized else 2 * hidden_size
        workspace = moe_a2a_get_workspace_size_per_rank(
            ep_size=self.ep_size,
            max_num_tokens=self.max_num_tokens,
            total_dispatch_payload_size_per_token=row_bytes + topk_bytes,
            combine_payload_size_per_token=2 * hidden_size,
        )
        self.moe_a2a = MoeAlltoAll(
            mapping=Mapping(rank=self.ep_rank, world_size=self.ep_size),
            max_num_tokens=self.max_num_tokens,
            workspace_size_per_rank=workspace,
        )

    def dispatch(self, hidden_states, topk_output):
        x, ids, weights = hidden_states, topk_output.topk_ids, topk_output.topk_weights
        self.has_dummy_token = x.shape[0] == 0
        if self.has_dummy_token:
            x = x.new_zeros((1, self.hidden_size))
            ids, weights = ids.new_zeros((1, self.router_topk)), weights.new_zeros((1, self.router_topk))
        counts = get_dp_global_num_tokens()
        if counts is not None and len(counts) > 1:
            size = max(counts)
        elif self.ep_size > 1 and not get_is_capture_mode() and not require_mlp_tp_gather(get_global_server_args()):
            size = self.max_num_tokens
        else:
            size = x.shape[0]
        if self.has_dummy_token:
            size = max(size, 1)
        self.runtime_max_tokens_per_rank = size
        received = self.moe_a2a.dispatch(ids, [x, ids, weights], size, invalid_token_expert_id=self.num_experts)
        return Dispatched(*(tensor.view(-1, tensor.shape[-1]) for tensor in received))

    def combine(self, combine_input):
        hidden = combine_input.hidden_states
        out = self.moe_a2a.combine(
            hidden.view(self.ep_size, self.runtime_max_tokens_per_rank, hidden.shape[-1]), self.runtime_max_tokens_per_rank
        )
        if self.has_dummy_token:
            out = out[1:, :]
        del self.runtime_max_tokens_per_rank, self.has_dummy_token
        return out
