"""The scheduler's sync: prepare_mlp_sync_batch_raw on every rank of one data-parallel world."""

import inspect
import os

from checkout import Unfit, World
from standins import Ints, Settings, Torch

HINTS = ["sglang.srt.managers.scheduler_components.dp_attn", "sglang.srt.managers.scheduler_dp_attn_mixin"]
_LISTS = ["global_num_tokens", "global_num_tokens_for_logprob"]
_FLAGS = ["is_extend_in_batch", "can_run_dp_cuda_graph", "can_run_dp_breakable_cuda_graph"]


class Batch:
    """A ScheduleBatch, as far as the sync reads and writes it."""

    input_embeds = prefix_lens = None
    global_num_tokens = global_num_tokens_for_logprob = can_run_dp_cuda_graph = None

    def __init__(self, mode, row=None):
        self.forward_mode = mode
        row = row or {}
        self.count = row.get("batch_size", 0)
        self.extend_lens = list(row.get("extend_lens", []))
        self.extend_logprob_start_lens = list(row.get("extend_logprob_start_lens", []))
        self.extend_num_tokens = sum(self.extend_lens)
        self.return_logprob = bool(row.get("return_logprob", False))

    def batch_size(self):
        return self.count


class _Overlap:
    """Two-batch overlap is off: its rank votes no and forms no split."""

    def prepare_all_gather(self, local_batch):
        return False, local_batch.forward_mode.value if local_batch is not None else 0

    def compute_output(self, partial_global_info):
        return None, None


class Sync:
    def __init__(self, checkout):
        torch = Torch(shapes=False)
        torch.distributed.all_gather_into_tensor = self._all_gather
        torch.distributed.get_rank = lambda group=None: self.rank
        self.breakable = False
        self.group = Settings("tp_group", device_group="device", cpu_group="cpu", device="cpu")
        self.world = World(
            checkout,
            standins={
                "TboDPAttentionPreparer": _Overlap,
                "get_tp_group": lambda: self.group,
                "check_cuda_graph_backend": lambda *_: self.breakable,
                "world_dp_gather_enabled": lambda: False,
                "SchedulerRecvSkipper": Settings("SchedulerRecvSkipper", derive_forward_mode=lambda _: None),
                "DPCooperationInfo": object,
                "_ENABLE_METRICS_DP_ATTENTION": False,
            },
            modules={"torch": torch},
        )
        self.module, node = checkout.locate(["prepare_mlp_sync_batch_raw"], HINTS)
        self.function = self.world.get(self.module, node.name)
        self.modes = self.world.get(self.module, "ForwardMode")
        self.has_prefill_vote = False
        self._arguments()
        self.rows = []

    def _arguments(self):
        """Which of the arguments that are known the function takes; others must have a default."""
        known = {
            "model_runner": Settings("model_runner", prefill_cuda_graph_runner=None),
            "tp_group": self.group,
            "get_idle_batch": self._idle_batch,
            "disable_overlap_schedule": False,
            "offload_tags": set(),
            "dwdp": False,
            "attn_cp_size": 1,
            "speculative_num_draft_tokens": None,
        }
        per_question = {"local_batch", "dp_size", "attn_tp_size", "disable_cuda_graph", "require_mlp_tp_gather"}
        parameters = inspect.signature(self.function).parameters
        missing = [
            name
            for name, parameter in parameters.items()
            if name not in known and name not in per_question and parameter.default is inspect.Parameter.empty
        ]
        if missing or not per_question <= set(parameters):
            wanted = ", ".join(sorted(per_question - set(parameters))) or "nothing more"
            raise Unfit(
                f"{self.world.checkout.short(self.module)}: prepare_mlp_sync_batch_raw: takes {', '.join(missing) or 'no'} "
                f"argument that is not known here, and misses {wanted}"
            )
        self.fixed = {name: value for name, value in known.items() if name in parameters}

    def _idle_batch(self):
        self.idle_batches += 1
        return Batch(self.modes.IDLE)

    def _all_gather(self, output, row, group=None):
        """Every rank's row, as the ranks before this call left them: rank 0 of each replica speaks for it."""
        self.sent.append(row.tolist())
        if self.rows is None:
            raise _Sent()
        width = row.numel()
        per_replica = output.numel() // width // len(self.rows)
        output.copy_(Ints([v for values in self.rows for _ in range(per_replica) for v in values]))

    def _run(self, q, row):
        mode = None if row is None else self.modes[row["forward_mode"]]
        batch = None if row is None else Batch(mode, row)
        self.idle_batches = 0
        result = self.function(
            local_batch=batch,
            dp_size=q["dp_size"],
            attn_tp_size=q["attn_tp_size"],
            disable_cuda_graph=q["disable_cuda_graph"],
            require_mlp_tp_gather=q["require_mlp_tp_gather"],
            **self.fixed,
        )
        return result

    def answer(self, q):
        os.environ["SGLANG_SCHEDULER_SKIP_ALL_GATHER"] = "1" if q["SGLANG_SCHEDULER_SKIP_ALL_GATHER"] else "0"
        self.breakable = bool(q.get("prefill_backend_breakable"))
        batches = q["local_batches"]
        self.group.active_ranks = self.group.active_ranks_cpu = Ints([1] * (q["dp_size"] * q["attn_tp_size"]))
        seen = {}  # ranks with equal batches send the same row
        self.rows = None
        for row in batches:
            key = repr(row)
            if key in seen:
                continue
            self.sent = []
            try:
                self._run(q, row)
            except _Sent:
                pass
            seen[key] = self.sent[0] if self.sent else []
        self.rows = [seen[repr(row)] for row in batches]
        answers = {}
        for self.rank, row in enumerate(batches):
            key = repr(row)
            if key in answers:
                continue
            self.sent = []
            result = self._run(q, row)
            if self.sent and self.sent[0] != seen[key]:
                raise Unfit("prepare_mlp_sync_batch_raw: one rank sends two different rows")
            answers[key] = self._rank_out(result)
        return [answers[repr(row)] for row in batches]

    def _rank_out(self, batch):
        out = {"returned": batch.forward_mode.name if batch is not None else None, "idle_batch_created": self.idle_batches}
        carrier = getattr(batch, "inner_idle_batch", batch)
        if carrier is None:
            return out
        for name in _LISTS:
            value = getattr(carrier, name)
            out[name] = None if value is None else list(value)
        for name in _FLAGS:
            value = getattr(carrier, name, None)
            out[name] = None if value is None else bool(value)
        return out


class _Sent(Exception):
    """The rank has sent its row; the first round needs no more."""
