"""Small helpers, and who knows whose token count."""

import os


def get_int_env_var(name, default=0):
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return default


def ceil_align(count, step):
    return -(-count // step) * step


def require_mlp_tp_gather(server_args):
    from sglang.srt.layers.moe.utils import get_moe_a2a_backend

    if not server_args.enable_dp_attention:
        return False
    assert server_args.dp_size > 1, "dp_size must be greater than 1"
    dense = server_args.moe_dense_tp_size
    if dense is None or not server_args.enable_dp_lm_head or get_moe_a2a_backend().is_none():
        return True
    return dense > server_args.tp_size // server_args.dp_size


def require_attn_tp_gather(server_args):
    from sglang.srt.layers.moe.utils import get_moe_a2a_backend

    if server_args.disable_attn_tp_gather:
        return False
    if get_moe_a2a_backend().is_none() and server_args.moe_dense_tp_size is None:
        return False
    return server_args.dp_size < server_args.tp_size if server_args.enable_dp_attention else True


def require_gathered_buffer(server_args):
    return require_mlp_tp_gather(server_args) or require_attn_tp_gather(server_args)


def require_mlp_sync(server_args):
    return server_args.enable_dp_attention or require_gathered_buffer(server_args)
