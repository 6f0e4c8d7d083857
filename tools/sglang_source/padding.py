"""ForwardBatch.prepare_mlp_sync_batch with DpPaddingMode: the list that dispatch() sees in an eager step."""

from checkout import Unfit, World
from gather import backend_of
from standins import Ints, Settings, Torch

HINTS = ["sglang.srt.model_executor.forward_batch_info"]
CP_HINTS = ["sglang.srt.layers.cp.padding", "sglang.srt.layers.utils.cp_utils"]


class _Batch(Settings):
    """A ForwardBatch; its inputs are padded by a stand-in that takes whatever it is given."""

    def _pad_inputs_to_size(self, model_runner, num_tokens, bs):
        self.padded_num_tokens, self.padded_bs = num_tokens, bs


class _SpecInfo:
    def __init__(self, width):
        self.num_tokens_per_req = self.num_tokens_per_batch = width

    def is_draft_input(self):
        return False


class Padding:
    def __init__(self, checkout):
        self.now = now = {"zigzag": False}
        self.parallel = parallel = Settings("get_parallel()")
        dp_flags = Settings("get_flags().dp", max_len_with_idle=False)
        prefill = self.prefill = Settings("cuda_graph_config.prefill", bs=None)
        graphs = Settings("cuda_graph_config", prefill=prefill)
        args = Settings("server_args", cuda_graph_config=graphs)
        self.runner = Settings(
            "model_runner", server_args=args, mambaish_config=None, is_draft_worker=False, enable_elastic_ep=False,
            model_config=None,
        )
        self.world = World(
            checkout,
            standins={
                "TboForwardBatchPreparer": Settings("TboForwardBatchPreparer", prepare=lambda **_: None),
                "get_attention_tp_size": lambda: parallel.attn_tp_size,
                "get_attention_cp_size": lambda: parallel.attn_cp_size,
                "get_attention_dp_size": lambda: parallel.attn_dp_size,
                "get_attention_dp_rank": lambda: parallel.attn_dp_rank,
                "get_parallel": lambda: parallel,
                "get_flags": lambda: Settings("get_flags()", dp=dp_flags),
                "get_exec": lambda: Settings("get_exec()", graph=Settings("graph", cuda_graph_config=graphs)),
                "get_global_server_args": lambda: args,
                "get_moe_a2a_backend": lambda: now["backend"],
                "is_prefill_cp_in_seq_split": lambda: now["zigzag"],
                "is_dsa_prefill_cp_in_seq_split": lambda: False,
                "is_nsa_prefill_cp_in_seq_split": lambda: False,
                "enable_cp_v2": lambda: False,
                "mambaish_config": lambda _: None,
                "set_dp_buffer_len": self._set_list,
                "set_is_extend_in_batch": lambda value: now.update(extend=value),
                "_DP_MAX_LEN_WITH_IDLE": False,
                "_is_cpu": False,
            },
            modules={"torch": Torch(shapes=False)},
        )
        module, node = checkout.locate(["ForwardBatch"], HINTS)
        self.module = module
        self.function = self.world.method(module, node, ["prepare_mlp_sync_batch"])
        self.modes = self.world.get(module, "ForwardMode")
        self.backends = {}

    def _set_list(self, buffer_len, local_len, is_max_len=None, global_num_tokens=None, *_):
        self.now["list"] = None if global_num_tokens is None else list(global_num_tokens)
        self.now["max_len"] = bool(is_max_len)

    def answer(self, q):
        now, parallel = self.now, self.parallel
        parallel.attn_tp_size, parallel.attn_cp_size = q["attn_tp_size"], q["attn_cp_size"]
        parallel.attn_dp_size, parallel.attn_dp_rank = q["attn_dp_size"], q["attn_dp_rank"]
        name = q.get("moe_a2a_backend") or "none"
        if name not in self.backends:
            self.backends[name] = backend_of(self.world, name)
        now["backend"] = self.backends[name]
        # Two chunks a rank only with context parallelism: off, no split is in force.
        now["zigzag"] = bool(q["zigzag"]) and q["attn_cp_size"] > 1
        now.pop("list", None)
        self.prefill.bs = q.get("prefill_cuda_graph_bs")
        width = q["spec_tokens_per_req"]
        tokens, rank = list(q["global_num_tokens_cpu"]), q["attn_dp_rank"]
        own = tokens[rank] if len(tokens) > 1 else tokens[0]
        count = q["batch_size"]
        batch = _Batch(
            "forward_batch",
            forward_mode=self.modes[q["forward_mode"]],
            batch_size=count,
            is_extend_in_batch=q["is_extend_in_batch"],
            can_run_dp_breakable_cuda_graph=bool(q.get("can_run_dp_breakable_cuda_graph")),
            global_num_tokens_cpu=tokens,
            global_num_tokens_for_logprob_cpu=list(tokens),
            global_num_tokens_gpu=Ints([0] * len(tokens)),
            spec_info=_SpecInfo(width) if width else None,
            extend_num_tokens=own,
            seq_lens=Ints([1] * count),
            orig_seq_lens=Ints([1] * count),
            seq_lens_cpu=Ints([1] * count),
            seq_lens_sum=count,
            num_token_non_padded=None,
            tbo_children=None,
        )
        self.function(batch, self.runner)
        if "list" not in now:
            raise Unfit("ForwardBatch.prepare_mlp_sync_batch: expected a call of set_dp_buffer_len")
        return {
            "dp_padding_mode": batch.dp_padding_mode.name,
            "global_num_tokens": now["list"],
            "global_dp_buffer_len": batch.global_dp_buffer_len,
            "padded_num_tokens": batch.padded_num_tokens,
            "batch_size": batch.batch_size,
            "forward_mode": batch.forward_mode.name,
            "extend_num_tokens": batch.extend_num_tokens,
        }
