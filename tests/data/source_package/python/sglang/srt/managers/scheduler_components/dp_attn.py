"""What the ranks tell each other before a step."""

import torch

from sglang.srt.distributed.parallel_state import get_tp_group
from sglang.srt.environ import envs
from sglang.srt.model_executor.forward_batch_info import ForwardMode


def _gather(row, dp_size, attn_tp_size):
    width = len(row)
    table = torch.empty((dp_size, attn_tp_size, width), dtype=torch.int64)
    torch.distributed.all_gather_into_tensor(table.flatten(), torch.tensor(row), group=None)
    dead = table.view(dp_size * attn_tp_size, width)
    dead[get_tp_group().active_ranks_cpu == 0] = torch.tensor([0, 0, 1, 0, 0])
    return table[:, 0, :]


def _count(batch):
    if batch is None or batch.forward_mode.is_prebuilt() or batch.forward_mode.is_idle():
        return 0, 0
    if batch.forward_mode.is_decode():
        return batch.batch_size(), batch.batch_size()
    pairs = zip(batch.extend_logprob_start_lens, batch.extend_lens)
    logprob = sum(max(length - start, 1) for start, length in pairs)
    assert batch.return_logprob or logprob == batch.batch_size()
    return batch.extend_num_tokens, logprob


def prepare_mlp_sync_batch_raw(
    local_batch, dp_size, attn_tp_size, attn_cp_size, tp_group, get_idle_batch, disable_cuda_graph, require_mlp_tp_gather,
    disable_overlap_schedule, offload_tags, dwdp=False,
):
    mode = None if local_batch is None else local_batch.forward_mode
    tokens, logprob = _count(local_batch)
    quiet = mode is None or mode.is_decode() or mode.is_idle() or mode.is_prebuilt()
    votes = [quiet and not disable_cuda_graph, mode in (ForwardMode.EXTEND, ForwardMode.MIXED) and not disable_cuda_graph]
    extends = mode is not None and mode.is_extend()
    if local_batch is not None:
        local_batch.is_extend_in_batch = extends
    counts = logprobs = None
    skip = envs.SGLANG_SCHEDULER_SKIP_ALL_GATHER.get()
    if not skip:
        table = _gather([tokens, logprob, int(votes[0]), int(extends), int(votes[1])], dp_size, attn_tp_size * attn_cp_size)
        counts, logprobs = table[:, 0].tolist(), table[:, 1].tolist()
        votes = [bool(table[:, 2].min().item()), bool(table[:, 4].min().item())]
        extends = bool(table[:, 3].max().item())
    carrier = local_batch
    if (not dwdp and dp_size > 1) if skip else max(counts) > 0:
        if local_batch is None:
            carrier = local_batch = get_idle_batch()
        elif mode.is_prebuilt():
            carrier = local_batch.inner_idle_batch = get_idle_batch()
    if carrier is not None:
        carrier.global_num_tokens = counts if require_mlp_tp_gather else [tokens]
        carrier.global_num_tokens_for_logprob = logprobs if require_mlp_tp_gather else [logprob]
        if not skip:
            carrier.is_extend_in_batch = extends
        carrier.can_run_dp_cuda_graph, carrier.can_run_dp_breakable_cuda_graph = votes
    return local_batch
