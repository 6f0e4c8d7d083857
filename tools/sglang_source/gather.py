"""require_mlp_tp_gather and its three siblings."""

import os

from checkout import World, lacks
from standins import Settings, Torch

HINTS = ["sglang.srt.utils.common", "sglang.srt.utils"]
PREDICATES = ["require_mlp_tp_gather", "require_attn_tp_gather", "require_gathered_buffer", "require_mlp_sync"]
_FIELDS = ["enable_dp_attention", "dp_size", "tp_size", "moe_dense_tp_size", "enable_dp_lm_head"]


class Backend:
    """A MoE all-to-all that the checkout's enum has no name for: it is none of those that it asks about."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, question):
        if not question.startswith("is_"):
            raise AttributeError(question)
        return lambda: question[3:] == self.name


def backend_of(world, name):
    enum = world.get("sglang.srt.layers.moe.utils", "MoeA2ABackend")
    known = isinstance(enum, type) and any(member.value == name for member in enum)
    return enum(name) if known else Backend(name)


class Gather:
    def __init__(self, checkout):
        self.args = args = Settings("server_args")
        self.moe = moe = Settings("get_exec().moe", elastic_ep_backend=None)
        exec_settings = Settings("get_exec()", moe=moe)
        self.expanded = False
        self.backends = {}
        self.world = World(
            checkout,
            standins={
                "get_moe_a2a_backend": lambda: self.backend,
                "get_parallel": lambda: args,
                "get_exec": lambda: exec_settings,
                "get_global_server_args": lambda: args,
                "configured_tp_size": lambda: args.tp_size,
                "elastic_expanded_world_enabled": lambda: self.expanded,
            },
            modules={"torch": Torch(shapes=True)},
        )
        self.functions = []
        for name in PREDICATES:
            module, node = checkout.locate([name], HINTS)
            self.functions.append((name, self.world.get(module, node.name)))

    def answer(self, q):
        for field in _FIELDS:
            setattr(self.args, field, q[field])
        self.args.disable_attn_tp_gather = bool(q.get("disable_attn_tp_gather"))
        self.args.elastic_ep_backend = self.moe.elastic_ep_backend = q.get("elastic_ep_backend")
        self.expanded = bool(q.get("elastic_expanded_world_enabled"))
        os.environ["SGLANG_MORI_RECV_BOUND"] = "1" if q.get("SGLANG_MORI_RECV_BOUND") else "0"
        name = q["moe_a2a_backend"]
        if name not in self.backends:
            self.backends[name] = backend_of(self.world, name)
        self.backend = self.backends[name]
        self.args.moe_a2a_backend = name
        return {name: _value(function, self.args) for name, function in self.functions}


def _value(function, args):
    try:
        return bool(function(args))
    except (AssertionError, TypeError, ZeroDivisionError) as error:
        if lacks(error):
            raise
        return {"error": type(error).__name__ + (f": {error}" if str(error) else "")}
