#include "model/engines/vllm/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/base/words.h"
#include "model/engines/vllm/deployment.h"
#include "model/engines/vllm/start/engine_args.h"
#include "model/engines/vllm/start/options.h"

namespace a2asim {
namespace vllm {
namespace {

constexpr std::string_view kName = "vllm";
// vllm/entrypoints/cli, vllm/entrypoints/openai/api_server.py, and Dynamo's workers.
constexpr FrontEnd kFrontEnds[] = {
    {.engine = kName,
     .command = "vllm serve",
     .program = "vllm",
     .subcommand = "serve",
     .model_option = "--model",
     .image = "vllm/vllm-openai"},
    {.engine = kName,
     .command = "python3 -m vllm.entrypoints.openai.api_server",
     .module = "vllm.entrypoints.openai.api_server",
     .script = "vllm/entrypoints/openai/api_server.py"},
    {.engine = kName, .command = "vllm bench", .program = "vllm", .subcommand = "bench", .is_server = false},
    {.engine = kName,
     .command = "python3 -m dynamo.vllm",
     .module = "dynamo.vllm",
     .has_submodules = true,
     .is_server = false},
};
constexpr std::string_view kVariablePrefixes[] = {"VLLM_"};
constexpr std::string_view kConfigOptions[] = {"--config"};
constexpr LaunchSyntax kSyntax = {.front_ends = kFrontEnds,
                                  .variable_prefixes = kVariablePrefixes,
                                  .example_arguments = "M -tp 1 -dp 8 --enable-expert-parallel",
                                  .recipe_key = "vllm_config",
                                  .config_options = kConfigOptions};

std::vector<const Version*> versions() {
  std::vector<const Version*> all;
  for (const Generation& generation : generations()) all.push_back(&generation);
  return all;
}

Result<DeployedCommand> deploy(LaunchCommand command, const DeployOptions& options) {
  const Version* const version = options.version.version;
  const Generation& generation = version != nullptr ? as_generation(*version) : generations().back();
  DeployedCommand out;
  out.launch = std::move(command);
  for (const auto& [name, value] : options.env.values()) out.launch.env.set(name, value);
  out.model = options.model;
  Result<ReadArgs> read = read_engine_args(generation, out.launch);
  if (!read) return tl::unexpected(read.error());
  out.argument_notes = std::move(read->notes);
  if (read->refused) {
    out.refused = std::move(read->refused);
    return out;
  }
  if (!out.model && options.guesses_model) {
    out.guessed = guess_model(read->args.model);
    if (out.guessed) out.model = out.guessed->shape;
  }
  auto resolved = resolve_deployment({.generation = &generation,
                                      .args = std::move(read->args),
                                      .env = out.launch.env,
                                      .model = out.model,
                                      .model_quantization = options.model_quantization,
                                      .gpu_memory_gib = options.gpu_memory_gib,
                                      .gpu_name = options.gpu_name,
                                      .rule = options.rule});
  if (!resolved) return tl::unexpected(resolved.error());
  for (Note& note : notes_on_settings(vllm_part(**resolved))) out.argument_notes.push_back(std::move(note));
  out.deployment = std::move(*resolved);
  return out;
}

std::string fix_for_refused(const Version& version, std::span<const std::string> argv) {
  return fix_for_options(as_generation(version), argv);
}

bool accepts(const Generation& generation, std::string_view backend) {
  return (" " + std::string(generation.parallel.backends) + " ").find(" " + std::string(backend) + " ") !=
         std::string::npos;
}

bool dispatches(const Version& version, DispatchType type) {
  if (!accepts(as_generation(version), "flashinfer_nvlink_one_sided")) return true;  // others carry any type
  const OneSidedTypes types = as_generation(version).capacity.one_sided.types;
  return type == DispatchType::nvfp4 || types == OneSidedTypes::nvfp4_bf16_mxfp8;
}

// As written: dashes or underscores, the short name, the switch that turns it off.
std::vector<std::string> spellings(const Version& version, std::string_view option) {
  std::string dashed(option);
  std::ranges::replace(dashed, '_', '-');
  const Flag* flag = options().find(dashed);
  if (flag == nullptr || !knows(version, flag->dest)) return {};
  std::vector<std::string> out = options().abbreviations_of(*flag);
  for (const std::string_view one : split_words(flag->option_strings)) {
    out.emplace_back(one);
    if (!one.starts_with("--")) continue;
    std::string& low = out.emplace_back(one);
    std::replace(low.begin() + 2, low.end(), '-', '_');
  }
  return out;
}

// Their defaults are not compared.
std::vector<std::pair<std::string, std::string>> options_of(const Version& version) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionSet::Option& option : options().options())
    if (knows(version, option.flag->dest)) out.emplace_back(option.string, "null");
  return out;
}

std::string_view alltoall_runner(const Version&) { return ""; }

const FlashInferLimits& flashinfer(const Version& version) { return limits(as_generation(version).flashinfer); }

std::vector<std::string> plan_backends(const Version& version) {
  const Generation& generation = as_generation(version);
  std::vector<std::string> out;
  for (const std::string_view backend : split_words(generation.parallel.backends))
    if (const auto gone = split_words(generation.parallel.removed); std::ranges::find(gone, backend) == gone.end())
      out.emplace_back(backend);
  return out;
}

// The all-to-all that a layout means by "flashinfer": the one-sided one where there is one.
std::string backend_of(std::string_view asked, const Generation& generation) {
  if (!asked.empty() && asked != "flashinfer") return std::string(asked);
  for (const std::string_view backend : {"flashinfer_nvlink_one_sided", "allgather_reducescatter"})
    if (accepts(generation, backend)) return std::string(backend);
  return "naive";
}

// A server with one rank a replica unless told else, sized for the tokens of a step.
std::string plan_command(const Version& version, const PlannedServer& server) {
  const Generation& generation = as_generation(version);
  const std::string_view suffix = server.dispatch_type == DispatchType::nvfp4   ? "-NVFP4"
                                  : server.dispatch_type == DispatchType::mxfp8 ? "-MXFP8"
                                                                                : "-BF16";
  std::string line =
      fmt::format("vllm serve M{} --tensor-parallel-size {} --data-parallel-size {} --enable-expert-parallel", suffix,
                  server.attn_tp_size, server.ep_size / server.attn_tp_size);
  const std::string backend = backend_of(server.backend, generation);
  if (generation.parallel.source != BackendSource::variable)
    line += fmt::format(" --all2all-backend {}", backend);
  else if (!server.backend.empty())
    line = fmt::format("VLLM_ALL2ALL_BACKEND={} {}", backend, line);
  const bool in_rounds =
      generation.capacity.chunk_is_a_variable && generation.capacity.chunks && is_chunked(kernels_of(backend));
  if (in_rounds && server.max_num_tokens)
    line = fmt::format("VLLM_MOE_DP_CHUNK_SIZE={} {}", *server.max_num_tokens, line);
  const auto tokens = in_rounds || !server.max_num_tokens ? server.chunked_prefill_size : server.max_num_tokens;
  if (tokens) line += fmt::format(" --max-num-batched-tokens {}", *tokens);
  return line;
}

// Sizes of the whole server become those of a replica.
std::vector<std::string> launch_words(const Parallel& layout, const Version& version) {
  const Generation& generation = as_generation(version);
  const std::int64_t replicas = layout.attn_dp_size();
  const std::int64_t width = layout.speculative_algorithm ? layout.speculative_num_draft_tokens.value_or(2) : 1;
  std::vector<std::string> words = {"--model", layout.model_path.value_or("M-NVFP4")};
  const auto add = [&](std::string_view flag, std::int64_t value) {
    words.insert(words.end(), {std::string(flag), std::to_string(value)});
  };
  add("--tensor-parallel-size", std::max<std::int64_t>(layout.world_size() / replicas, 1));
  if (replicas > 1) add("--data-parallel-size", replicas);
  words.emplace_back("--enable-expert-parallel");
  const std::string backend = backend_of(layout.moe_a2a_backend.value_or(""), generation);
  const bool has_flag = generation.parallel.source != BackendSource::variable;
  if (has_flag) words.insert(words.end(), {"--all2all-backend", backend});  // before: what the version takes by default
  std::int64_t requests = 0;
  if (layout.max_running_requests)
    add("--max-num-seqs", requests = std::max<std::int64_t>(*layout.max_running_requests / replicas, 1));
  if (layout.chunked_prefill_size)
    add("--max-num-batched-tokens",
        std::max({*layout.chunked_prefill_size / replicas, requests * width, std::int64_t{1}}));
  std::string compilation;
  const auto setting = [&](std::string text) { compilation += (compilation.empty() ? "" : ", ") + std::move(text); };
  if (layout.cuda_graph_mode) setting(fmt::format("\"cudagraph_mode\": \"{}\"", *layout.cuda_graph_mode));
  std::vector<std::int64_t> sizes = layout.cuda_graph_bs;
  for (std::int64_t& size : sizes) size *= width;
  if (!sizes.empty())
    setting(fmt::format("\"cudagraph_capture_sizes\": [{}]", fmt::join(sizes, ", ")));
  else if (layout.cuda_graph_max_bs)
    setting(fmt::format("\"max_cudagraph_capture_size\": {}", *layout.cuda_graph_max_bs * width));
  if (layout.disable_cuda_graph.value_or(false))
    words.emplace_back("--enforce-eager");
  else if (!compilation.empty())
    words.insert(words.end(), {"--compilation-config", "{" + compilation + "}"});
  if (width > 1)
    words.insert(words.end(), {"--speculative-config",
                               fmt::format("{{\"method\": \"mtp\", \"num_speculative_tokens\": {}}}", width - 1)});
  return words;
}

// What exploring walks behind a planned command.
constexpr ExploreValue kModes[] = {{},
                                   {.words = " --compilation-config.cudagraph_mode FULL_DECODE_ONLY"},
                                   {.words = " --compilation-config.cudagraph_mode FULL"},
                                   {.words = " --enforce-eager"}};
constexpr ExploreValue kDrafts[] = {
    {}, {.words = " --speculative-config '{\"method\":\"mtp\",\"num_speculative_tokens\":1}'", .extra = "speculative"}};
constexpr ExploreValue kRequests[] = {{.words = " --max-num-seqs 8"}, {.words = " --max-num-seqs 2"}};
constexpr ExploreSetting kExplored[] = {kModes, kDrafts, kRequests};

}  // namespace
}  // namespace vllm

constexpr Engine kVllm{.name = vllm::kName,
                       .title = "vLLM",
                       .syntax = &vllm::kSyntax,
                       .versions = vllm::versions,
                       .find_version = vllm::find_generation,
                       .deploy = vllm::deploy,
                       .fix_for_refused = vllm::fix_for_refused,
                       .alltoall_runner = vllm::alltoall_runner,
                       .flashinfer = vllm::flashinfer,
                       .cap_variable = "",
                       .plan_command = vllm::plan_command,
                       .dispatches = vllm::dispatches,
                       .explore_settings = vllm::kExplored,
                       .skip_exchange = "",
                       .log_lines = "",
                       .log_numbering = "",
                       .pull_requests = "https://github.com/vllm-project/vllm/pull/",
                       .images = "vllm/vllm-openai",
                       .spellings = vllm::spellings,
                       .options = vllm::options_of,
                       .plan_backends = vllm::plan_backends,
                       .launch_words = vllm::launch_words};

}  // namespace a2asim
