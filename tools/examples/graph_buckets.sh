#!/bin/sh
# The decode worker of sglang #30242: illegal memory access once ranks replay CUDA graphs of unequal buckets.
# DeepSeek-V4-Pro in NVFP4 on 16 GPUs: 384 experts, top-k 6, hidden size 7168.
export SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=1024
python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4-Pro --disaggregation-mode decode \
  --tp-size 16 --dp-size 16 --ep-size 16 --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 \
  --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_trtllm_routed --quantization modelopt_fp4 \
  --cuda-graph-max-bs 256 --max-running-requests 21504 --load-balance-method total_requests \
  --nnodes 4 --node-rank 0
