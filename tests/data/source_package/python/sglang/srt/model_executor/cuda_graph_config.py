"""Which graphs there are."""

from enum import Enum


class Backend(str, Enum):
    FULL = "full"
    DISABLED = "disabled"
