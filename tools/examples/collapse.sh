#!/bin/sh
# The launch of sglang #27945: NaN with data-parallel attention. --moe-dense-tp-size 1 together with
# --enable-dp-lm-head makes every rank keep only its own token count. #29461 brought it back for CUDA graphs.
# DeepSeek-V3: 256 experts, top-k 8, hidden size 7168.
python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 \
  --tp 4 --dp 4 --ep-size 4 --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 \
  --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass
