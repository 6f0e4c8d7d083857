"""Variables of the environment."""

import os


class _Flag:
    def __init__(self, name):
        self.name = name

    def get(self):
        return os.environ.get(self.name, "").lower() in ("1", "true", "yes", "y")

    def set(self, value):
        os.environ[self.name] = str(value)


class _Variables:
    SGLANG_MOE_NVFP4_DISPATCH = _Flag("SGLANG_MOE_NVFP4_DISPATCH")
    SGLANG_SCHEDULER_SKIP_ALL_GATHER = _Flag("SGLANG_SCHEDULER_SKIP_ALL_GATHER")


envs = _Variables()
