"""Which all-to-all, and which runner."""

from enum import Enum


class MoeA2ABackend(Enum):
    NONE = "none"
    FLASHINFER = "flashinfer"
    DEEPEP = "deepep"

    def is_none(self):
        return self is MoeA2ABackend.NONE

    def is_flashinfer(self):
        return self is MoeA2ABackend.FLASHINFER


class MoeRunnerBackend(Enum):
    FLASHINFER_CUTLASS = "flashinfer_cutlass"
    FLASHINFER_CUTEDSL = "flashinfer_cutedsl"

    def is_flashinfer_cutlass(self):
        return self is MoeRunnerBackend.FLASHINFER_CUTLASS


def get_moe_a2a_backend():
    raise RuntimeError("no server runs here")
