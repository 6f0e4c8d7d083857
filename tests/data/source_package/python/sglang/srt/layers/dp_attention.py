"""How lists of token counts are padded."""

from enum import IntEnum, auto


class DpPaddingMode(IntEnum):
    MAX_LEN = auto()
    SUM_LEN = auto()

    def is_max_len(self):
        return self is DpPaddingMode.MAX_LEN

    @classmethod
    def get_dp_padding_mode(cls, is_extend_in_batch, counts):
        ranks = get_attention_dp_size()
        if is_extend_in_batch and ranks > 1:
            return cls.SUM_LEN
        return cls.MAX_LEN if 2 * sum(counts) >= ranks * max(counts) else cls.SUM_LEN


def get_attention_dp_size():
    raise RuntimeError("no server runs here")
