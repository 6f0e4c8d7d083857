"""A batch on its way through the model."""

from enum import IntEnum, auto

import torch

from sglang.srt.layers.dp_attention import DpPaddingMode, set_dp_buffer_len
from sglang.srt.runtime_context import get_parallel
from sglang.srt.utils.common import ceil_align


class ForwardMode(IntEnum):
    EXTEND = auto()
    DECODE = auto()
    MIXED = auto()
    IDLE = auto()
    TARGET_VERIFY = auto()
    PREBUILT = auto()

    def is_extend(self):
        return self in (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.TARGET_VERIFY)

    def is_decode(self):
        return self is ForwardMode.DECODE

    def is_idle(self):
        return self is ForwardMode.IDLE

    def is_prebuilt(self):
        return self is ForwardMode.PREBUILT

    def has_fixed_width(self):
        return self in (ForwardMode.DECODE, ForwardMode.IDLE, ForwardMode.TARGET_VERIFY)


class ForwardBatch:
    def prepare_mlp_sync_batch(self, model_runner):
        from sglang.srt.layers.cp.padding import get_cp_padding_align_size

        parallel = get_parallel()
        step = get_cp_padding_align_size()
        counts = [ceil_align(ceil_align(n, parallel.attn_tp_size), step) for n in self.global_num_tokens_cpu]
        mode = self.dp_padding_mode = DpPaddingMode.get_dp_padding_mode(self.is_extend_in_batch, counts)
        if mode.is_max_len():
            counts = [max(counts)] * len(counts)
        own = counts[parallel.attn_dp_rank] if len(counts) > 1 else counts[0]
        self.global_dp_buffer_len = sum(counts)
        set_dp_buffer_len(self.global_dp_buffer_len, own, mode.is_max_len(), counts)
        bs = self.batch_size
        if not self.forward_mode.has_fixed_width():
            self.extend_num_tokens = own
        elif self.is_extend_in_batch and mode.is_max_len():
            self.forward_mode, self.extend_num_tokens = ForwardMode.EXTEND, bs
        else:
            bs = self.batch_size = own if self.spec_info is None else own // self.spec_info.num_tokens_per_req
        self._pad_inputs_to_size(model_runner, own, bs)
        self.global_num_tokens_cpu = counts
        self.global_num_tokens_gpu.copy_(torch.tensor(counts))
