"""The arguments of the server."""

import dataclasses
import os

from sglang.srt.environ import envs
from sglang.srt.model_executor.cuda_graph_config import Backend

BACKENDS = ["none", "deepep", "mooncake", "nixl", "mori", "ascend_fuseep", "flashinfer", "megamoe"]
RUNNERS = ["auto", "deep_gemm", "triton", "flashinfer_trtllm", "flashinfer_cutlass", "flashinfer_cutedsl"]
SPREAD = ("deepep", "mooncake", "nixl", "ascend_fuseep", "flashinfer", "megamoe")


@dataclasses.dataclass
class ServerArgs:
    model_path: str
    tp_size: int = 1
    dp_size: int = 1
    ep_size: int = 1
    pp_size: int = 1
    nnodes: int = 1
    node_rank: int = 0
    enable_dp_attention: bool = False
    enable_dp_lm_head: bool = False
    moe_dense_tp_size: int = None
    moe_a2a_backend: str = "none"
    moe_runner_backend: str = "auto"
    chunked_prefill_size: int = None
    max_running_requests: int = None
    deepep_mode: str = "auto"
    speculative_algorithm: str = None
    speculative_num_steps: int = None
    speculative_eagle_topk: int = None
    speculative_num_draft_tokens: int = None
    disable_cuda_graph: bool = False
    max_prefill_tokens: int = 16384
    ep_num_redundant_experts: int = 0
    disaggregation_mode: str = "null"
    mem_fraction_static: float = None
    quantization: str = None
    schedule_conservativeness: float = 1.0
    disable_shared_experts_fusion: bool = False
    load_balance_method: str = "auto"
    cuda_graph_max_bs_decode: int = None
    cuda_graph_bs_decode: list = None
    cuda_graph_config: object = None

    @staticmethod
    def add_cli_args(parser):
        more = {
            "tp_size": ["--tensor-parallel-size"],
            "dp_size": ["--data-parallel-size"],
            "ep_size": ["--expert-parallel-size", "--ep"],
            "cuda_graph_max_bs_decode": ["--cuda-graph-max-bs"],
            "cuda_graph_bs_decode": ["--cuda-graph-bs"],
        }
        choices = {
            "moe_a2a_backend": BACKENDS,
            "moe_runner_backend": RUNNERS,
            "deepep_mode": ["auto", "normal", "low_latency"],
            "disaggregation_mode": ["null", "prefill", "decode"],
            "load_balance_method": ["auto", "round_robin", "total_requests", "total_tokens"],
            "quantization": ["fp8", "modelopt_fp4", "modelopt_fp8"],
        }
        for field in dataclasses.fields(ServerArgs):
            flags = ["--" + field.name.replace("_", "-"), *more.get(field.name, [])]
            if field.name == "cuda_graph_config":
                continue
            if field.type is bool:
                parser.add_argument(*flags, action="store_true")
            elif field.type is list:
                parser.add_argument(*flags, dest=field.name, type=int, nargs="+")
            else:
                required = field.default is dataclasses.MISSING
                default = None if required else field.default
                parser.add_argument(
                    *flags, dest=field.name, type=field.type, default=default, required=required, choices=choices.get(field.name)
                )

    @classmethod
    def from_cli_args(cls, args):
        return cls(**{f.name: getattr(args, f.name) for f in dataclasses.fields(cls) if hasattr(args, f.name)})

    def _handle_data_parallelism(self):
        if self.dp_size == 1:
            self.enable_dp_attention = self.enable_dp_lm_head = False
        if self.enable_dp_attention:
            self.schedule_conservativeness *= 0.3
            assert self.tp_size % self.dp_size == 0
            self.chunked_prefill_size //= self.dp_size
        if self.enable_dp_lm_head:
            assert self.enable_dp_attention, "Please enable dp attention when setting enable_dp_lm_head. "

    def _handle_a2a_moe(self):
        if self.moe_a2a_backend == "deepep" and self.deepep_mode == "normal":
            self.cuda_graph_config.decode.backend = self.cuda_graph_config.prefill.backend = Backend.DISABLED
        if self.moe_a2a_backend == "flashinfer":
            fits = self.enable_dp_attention and self.dp_size == self.tp_size
            assert fits, "the all-to-all needs DP attention on every rank"
        if self.moe_a2a_backend in SPREAD:
            self.ep_size = self.tp_size
        if self.moe_a2a_backend == "flashinfer":
            self.disable_shared_experts_fusion = True
            if os.environ.get("SGLANG_MOE_NVFP4_DISPATCH") is None:
                envs.SGLANG_MOE_NVFP4_DISPATCH.set(True)
            assert self.moe_runner_backend in ("flashinfer_cutlass", "flashinfer_cutedsl"), "another runner"

    def _generate_decode_cuda_graph_batch_sizes(self, max_bs):
        if self.disable_cuda_graph_padding:
            return list(range(1, max_bs + 1))
        if self.speculative_algorithm is None:
            steps = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, max_bs + 1, 32)]
        else:
            steps = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, max_bs + 1, 16)]
        steps = [bs for bs in steps if bs <= max_bs]
        return steps if max_bs in steps else [*steps, max_bs]

    def _generate_prefill_cuda_graph_batch_sizes(self, max_bs):
        steps = [*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64)]
        steps += [*range(1280, 4097, 256), *range(4608, max_bs + 1, 512)]
        return [tokens for tokens in steps if tokens <= max_bs]


def get_global_server_args():
    raise RuntimeError("no server runs here")
