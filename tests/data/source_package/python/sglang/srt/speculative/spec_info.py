"""Speculative decoding."""

from enum import Enum, auto


class SpeculativeAlgorithm(Enum):
    NONE = auto()
    EAGLE = auto()
    EAGLE3 = auto()
    STANDALONE = auto()
    NGRAM = auto()

    @classmethod
    def from_string(cls, name):
        return cls.NONE if name is None else cls[name.upper()]

    def is_eagle(self):
        return self in (SpeculativeAlgorithm.EAGLE, SpeculativeAlgorithm.EAGLE3)

    def is_standalone(self):
        return self is SpeculativeAlgorithm.STANDALONE
