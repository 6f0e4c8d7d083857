# The second: its buffers are made for 256 tokens, those of the first for 512.
vllm serve deepseek-ai/DeepSeek-V3-0324 --data-parallel-size 16 --data-parallel-size-local 8 --enable-expert-parallel \
  --all2all-backend deepep_low_latency --max-num-seqs 256 --max-num-batched-tokens 256 \
  --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 13345 --data-parallel-start-rank 8 --headless
