# The first of two nodes: a2asim check --vllm v0.20.1 --together node0.sh node1.sh
vllm serve deepseek-ai/DeepSeek-V3-0324 --data-parallel-size 16 --data-parallel-size-local 8 --enable-expert-parallel \
  --all2all-backend deepep_low_latency --max-num-seqs 256 --max-num-batched-tokens 512 \
  --data-parallel-address 10.0.0.1 --data-parallel-rpc-port 13345
