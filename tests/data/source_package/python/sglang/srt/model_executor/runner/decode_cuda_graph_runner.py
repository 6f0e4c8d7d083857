"""CUDA graphs of decode steps."""

from sglang.srt.layers.dp_attention import set_dp_buffer_len
from sglang.srt.model_executor.forward_batch_info import ForwardBatch
from sglang.srt.model_executor.runner.base_cuda_graph_runner import BaseCudaGraphRunner


class DecodeCudaGraphRunner(BaseCudaGraphRunner):
    def can_run_graph(self, forward_batch):
        if self.require_mlp_tp_gather:
            cuda_graph_bs = max(forward_batch.global_num_tokens_cpu)
            algorithm = self.model_runner.spec_algorithm
            if algorithm.is_eagle() or algorithm.is_standalone():
                cuda_graph_bs //= self.num_tokens_per_bs
        else:
            cuda_graph_bs = forward_batch.batch_size
        is_bs_supported = cuda_graph_bs <= self.max_bs
        if self.require_mlp_sync:
            is_bs_supported = is_bs_supported and forward_batch.can_run_dp_cuda_graph
        return is_bs_supported

    def load_batch(self, forward_batch):
        raw_bs = forward_batch.batch_size
        if self.require_mlp_tp_gather:
            tokens = max(forward_batch.global_num_tokens_cpu)
            algorithm = self.model_runner.spec_algorithm
            divides = algorithm.is_eagle() or algorithm.is_standalone()
            bs = self._pad_to_bucket(int(tokens / self.num_tokens_per_bs if divides else tokens), self.capture_bs)
        else:
            bs = self._pad_to_bucket(raw_bs, self.capture_bs)
        self.buffers.fill(forward_batch, bs)

    def capture_prepare(self, size):
        num_tokens = size * self.num_tokens_per_bs
        if self.require_mlp_tp_gather:
            global_num_tokens_cpu = [num_tokens] * self.dp_size
        elif self.require_attn_tp_gather:
            global_num_tokens_cpu = [num_tokens]
        else:
            global_num_tokens_cpu = None
        global_dp_buffer_len = None if global_num_tokens_cpu is None else sum(global_num_tokens_cpu)
        return ForwardBatch(
            batch_size=size, global_dp_buffer_len=global_dp_buffer_len, global_num_tokens_cpu=global_num_tokens_cpu
        )

    def capture_one_shape(self, size, forward):
        forward_batch = self.capture_prepare(size)
        num_tokens = size * self.num_tokens_per_bs
        set_dp_buffer_len(forward_batch.global_dp_buffer_len, num_tokens, True, forward_batch.global_num_tokens_cpu)
        return forward(forward_batch)
