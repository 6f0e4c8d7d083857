"""Context parallelism: how far counts are rounded up."""

from sglang.srt.layers.cp.split import is_prefill_cp_in_seq_split
from sglang.srt.runtime_context import get_parallel


def get_cp_padding_align_size():
    return get_parallel().attn_cp_size * (2 if is_prefill_cp_in_seq_split() else 1)
