"""ServerArgs: its argparse, and the start-up handlers that decide about the all-to-all."""

import argparse
import contextlib
import dataclasses
import io
import os

from checkout import Unfit, Unknown, World, definition
from standins import Settings, Torch

HINTS = ["sglang.srt.server_args"]
OVERRIDES = "sglang.srt.arg_groups.overrides"
HANDLERS = ["_handle_data_parallelism", "_handle_a2a_moe"]
FIELDS = """tp_size dp_size ep_size pp_size nnodes node_rank enable_dp_attention enable_dp_lm_head moe_dense_tp_size moe_a2a_backend
moe_runner_backend chunked_prefill_size max_running_requests deepep_mode speculative_algorithm speculative_num_steps
speculative_eagle_topk speculative_num_draft_tokens disable_cuda_graph max_prefill_tokens ep_num_redundant_experts
disaggregation_mode mem_fraction_static quantization schedule_conservativeness disable_shared_experts_fusion
load_balance_method""".split()
# By their names over time; answered under the first.
RENAMED = [["cuda_graph_max_bs", "cuda_graph_max_bs_decode"], ["cuda_graph_bs", "cuda_graph_bs_decode"]]
VARIABLE = "SGLANG_MOE_NVFP4_DISPATCH"


class Refused(Exception):
    pass


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Refused(f"parse: {self.prog}: error: {message}")

    def exit(self, status=0, message=None):
        raise Refused(f"parse: {self.prog}: exits")


def _no(*_, **__):
    return False


class Startup:
    def __init__(self, checkout):
        devices = ("is_npu", "is_hip", "is_cpu", "is_xpu", "is_musa", "is_hpu", "is_mps")
        self.world = World(checkout, standins=dict.fromkeys(devices, _no), modules={"torch": Torch(shapes=False)})
        module, node = checkout.locate(["ServerArgs"], HINTS)
        where = f"{checkout.short(module)}: class {node.name}"
        self.type = self.world.get(module, node.name)
        for name in ["add_cli_args", "from_cli_args", *HANDLERS]:
            if not callable(getattr(self.type, name, None)):
                raise Unfit(f"{where}: expected a method {name}, there is none")
        self.type.__post_init__ = lambda _: None  # the other handlers ask the device and the model
        self.type.get_model_config = lambda _: Settings("model_config", nvfp4_moe_meta=None)
        self.parser = _Parser(prog="launch_server")
        with contextlib.redirect_stdout(io.StringIO()):
            self.type.add_cli_args(self.parser)
        there = {field.name for field in dataclasses.fields(self.type)}
        self.fields = {}  # by the name in the answer
        for names in [[name] for name in FIELDS] + RENAMED:
            name = next((name for name in reversed(names) if name in there), None)
            if name is None:
                raise Unfit(f"{where}: expected a field {' or '.join(names)}, there is none")
            self.fields[names[0]] = name
        self.has_graphs = "cuda_graph_config" in there
        self.materialize = None
        if checkout.file_of(OVERRIDES) and definition(checkout.tree(OVERRIDES), "materialize_declarations"):
            self.materialize = self.world.get(OVERRIDES, "materialize_declarations")
        for option, destination in (("--model-path", "model_path"), ("--moe-a2a-backend", "moe_a2a_backend")):
            if not any(option in action.option_strings for action in self.parser._actions):
                raise Unfit(f"{where}: add_cli_args: expected the option {option} for {destination}, there is none")

    def _graphs(self):
        backend = self.world.get("sglang.srt.model_executor.cuda_graph_config", "Backend")
        phase = {"max_bs": None, "bs": None}
        return Settings(
            "cuda_graph_config",
            prefill=Settings("prefill", backend=backend.DISABLED, **phase),
            decode=Settings("decode", backend=backend.FULL, **phase),
        )

    def answer(self, q):
        try:
            args = self.type.from_cli_args(self.parser.parse_args(q["argv"]))
        except ValueError as error:
            raise Refused(f"parse: {error}") from error
        for name, value in (q.get("set") or {}).items():
            setattr(args, self.fields[name], value)
        out = {"parsed": self._values(args)}
        if args.chunked_prefill_size is None:
            out["handlers"] = "skipped: chunked_prefill_size unset"
            return out
        if self.has_graphs:
            args.cuda_graph_config = self._graphs()
            args._cuda_graph_config_locked = set()
        before = dict(os.environ)
        os.environ.update(q.get("env") or {})
        try:
            return self._handled(args, out, q)
        finally:  # the next question has its own variables
            os.environ.clear()
            os.environ.update(before)

    def _handled(self, args, out, q):
        for handler in HANDLERS:
            try:
                getattr(args, handler)()
            except (AssertionError, ValueError, TypeError) as error:
                out["handler_error"] = {handler: type(error).__name__ + (f": {error}" if str(error) else "")}
                break
        if self.materialize is not None:
            self.materialize(args)
        after = self._values(args)
        out["changed"] = {name: value for name, value in after.items() if value != out["parsed"][name]}
        if VARIABLE in os.environ and VARIABLE not in (q.get("env") or {}):
            out["env"] = {VARIABLE: os.environ[VARIABLE]}
        return out

    def _values(self, args):
        values = {}
        for name, field in self.fields.items():
            value = getattr(args, field)
            if isinstance(value, Unknown):
                raise Unfit(f"ServerArgs.{field}: its value depends on {value!r}")
            values[name] = value
        return values
