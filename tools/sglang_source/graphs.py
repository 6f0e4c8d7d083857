"""CUDA graphs: the sizes that are captured, the list that the model sees meanwhile, and the bucket that is replayed."""

import ast

from checkout import Unfit, World, definition, method_node
from standins import Settings, Torch

RUNNER_HINTS = ["sglang.srt.model_executor.runner.decode_cuda_graph_runner", "sglang.srt.model_executor.cuda_graph_runner"]
RUNNERS = ["DecodeCudaGraphRunner", "CudaGraphRunner"]
SIZES_HINTS = ["sglang.srt.model_executor.runner.base_cuda_graph_runner", "sglang.srt.model_executor.cuda_graph_runner"]
ARGS_HINTS = ["sglang.srt.server_args"]
DECODE_SIZES = ["_generate_decode_cuda_graph_batch_sizes", "_generate_cuda_graph_batch_sizes"]
PREFILL_SIZES = ["_generate_prefill_cuda_graph_batch_sizes", "_generate_piecewise_cuda_graph_tokens"]
_WIDTHS = ("num_tokens_per_bs", "captured_req_width", "num_tokens_per_req")  # one attribute, by its names over time


def _assigned(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _loaded(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _asks_for_gather(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Attribute) and node.test.attr == "require_mlp_tp_gather"


def _path(body):
    """The statements around the choice by require_mlp_tp_gather: those before each block that holds it, and its own block."""
    for node in body:
        if _asks_for_gather(node):
            return list(body)
        for inner in (getattr(node, "body", []), getattr(node, "orelse", [])):
            if isinstance(node, ast.FunctionDef):
                continue
            found = _path(inner)
            if found is not None:
                return [*body[: body.index(node)], *found]
    return None


def statements_for(checkout, module, method, wanted):
    """The statements of a method that `wanted` depends on, unchanged and in order."""
    path = _path(method.body)
    where = f"{checkout.short(module)}: {method.name}"
    if path is None:
        raise Unfit(f"{where}: expected an `if self.require_mlp_tp_gather`, there is none")
    needed, kept = set(wanted), []
    for node in reversed(path):
        if isinstance(node, ast.FunctionDef) or not (_assigned(node) & needed):
            continue
        kept.insert(0, node)
        needed |= _loaded(node)
    missing = set(wanted) - set().union(*map(_assigned, kept), set())
    if missing:
        raise Unfit(f"{where}: expected an assignment of {', '.join(sorted(missing))}, there is none")
    return kept


class _Algorithm:
    def __init__(self, enum, name):
        self.value = enum.from_string(name)


class Bucket:
    """Statements of the decode runner that choose the replayed bucket, and those that say whether it may."""

    def __init__(self, checkout):
        self.world = World(checkout, modules={"torch": Torch(shapes=False)})
        module, runner = checkout.locate(RUNNERS, RUNNER_HINTS)
        self.module = module
        can_run = method_node(checkout, module, runner, ["can_run_graph", "can_run"])
        load = method_node(checkout, module, runner, ["load_batch", "replay_prepare"])
        make = self.world.function
        parameters = ["self", "forward_batch"]
        wanted = ["cuda_graph_bs", "is_bs_supported"]
        body = statements_for(checkout, module, can_run, wanted)
        self.can_run = make(module, can_run.name, parameters, body, "(cuda_graph_bs, bool(is_bs_supported))")
        body = statements_for(checkout, module, load, ["bs"])
        self.bucket = make(module, load.name, parameters, body, "bs")
        self.world.executed[(module, f"{runner.name}.{can_run.name}: {', '.join(wanted)}")] = True
        self.world.executed[(module, f"{runner.name}.{load.name}: bs")] = True
        self.algorithms = self.world.get("sglang.srt.speculative.spec_info", "SpeculativeAlgorithm")
        self.known_algorithms = {}
        self.self = Settings(
            "runner",
            disable_padding=False,
            enable_pdmux=False,
            ragged_verify_mode=None,
            model_runner=Settings("model_runner", is_draft_worker=False),
            _make_graph_key=lambda *_, **__: None,
            _resolve_lora_variant=lambda *_: None,
            _capture_graph_size=lambda *, bs, num_tokens: bs,
        )
        for name in ("_pad_to_bucket", "_max_dp_batch_size"):
            function = self._helper(checkout, module, runner, name)
            if function is not None:
                setattr(self.self, name, function)

    def _helper(self, checkout, module, runner, name):
        """A static method of the runner, or of its base class."""
        places = [(module, runner)]
        for base in SIZES_HINTS:
            node = definition(checkout.tree(base), "BaseCudaGraphRunner")
            if node is not None:
                places.append((base, node))
        for where, node in places:
            if any(isinstance(n, ast.FunctionDef) and n.name == name for n in node.body):
                made = self.world.method(where, node, [name])
                return made.__func__ if isinstance(made, staticmethod) else made
        return None

    def _algorithm(self, name):
        if name not in self.known_algorithms:
            self.known_algorithms[name] = self.algorithms.from_string(name)
        return self.known_algorithms[name]

    def answer(self, q):
        me = self.self
        me.capture_bs = list(q["capture_bs"])
        me.max_bs = max(me.capture_bs)
        me.require_mlp_tp_gather, me.require_mlp_sync = q["require_mlp_tp_gather"], q["require_mlp_sync"]
        for name in _WIDTHS:
            setattr(me, name, q["num_tokens_per_bs"])
        me.model_runner.spec_algorithm = self._algorithm(q["speculative_algorithm"])
        batch = Settings(
            "forward_batch",
            batch_size=q["batch_size"],
            global_num_tokens_cpu=q["global_num_tokens_cpu"],
            original_global_num_tokens_cpu=q["original_global_num_tokens_cpu"],
            can_run_dp_cuda_graph=q["can_run_dp_cuda_graph"],
            needs_forward_metadata_init=lambda: True,
            spec_info=None,
        )
        size, can_run = self.can_run(me, batch)
        answer = {"cuda_graph_bs": size, "can_run": can_run}
        try:
            answer["bs"] = self.bucket(me, batch)
        except (AssertionError, IndexError) as error:
            answer["bs_error"] = f"{type(error).__name__}: {error}"
        return answer


class Capture:
    """Four functions of capture: two lists of sizes, their filter, and the token list of one bucket."""

    def __init__(self, checkout):
        self.now = now = {}
        self.args = args = Settings("server_args")
        self.overlap = Settings("get_exec().overlap")
        self.graph = Settings("cuda_graph_config", decode=Settings("decode"))
        graph = Settings("get_exec().graph", cuda_graph_config=self.graph, torch_compile_max_bs=0)
        self.parallel = Settings("get_parallel()")
        flags = Settings("get_flags()", capture=Settings("capture", enable_torch_compile=False))
        exec_settings = Settings("get_exec()", overlap=self.overlap, graph=graph)
        self.world = World(
            checkout,
            standins={
                "require_gathered_buffer": lambda _: now["gathered"],
                "get_attention_tp_size": lambda: self.parallel.attn_tp_size,
                "get_attention_cp_size": lambda: self.parallel.attn_cp_size,
                "get_parallel": lambda: self.parallel,
                "get_exec": lambda: exec_settings,
                "get_flags": lambda: flags,
                "set_dp_buffer_len": self._set_list,
            },
            modules={"torch": Torch(shapes=False)},
        )
        args.cuda_graph_config, args.enable_torch_compile, args.torch_compile_max_bs = self.graph, False, 0
        module, server_args = checkout.locate(["ServerArgs"], ARGS_HINTS)
        self.decode_sizes = self.world.method(module, server_args, DECODE_SIZES)
        self.prefill_sizes = self.world.method(module, server_args, PREFILL_SIZES)
        module, node = checkout.locate(["get_batch_sizes_to_capture"], SIZES_HINTS)
        self.filter = self.world.get(module, node.name)
        self._find_list(checkout)

    def _set_list(self, buffer_len, local_len, is_max_len=None, global_num_tokens=None, *_):
        self.now["list"] = (buffer_len, global_num_tokens)

    def _find_list(self, checkout):
        """The method that forms the list, and the call that hands it over, wherever in the class it is."""
        module, runner = checkout.locate(RUNNERS, RUNNER_HINTS)
        self.module = module
        methods = [n for n in runner.body if isinstance(n, ast.FunctionDef)]
        forms = [m for m in methods if "capture" in m.name and _path(m.body) is not None]
        calls = [
            n
            for m in methods
            if "capture" in m.name
            for n in ast.walk(m)
            if isinstance(n, ast.Call) and getattr(n.func, "id", None) == "set_dp_buffer_len"
        ]
        if len(forms) != 1 or len(calls) != 1:
            raise Unfit(
                f"{checkout.short(module)}: class {runner.name}: expected one capturing method with `if "
                f"self.require_mlp_tp_gather` and one call of set_dp_buffer_len, there are {len(forms)} and {len(calls)}"
            )
        made = [n for n in ast.walk(forms[0]) if isinstance(n, ast.Call) and getattr(n.func, "id", None) == "ForwardBatch"]
        names = {k.arg for k in made[0].keywords} if made else set()
        body = statements_for(checkout, module, forms[0], ["global_dp_buffer_len"])
        fields = [n for n in ("global_dp_buffer_len", "global_num_tokens_cpu") if n in names]
        local = sorted(_loaded(calls[0]) & _assigned(forms[0]) - {"num_tokens", "forward_batch"})
        self.fields = fields
        handed = ", ".join(f"{name!r}: {name}" for name in ["num_tokens", *sorted({*fields, *local})])
        run = self.world.function
        parameters = ["self", "bs", "size", "num_tokens", "buffers", "input_ids"]
        self.form = run(module, forms[0].name, parameters, body, "{" + handed + "}")
        call = ast.unparse(calls[0])
        self.hand_over = run(module, "hand_over", ["forward_batch", "num_tokens", *local], [], call)
        self.local = local
        self.world.executed[(module, f"{runner.name}.{forms[0].name}: global_dp_buffer_len")] = True
        self.world.executed[(module, f"{runner.name}: {call}")] = True

    def answer(self, q):
        return getattr(self, "_" + q["fn"])(q)

    def _self(self, q):
        return Settings(
            "server_args",
            disable_cuda_graph_padding=q.get("disable_cuda_graph_padding", False),
            speculative_algorithm=q.get("speculative_algorithm"),
            cuda_graph_max_bs=q["max_bs"],
            piecewise_cuda_graph_max_tokens=q["max_bs"],
        )

    def _sizes(self, function, q):
        takes_limit = function.__code__.co_argcount > 1
        return list(function(self._self(q), q["max_bs"]) if takes_limit else function(self._self(q)))

    def _decode_sizes(self, q):
        return self._sizes(self.decode_sizes, q)

    def _prefill_sizes(self, q):
        return self._sizes(self.prefill_sizes, q)

    def _batch_sizes(self, q):
        self.now["gathered"] = q["require_gathered_buffer"]
        self.parallel.attn_tp_size, self.parallel.attn_cp_size = q["attn_tp_size"], q["attn_cp_size"]
        self.args.enable_two_batch_overlap = self.overlap.enable_two_batch_overlap = q["enable_two_batch_overlap"]
        self.args.cuda_graph_bs = self.graph.decode.bs = list(q["decode_bs"])
        pool = Settings("req_to_token_pool", size=q["req_to_token_pool_size"])
        runner = Settings("model_runner", server_args=self.args, req_to_token_pool=pool)
        return list(self.filter(runner, q["num_tokens_per_bs"])[0])

    def _token_list(self, q):
        bs, width = q["bs"], q["num_tokens_per_bs"]
        fields = {name: width for name in _WIDTHS}
        me = Settings(
            "runner", require_mlp_tp_gather=q["require_mlp_tp_gather"], require_attn_tp_gather=q["require_attn_tp_gather"],
            dp_size=q["dp_size"], **fields,
        )
        nothing = Settings("graph buffers", copy_=lambda *_, **__: None)
        slots = Settings("buffers", global_num_tokens_gpu=nothing, global_num_tokens_for_logprob_gpu=nothing)
        formed = self.form(me, bs, bs, bs * width, slots, Settings("input_ids", device="cpu"))
        mode = Settings("dp_padding_mode", is_max_len=lambda: True)
        given = {name: formed[name] for name in self.fields}
        batch = Settings("forward_batch", dp_padding_mode=mode, global_num_tokens_gpu=nothing, **given)
        self.hand_over(batch, formed["num_tokens"], *(formed[name] for name in self.local))
        buffer_len, tokens = self.now.pop("list")
        return {
            "num_tokens": formed["num_tokens"],
            "global_dp_buffer_len": buffer_len,
            "dp_global_at_capture": None if tokens is None else list(tokens),
        }
