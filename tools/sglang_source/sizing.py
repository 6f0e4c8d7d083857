"""FlashinferDispatcher: what its constructor makes of the cap, and what its dispatch() gives to the all-to-all."""

import os
from types import SimpleNamespace

from checkout import Unfit, World
from standins import Settings, Shape, Torch

CAP_VARIABLE = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
HINTS = ["sglang.srt.layers.moe.token_dispatcher.flashinfer"]
_HIDDEN, _TOP_K, _EXPERTS = 4096, 8, 256


class Recorder:
    """Stands in for flashinfer.comm.MoeAlltoAll: keeps what it is given, returns shapes."""

    def __init__(self, **given):
        self.given = given
        self.call = None

    def dispatch(self, token_selected_experts, payloads, runtime_max_tokens_per_rank, **more):
        self.call = (payloads, runtime_max_tokens_per_rank, more)
        self.rows = payloads[0].shape[0]
        ranks, slots = self.ranks, runtime_max_tokens_per_rank
        return [Shape((ranks, slots, payload.shape[1]), payload.dtype) for payload in payloads]

    def combine(self, payload, runtime_max_tokens_per_rank, **_):
        return Shape((self.rows, payload.shape[-1]), payload.dtype)

    def get_combine_payload_tensor_in_workspace(self, runtime_max_tokens_per_rank, hidden_size, dtype):
        return Shape((self.ranks, runtime_max_tokens_per_rank, hidden_size), dtype)


class _Group:
    def __init__(self):
        self.ep_size, self.ep_rank = 1, 0
        self.device_group = self.cpu_group = self

    def size(self):
        return self.ep_size

    def rank(self):
        return self.ep_rank

    def __getattr__(self, name):
        known = {"world_size": self.ep_size, "rank_in_group": self.ep_rank}
        if name in known:
            return known[name]
        raise Unfit(f"the dispatcher asks the process group for {name}, which has no stand-in")

    def all_gatherv(self, tensors, sizes=None):
        rows = sum(sizes) if sizes is not None else tensors[0].shape[0] * self.ep_size
        self.gathered = list(sizes) if sizes is not None else [tensors[0].shape[0]] * self.ep_size
        made = [Shape((rows, *tensor.shape[1:]), tensor.dtype) for tensor in _as_list(tensors)]
        return made if isinstance(tensors, (list, tuple)) else made[0]


def _as_list(tensors):
    return tensors if isinstance(tensors, (list, tuple)) else [tensors]


class _BaseDispatcher:
    """The base class only keeps hooks and the quantization."""

    def __init__(self):
        self.quant_config = {}


class _Runner:
    """A MoE runner that the checkout has no name for."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, question):
        if not question.startswith("is_"):
            raise AttributeError(question)
        return lambda: question[3:] == self.name


class _Format:
    def is_bypassed(self):
        return False

    def is_standard(self):
        return True


class Dispatcher:
    """The class of the checkout with its stand-ins; `sizing` and `cap` are the answers of the two kinds."""

    def __init__(self, checkout):
        self.now = {}  # what the functions that dispatch() asks return
        self.group = _Group()
        now, group = self.now, self.group
        args = self.args = Settings("server_args", chunked_prefill_size=None, speculative_algorithm=None)
        self.parallel = Settings("get_parallel()", attn_tp_size=1, tp_group=group, moe_ep_group=group)
        payloads = self.payloads = {}

        def workspace_size(**given):
            payloads.update(given)
            return 1 << 20

        self.world = World(
            checkout,
            standins={
                "BaseDispatcher": _BaseDispatcher,
                "debug_kernel_api": lambda function: function,
                "use_flashinfer": True,
                "MoeAlltoAll": Recorder,
                "moe_a2a_get_workspace_size_per_rank": workspace_size,
                "Mapping": lambda **given: SimpleNamespace(**given),
                "MnnvlConfig": lambda **given: SimpleNamespace(**given),
                "TorchDistributedCommBackend": lambda given: given,
                "fp4_quantize": lambda x, *_, **__: (
                    Shape((x.shape[0], x.shape[1] // 2), Torch.uint8),
                    Shape((x.shape[0], x.shape[1] // 16), Torch.uint8),
                ),
                "nvfp4_block_scale_interleave": lambda x: x,
                "get_dp_global_num_tokens": lambda: now["dp_global"],
                "is_dp_attention_enabled": lambda: now["enable_dp_attention"],
                "get_is_capture_mode": lambda: now["capture"],
                "is_in_breakable_cuda_graph": lambda: False,
                "get_is_extend_in_batch": lambda: now["extend"],
                "require_mlp_tp_gather": self._gather,
                "get_moe_runner_backend": lambda: now["runner"],
                "get_attention_tp_size": lambda: self.parallel.attn_tp_size,
                "get_global_server_args": lambda: args,
                "get_schedule": lambda: args,
                "get_spec": lambda: args,
                "get_parallel": lambda: self.parallel,
                "get_tp_group": lambda: group,
                "get_moe_ep_group": lambda: group,
                "TopKOutputChecker": Settings(
                    "TopKOutputChecker", format_is_bypassed=lambda _: False, format_is_standard=lambda _: True
                ),
                "StandardTopKOutput": lambda *given: given,
            },
            modules={"torch": Torch(shapes=True)},
        )
        self.module, node = checkout.locate(["FlashinferDispatcher"], HINTS)
        self.type = self.world.get(self.module, node.name)
        for method in ("dispatch", "combine"):
            if not callable(getattr(self.type, method, None)):
                raise Unfit(f"{checkout.short(self.module)}: class {node.name}: expected a method {method}")
        self.made = {}  # dispatchers by what their constructor looked at
        self.runners = {}
        self.topk = Settings("topk_output", format=_Format(), router_logits=None)
        self.now.update(dp_global=None, enable_dp_attention=False, capture=False, extend=False)
        self.now["runner"] = self._runner("flashinfer_cutlass")

    def _gather(self, _):
        gathers = self.now["gathers"]
        if gathers is None:
            raise AssertionError("dp_size must be greater than 1")
        return gathers

    def _runner(self, name):
        if name not in self.runners:
            enum = self.world.get("sglang.srt.layers.moe.utils", "MoeRunnerBackend")
            known = isinstance(enum, type) and any(member.value == name for member in enum)
            self.runners[name] = enum(name) if known else _Runner(name)
        return self.runners[name]

    def _construct(self, environment, hidden_size, top_k, num_experts, ep_size, ep_rank):
        """A new dispatcher under the environment; the module's own variables are read anew."""
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        space = self.world.namespace(self.module)
        space.pop("MOE_NVFP4_DISPATCH", None)
        self.group.ep_size, self.group.ep_rank = ep_size, ep_rank
        dispatcher = self.type(
            self.group,
            top_k,
            num_experts=num_experts,
            num_local_experts=max(num_experts // ep_size, 1),
            hidden_size=hidden_size,
            params_dtype=Torch.bfloat16,
        )
        recorder = getattr(dispatcher, "moe_a2a", None)
        if not isinstance(recorder, Recorder):
            raise Unfit(f"{self.type.__name__}.__init__: expected self.moe_a2a = MoeAlltoAll(..)")
        recorder.ranks = ep_size
        if not isinstance(getattr(dispatcher, "max_num_tokens", None), int):
            raise Unfit(f"{self.type.__name__}.__init__: expected a number in self.max_num_tokens")
        dispatcher.quant_config = {}
        return dispatcher

    def _dispatcher(self, ep_size, ep_rank, runner):
        key = (ep_size, ep_rank, runner)
        if key not in self.made:
            self.now["runner"] = self._runner(runner)
            experts = -(-_EXPERTS // ep_size) * ep_size
            self.args.chunked_prefill_size = self.args.speculative_algorithm = None
            environment = {CAP_VARIABLE: None, "SGLANG_MOE_NVFP4_DISPATCH": None}
            self.made[key] = self._construct(environment, _HIDDEN, _TOP_K, experts, ep_size, ep_rank)
        return self.made[key]

    def sizing(self, q):
        runner = q.get("moe_runner_backend") or "flashinfer_cutedsl"
        dispatcher = self._dispatcher(q["ep_size"], q["ep_rank"], runner)
        now, rows = self.now, q["rows"]
        now["dp_global"] = q["dp_global"]
        now["enable_dp_attention"] = q["enable_dp_attention"]
        now["capture"] = q["capture"]
        now["extend"] = q["extend"]
        now["gathers"] = q["require_mlp_tp_gather"]
        now["runner"] = self.runners[runner]
        self.parallel.attn_tp_size = q["attn_tp_size"]
        self.group.ep_size, self.group.ep_rank, self.group.gathered = q["ep_size"], q["ep_rank"], None
        dispatcher.max_num_tokens = q["max_num_tokens"]
        recorder = dispatcher.moe_a2a
        recorder.call = None
        topk = self.topk
        topk.topk_ids = Shape((rows, _TOP_K), Torch.int32)
        topk.topk_weights = Shape((rows, _TOP_K), Torch.float32)
        out = dispatcher.dispatch(Shape((rows, _HIDDEN), Torch.bfloat16), topk)
        if recorder.call is None:
            if self.group.gathered is None:
                raise Unfit(f"{self.type.__name__}.dispatch: expected a call of moe_a2a.dispatch(..)")
            return {"path": "allgather_prefill", "source_sizes": self.group.gathered}
        payloads, size, more = recorder.call
        if type(size) is not int or size < 0:
            raise Unfit(f"{self.type.__name__}.dispatch: expected a whole number of tokens for moe_a2a.dispatch, not {size}")
        dummy = bool(getattr(dispatcher, "has_dummy_token", False))
        combined = dispatcher.combine(SimpleNamespace(hidden_states=Shape(out[0].shape[:1] + (_HIDDEN,), Torch.bfloat16)))
        answer = {"runtime_max_tokens_per_rank": size, "dispatched_rows": payloads[0].shape[0], "has_dummy_token": dummy}
        if combined.shape[0] != rows:
            raise Unfit(f"{self.type.__name__}.combine: expected {rows} rows back, not {combined.shape[0]}")
        invalid = more.get("invalid_token_expert_id")
        if invalid is not None:
            names = {-1: "minus_one", dispatcher.num_experts: "num_experts"}
            answer["unfilled_rows"] = names.get(invalid, str(invalid))
        return answer

    def cap(self, q):
        self.now["runner"] = self._runner("flashinfer_cutlass")
        self.args.chunked_prefill_size = q["chunked_prefill_size"]
        self.args.speculative_algorithm = q["speculative_algorithm"]
        nvfp4 = "1" if q["SGLANG_MOE_NVFP4_DISPATCH"] else "0"
        environment = {CAP_VARIABLE: q["env"], "SGLANG_MOE_NVFP4_DISPATCH": nvfp4}
        self.payloads.clear()
        experts = -(-_EXPERTS // q["ep_size"]) * q["ep_size"]
        dispatcher = self._construct(environment, q["hidden_size"], q["router_topk"], experts, q["ep_size"], 0)
        given = self.payloads
        if dispatcher.moe_a2a.given.get("max_num_tokens") != given.get("max_num_tokens"):
            raise Unfit("the cap of MoeAlltoAll is not the one that its workspace is sized for")
        return {
            "max_num_tokens": given["max_num_tokens"],
            "total_dispatch_payload_size_per_token": given["total_dispatch_payload_size_per_token"],
            "combine_payload_size_per_token": given["combine_payload_size_per_token"],
        }
