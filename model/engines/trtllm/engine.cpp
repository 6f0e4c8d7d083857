#include "model/engines/trtllm/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/engines/trtllm/deployment.h"
#include "model/engines/trtllm/resolve.h"

namespace a2asim {
namespace {

std::vector<const Version*> versions() {
  std::vector<const Version*> all;
  for (const trtllm::Generation& generation : trtllm::generations()) all.push_back(&generation);
  return all;
}

constexpr std::string_view kName = "trtllm";
constexpr FrontEnd kFrontEnds[] = {
    {.engine = kName, .command = "trtllm-serve", .program = "trtllm-serve"},
    {.engine = kName, .command = "trtllm-bench", .program = "trtllm-bench", .is_server = false},
    {.engine = kName,
     .command = "python3 -m dynamo.trtllm",
     .module = "dynamo.trtllm",
     .has_submodules = true,
     .is_server = false},
};
constexpr std::string_view kVariablePrefixes[] = {"TRTLLM_", "TLLM_", "ENABLE_CONFIGURABLE_MOE"};
constexpr std::string_view kConfigOptions[] = {"--extra_llm_api_options", "--extra-llm-api-options", "--config",
                                               "--extra-engine-args"};
constexpr LaunchSyntax kSyntax = {.front_ends = kFrontEnds,
                                  .variable_prefixes = kVariablePrefixes,
                                  .example_arguments = "MODEL --tp_size 8 --ep_size 8",
                                  .recipe_key = "trtllm_config",
                                  .config_options = kConfigOptions,
                                  .config_is_nested = true,
                                  .config_key = "tensor_parallel_size",
                                  .python_module = "tensorrt_llm"};

Result<DeployedCommand> deploy(LaunchCommand command, const DeployOptions& options) {
  DeployedCommand out;
  out.launch = std::move(command);
  for (const auto& [name, value] : options.env.values()) out.launch.env.set(name, value);
  Result<trtllm::Arguments> args = trtllm::read_arguments(out.launch.front_end, out.launch.argv);
  if (!args) return tl::unexpected(args.error());
  out.argument_notes = std::move(args->notes);
  args->notes.clear();
  out.model = options.model;
  if (!out.model && options.guesses_model) {
    out.guessed = guess_model(args->model);
    if (out.guessed) out.model = out.guessed->shape;
  }
  trtllm::Inputs inputs;
  if (options.version.version != nullptr) inputs.generation = &trtllm::as_generation(*options.version.version);
  inputs.args = std::move(*args);
  inputs.env = out.launch.env;
  inputs.forwarded = out.launch.forwarded;
  inputs.model = out.model;
  inputs.gpu_memory_gib = options.gpu_memory_gib;
  inputs.nvlink_domain = options.nvlink_domain;
  inputs.gpu = options.gpu_name.empty() ? out.launch.gpu : options.gpu_name;
  inputs.rule = options.rule;
  auto resolved = trtllm::resolve(inputs);
  if (!resolved) return tl::unexpected(resolved.error());
  out.deployment = std::move(*resolved);
  return out;
}

std::string fix_for_refused(const Version&, std::span<const std::string>) { return {}; }

std::vector<std::string> spellings(const Version&, std::string_view option) { return trtllm::spellings_of(option); }

std::string_view alltoall_runner(const Version&) { return "TRTLLM"; }

bool dispatches(const Version&, DispatchType type) { return type != DispatchType::mxfp8; }

std::string plan_command(const Version&, const PlannedServer& server) {
  const std::int64_t tokens = server.max_num_tokens.value_or(server.chunked_prefill_size.value_or(8192));
  const bool shares = server.ep_size <= server.attn_tp_size;
  const std::string_view model = server.dispatch_type == DispatchType::nvfp4 ? "M-NVFP4" : "M";
  return fmt::format("{}={} {} {} --tp_size {} --ep_size {} --max_num_tokens {}{}", trtllm::kDomainVariable,
                     server.ep_size, kFrontEnds[0].command, model, server.ep_size, server.ep_size, tokens,
                     shares ? "" : " --enable_attention_dp");
}

// A layout as attention data parallelism over all ranks, which is the only kind with an all-to-all here.
std::vector<std::string> launch_words(const Parallel& layout, const Version&) {
  const std::int64_t replicas = layout.attn_dp_size(), world = layout.world_size();
  const std::int64_t width = layout.speculative_algorithm ? layout.speculative_num_draft_tokens.value_or(2) : 1;
  std::vector<std::string> words = {layout.model_path.value_or("M-NVFP4")};
  const auto add = [&](std::string_view option, std::int64_t value) {
    words.push_back(fmt::format("--{}={}", option, value));
  };
  add("tp_size", world);
  add("ep_size", world);
  if (replicas > 1) words.emplace_back("--enable_attention_dp");
  std::int64_t requests = 1;
  if (layout.max_running_requests)
    add("max_batch_size", requests = std::max<std::int64_t>(*layout.max_running_requests / replicas, 1));
  if (layout.chunked_prefill_size)
    add("max_num_tokens", std::max({*layout.chunked_prefill_size / replicas, requests * width, std::int64_t{1}}));
  if (layout.disable_cuda_graph.value_or(false)) {
    words.emplace_back("--cuda_graph_config=null");
  } else {
    words.emplace_back("--cuda_graph_config.enable_padding=true");
    if (!layout.cuda_graph_bs.empty())
      words.push_back(fmt::format("--cuda_graph_config.batch_sizes=[{}]", fmt::join(layout.cuda_graph_bs, ",")));
  }
  if (width > 1) add("speculative_config.max_draft_len", width - 1);
  return words;
}

// No NVLink domain, several chunks, the low-latency lane with a small limit.
constexpr ExploreValue kDomains[] = {{}, {.env = "A2ASIM_NVLINK_DOMAIN=2", .extra = "lane"}};
constexpr ExploreValue kChunks[] = {{}, {.words = " --moe_config.max_num_tokens=64", .extra = "small_cap"}};
constexpr ExploreValue kLimits[] = {
    {}, {.env = "TRTLLM_FORCE_ALLTOALL_METHOD=DeepEPLowLatency TRTLLM_DEEP_EP_TOKEN_LIMIT=16", .extra = "lane"}};
constexpr ExploreValue kGraphs[] = {
    {.words = " --cuda_graph_config.batch_sizes=[1,4,8] --cuda_graph_config.enable_padding=true"},
    {.words = " --cuda_graph_config.batch_sizes=[1,4,8]"},
    {.words = " --cuda_graph_config=null"}};
constexpr ExploreValue kDrafts[] = {{}, {.words = " --speculative_config.max_draft_len=1", .extra = "speculative"}};
constexpr ExploreSetting kExploreSettings[] = {kDomains, kChunks, kLimits, kGraphs, kDrafts};

const FlashInferLimits& kernels(const Version& version) { return trtllm::limits_of(trtllm::as_generation(version)); }

}  // namespace

constexpr Engine kTrtllm{.name = kName,
                         .title = "TensorRT-LLM",
                         .syntax = &kSyntax,
                         .versions = versions,
                         .find_version = trtllm::find_generation,
                         .deploy = deploy,
                         .fix_for_refused = fix_for_refused,
                         .alltoall_runner = alltoall_runner,
                         .flashinfer = kernels,
                         .cap_variable = trtllm::kWorkspaceMb,
                         .plan_command = plan_command,
                         .dispatches = dispatches,
                         .explore_settings = kExploreSettings,
                         .skip_exchange = "",
                         .log_lines = "lines that from-log does not know yet",
                         .log_numbering = "",
                         .pull_requests = "https://github.com/NVIDIA/TensorRT-LLM/pull/",
                         .spellings = spellings,
                         .launch_words = launch_words};

}  // namespace a2asim
