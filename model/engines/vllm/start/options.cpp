#include "model/engines/vllm/start/options.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "model/base/words.h"

namespace a2asim::vllm {
namespace {

// Options of vllm serve from v0.9.0 to main20260817 (vllm/engine/arg_utils.py, vllm/entrypoints/openai/cli_args.py,
// vllm/entrypoints/cli/serve.py) without their dashes, by how they take a value.
struct Kind {
  FlagType type;
  FlagAction action;
  FlagNargs nargs;
  std::string_view names;
};
constexpr Kind kKinds[] = {
    {FlagType::none, FlagAction::store_true, FlagNargs::zero,
     "aggregate-engine-logging data-parallel-multi-port-external-lb disable-async-output-proc disable-log-stats "
     "expand-tools-even-if-tool-choice-none grpc headless use-v2-block-manager"},
    {FlagType::none, FlagAction::boolean_optional, FlagNargs::zero,
     "allow-credentials allow-deprecated-quantization async-scheduling calculate-kv-scales cohere-is-reasoning-model "
     "cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb disable-cascade-attn "
     "disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs disable-frontend-multiprocessing "
     "disable-hybrid-kv-cache-manager disable-log-requests disable-mm-preprocessor-cache "
     "disable-nccl-for-dp-synchronization disable-sliding-window disable-uvicorn-access-log enable-auto-tool-choice "
     "enable-bf16x3-router-gemm enable-chunked-prefill enable-cumem-allocator enable-dbo enable-elastic-ep "
     "enable-ep-weight-filter enable-eplb enable-expert-parallel enable-fault-tolerance "
     "enable-flash-late-interaction enable-flashinfer-autotune enable-force-include-usage "
     "enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs enable-log-requests "
     "enable-logging-iteration-details enable-lora enable-lora-bias enable-mamba-cache-stochastic-rounding "
     "enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds enable-moe-shared-loras "
     "enable-multimodal-encoder-data-parallel enable-offline-docs enable-per-request-metrics enable-prefix-caching "
     "enable-prompt-adapter enable-prompt-embeds enable-prompt-tokens-details enable-reasoning "
     "enable-request-id-headers enable-return-routed-experts enable-server-load-tracking enable-sleep-mode "
     "enable-ssl-refresh enable-tokenizer-info-endpoint enable-tower-connector-lora enforce-eager "
     "eplb-log-balancedness exclude-tools-when-tool-choice-none fail-on-environ-validation fully-sharded-loras "
     "guided-decoding-disable-additional-properties guided-decoding-disable-any-whitespace "
     "guided-decoding-disable-fallback interleave-mm-strings jit-monitor-verbose kv-cache-metrics "
     "kv-sharing-fast-prefill language-model-only log-error-stack mm-encoder-only multi-step-stream-outputs "
     "numa-bind ray-workers-use-nsight return-sampling-mask return-tokens-as-token-ids scheduler-reserve-full-isl "
     "skip-mm-profiling skip-tokenizer-init specialize-active-lora tokens-only trust-remote-code "
     "trust-request-chat-template use-fp64-gumbel use-replayssm use-tqdm-on-load"},
    {FlagType::str, FlagAction::store, FlagNargs::optional, "hf-token"},
    {FlagType::str, FlagAction::store, FlagNargs::plus,
     "allowed-media-domains collect-detailed-traces cpu-offload-params ignore-patterns kv-cache-dtype-skip-layers "
     "logits-processors long-lora-scaling-factors lora-modules lora-target-modules numa-bind-cpus numa-bind-nodes "
     "offload-params prompt-adapters served-model-name"},
    {FlagType::integer, FlagAction::store, FlagNargs::plus, "cuda-graph-sizes cudagraph-capture-sizes"},
    {FlagType::integer, FlagAction::store, FlagNargs::one,
     "data-parallel-rank data-parallel-size data-parallel-size-local data-parallel-start-rank "
     "dbo-decode-token-threshold dbo-prefill-token-threshold decode-context-parallel-size max-cudagraph-capture-size "
     "max-num-seqs nnodes node-rank num-redundant-experts pipeline-parallel-size prefill-context-parallel-size "
     "spec-tokens tensor-parallel-size ubatch-size"},
    {FlagType::human_int, FlagAction::store, FlagNargs::one, "max-model-len max-num-batched-tokens"},
    {FlagType::str, FlagAction::store, FlagNargs::one,
     "additional-config all2all-backend allowed-headers allowed-local-media-path allowed-methods allowed-origins "
     "api-key api-server-count attention-backend attention-config block-size chat-template "
     "chat-template-content-format code-revision cohere-format compilation-config config config-format convert "
     "cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb data-parallel-address "
     "data-parallel-backend data-parallel-rpc-port data-parallel-supervisor-port dcp-comm-backend "
     "dcp-kv-cache-interleave-size default-chat-template-kwargs default-mm-loras device device-ids diffusion-config "
     "disable-access-log-for-endpoints distributed-executor-backend distributed-timeout-seconds download-dir "
     "dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dtype "
     "ec-manager-config ec-transfer-config eplb-config eplb-step-interval eplb-window-size expert-placement-strategy "
     "fault-tolerance-config fingerprint-mode fingerprint-value gdn-prefill-backend generation-config "
     "gpu-memory-utilization guided-decoding-backend h11-max-header-count h11-max-incomplete-event-size "
     "hf-config-path hf-overrides host io-processor-plugin ir-op-priority jit-monitor-mode kda-prefill-backend "
     "kernel-config kv-cache-dtype kv-cache-memory-bytes kv-cache-metrics-sample kv-events-config "
     "kv-offloading-backend kv-offloading-size kv-transfer-config limit-mm-per-prompt linear-backend load-format "
     "log-config-file logits-processor-pattern logprobs-mode long-prefill-token-threshold lora-dtype "
     "lora-extra-vocab-size mamba-backend mamba-block-size mamba-cache-dtype mamba-cache-mode "
     "mamba-cache-philox-rounds mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port max-cpu-loras "
     "max-log-len max-logprobs max-long-partial-prefills max-lora-rank max-loras max-num-partial-prefills "
     "max-num-scheduled-tokens max-parallel-loading-workers max-prompt-adapter-token max-prompt-adapters "
     "max-seq-len-to-capture media-io-kwargs middleware mm-device-do-normalize mm-encoder-attn-backend "
     "mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin "
     "mm-encoder-fp8-scale-save-path mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb "
     "mm-processor-cache-gb mm-processor-cache-type mm-processor-device mm-processor-kwargs "
     "mm-shm-cache-max-object-size-mb mm-tensor-ipc model model-class-overrides model-impl model-loader-extra-config "
     "moe-backend num-gpu-blocks-override num-lookahead-slots num-scheduler-steps offload-backend offload-group-size "
     "offload-num-in-group offload-prefetch-step optimization-level otlp-traces-endpoint override-attention-dtype "
     "override-generation-config override-neuron-config override-pooler-config performance-mode pooler-config port "
     "preemption-mode prefill-schedule-interval prefix-cache-retention-interval prefix-caching-hash-algo "
     "prefix-match-unit profiler-config pt-load-map-location qlora-adapter-name-or-path quantization "
     "quantization-config reasoning-config reasoning-parser reasoning-parser-plugin renderer-num-workers "
     "replayssm-buffer-len response-role revision root-path rope-scaling rope-theta runner safetensors-load-strategy "
     "safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls scheduler-delay-factor "
     "scheduling-policy seed show-hidden-metrics-for-version shutdown-timeout spec-method spec-model "
     "speculative-config ssl-ca-certs ssl-cert-reqs ssl-certfile ssl-ciphers ssl-keyfile stream-interval "
     "structured-outputs-config swap-space task tokenizer tokenizer-mode tokenizer-pool-extra-config "
     "tokenizer-pool-size tokenizer-pool-type tokenizer-revision tool-call-parser tool-parser-plugin tool-server uds "
     "uvicorn-log-level video-pruning-method video-pruning-rate watermark weight-transfer-config worker-cls "
     "worker-extension-cls"},
};

struct Alias {
  std::string_view name, option;
};
constexpr Alias kAliases[] = {
    {"-ac", "attention-config"},
    {"-asc", "api-server-count"},
    {"-cc", "compilation-config"},
    {"-dc", "diffusion-config"},
    {"-dcp", "decode-context-parallel-size"},
    {"-dp", "data-parallel-size"},
    {"-dpa", "data-parallel-address"},
    {"-dpb", "data-parallel-backend"},
    {"-dpe", "data-parallel-external-lb"},
    {"-dph", "data-parallel-hybrid-lb"},
    {"-dpl", "data-parallel-size-local"},
    {"-dpm", "data-parallel-multi-port-external-lb"},
    {"-dpn", "data-parallel-rank"},
    {"-dpp", "data-parallel-rpc-port"},
    {"-dpr", "data-parallel-start-rank"},
    {"-ep", "enable-expert-parallel"},
    {"-n", "nnodes"},
    {"-pcp", "prefill-context-parallel-size"},
    {"-pp", "pipeline-parallel-size"},
    {"-q", "quantization"},
    {"-r", "node-rank"},
    {"-sc", "speculative-config"},
    {"-tp", "tensor-parallel-size"},
    {"-O", "compilation-config"},
};

// Since which version an option of the all-to-all is known, and until which; dates of their changes.
struct Life {
  std::string_view option, since, until = "9999";
};
constexpr Life kLives[] = {
    {"all2all-backend", "2025-10-13"},
    {"data-parallel-external-lb", "2025-11-16"},
    {"decode-context-parallel-size", "2025-09-06"},
    {"enable-dbo", "2025-09-16"},
    {"enable-elastic-ep", "2026-02-28"},
    {"enable-eplb", "2025-06-26"},
    {"eplb-config", "2025-08-20"},
    {"max-cudagraph-capture-size", "2025-10-24"},
    {"cudagraph-capture-sizes", "2025-10-24"},
    {"cuda-graph-sizes", "2025-05-01", "2025-12-10"},
    {"num-redundant-experts", "2025-06-26", "2025-11-25"},
    {"performance-mode", "2026-02-25"},
    {"prefill-context-parallel-size", "2025-11-19"},
    {"ubatch-size", "2025-12-16"},
};

class Options {
 public:
  Options() {
    for (const Kind& kind : kKinds)
      for (const std::string_view name : split_words(kind.names)) add(kind, name);
  }
  OptionSet take() { return OptionSet(std::move(flags_)); }

 private:
  void add(const Kind& kind, std::string_view name) {
    std::string& spelled = texts_.emplace_back("--" + std::string(name));
    if (kind.action == FlagAction::boolean_optional) spelled += " --no-" + std::string(name);
    for (const Alias& alias : kAliases)
      if (alias.option == name) spelled += " " + std::string(alias.name);
    own_.push_back(
        {.option_strings = spelled, .dest = name, .type = kind.type, .action = kind.action, .nargs = kind.nargs});
    flags_.push_back(&own_.back());
  }

  static inline std::deque<std::string> texts_;  // what the flags point into
  static inline std::deque<Flag> own_;
  std::vector<const Flag*> flags_;
};

}  // namespace

const OptionSet& options() {
  static const OptionSet all = Options().take();
  return all;
}

bool knows(const Version& version, std::string_view option) {
  const auto* const life = std::ranges::find(kLives, option, &Life::option);
  return life == std::end(kLives) || (version.date >= life->since && version.date < life->until);
}

}  // namespace a2asim::vllm
