"""The compiled part (tools/python/module.cpp)."""
from typing import Any, Callable, Optional, Sequence

def version() -> str: ...
def run(
    args: Sequence[str],
    input: str = "",
    rule: Optional[Callable[["View"], int]] = None,
    rule_name: str = "rule",
    on_progress: Optional[Callable[[str], object]] = None,
) -> tuple[int, str, str]: ...

class View:
    def __init__(
        self,
        *,
        ep_size: int = 1,
        ep_rank: int = 0,
        dp_global: Optional[Sequence[int]] = None,
        rows: int = 0,
        capture: bool = False,
        extend: bool = False,
        require_mlp_tp_gather: bool = False,
        enable_dp_attention: bool = False,
        attn_tp_size: int = 1,
        max_num_tokens: int = 0,
    ) -> None: ...
    @property
    def ep_size(self) -> int: ...
    @property
    def ep_rank(self) -> int: ...
    @property
    def dp_global(self) -> Optional[tuple[int, ...]]: ...
    @property
    def rows(self) -> int: ...
    @property
    def capture(self) -> bool: ...
    @property
    def extend(self) -> bool: ...
    @property
    def require_mlp_tp_gather(self) -> bool: ...
    @property
    def enable_dp_attention(self) -> bool: ...
    @property
    def attn_tp_size(self) -> int: ...
    @property
    def max_num_tokens(self) -> int: ...
    def as_dict(self) -> dict[str, Any]: ...
