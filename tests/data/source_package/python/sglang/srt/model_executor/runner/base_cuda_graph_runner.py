"""CUDA graphs: sizes."""

import bisect

from sglang.srt.runtime_context import get_parallel
from sglang.srt.utils.common import require_gathered_buffer


def get_batch_sizes_to_capture(model_runner, num_tokens_per_bs=1):
    args = model_runner.server_args
    sizes = list(args.cuda_graph_config.decode.bs)
    parallel = get_parallel()
    step = 2 if args.enable_two_batch_overlap else 1
    width = 1 if args.enable_two_batch_overlap else num_tokens_per_bs
    if require_gathered_buffer(args):
        step *= parallel.attn_tp_size
    if step % parallel.attn_cp_size != 0:
        step *= parallel.attn_cp_size
    most = -(-model_runner.req_to_token_pool.size // step) * step
    if max(sizes) > most:
        sizes.append(most)
    kept = sorted({bs for bs in sizes if bs * width % step == 0 and bs <= most})
    assert kept and kept[0] > 0, f"capture_bs={kept}"
    return kept, []


class BaseCudaGraphRunner:
    @staticmethod
    def _pad_to_bucket(raw_size, buckets):
        assert raw_size <= buckets[-1], f"size {raw_size} exceeds max captured bucket {buckets[-1]}"
        return buckets[bisect.bisect_left(buckets, raw_size)]
