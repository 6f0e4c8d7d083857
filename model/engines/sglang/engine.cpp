#include "model/engines/sglang/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/base/one_line.h"
#include "model/base/words.h"
#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"
#include "model/engines/sglang/start/refused_argument.h"

namespace a2asim {
namespace {

std::vector<const Version*> versions() {
  std::vector<const Version*> all;
  for (const Generation& generation : generations()) all.push_back(&generation);
  return all;
}

Result<VersionMatch> find_version(std::string_view text) {
  Result<GenerationMatch> match = find_generation(text);
  if (!match) return tl::unexpected(match.error());
  return VersionMatch{match->generation, !match->has_flashinfer_dispatcher, std::move(match->note)};
}

constexpr std::string_view kName = "sglang";
// python/sglang/launch_server.py, python/sglang/cli, the router's and Dynamo's workers.
constexpr FrontEnd kFrontEnds[] = {
    {.engine = kName,
     .command = "python3 -m sglang.launch_server",
     .module = "sglang.launch_server",
     .script = "sglang/launch_server.py"},
    {.engine = kName,
     .command = "sglang serve",
     .program = "sglang",
     .subcommand = "serve",
     .model_option = "--model-path",
     .dropped_option = "--model-type"},
    {.engine = kName,
     .command = "python3 -m sglang_router.launch_server",
     .module = "sglang_router.launch_server",
     .is_server = false},
    {.engine = kName,
     .command = "python3 -m dynamo.sglang",
     .module = "dynamo.sglang",
     .has_submodules = true,
     .is_server = false},
};
constexpr std::string_view kVariablePrefixes[] = {"SGLANG_"};
constexpr std::string_view kConfigOptions[] = {"--config"};
constexpr LaunchSyntax kSyntax = {.front_ends = kFrontEnds,
                                  .variable_prefixes = kVariablePrefixes,
                                  .example_arguments = "--model-path M --tp 8",
                                  .recipe_key = "sglang_config",
                                  .config_options = kConfigOptions};

Result<DeployedCommand> deploy(LaunchCommand command, const DeployOptions& options) {
  const Version* const version = options.version.version;
  const Generation& generation = version != nullptr ? as_generation(*version) : newest_generation();
  DeployedCommand out;
  out.launch = std::move(command);
  for (const auto& [name, value] : options.env.values()) out.launch.env.set(name, value);
  out.model = options.model;
  Result<ParsedArgs> parsed = parse_server_args(generation.options, out.launch.argv, ParseMode::lenient);
  if (!parsed && parsed.error().kind != ErrorKind::parse_error) return tl::unexpected(parsed.error());
  if (!parsed) {
    if (const std::string fix = fix_for_newer_choice(generation, out.launch.argv); !fix.empty())
      return fail(ErrorKind::bad_input, fix);
    out.refused = std::move(parsed.error());
    return out;
  }
  // A front end of its own takes more options than the server's.
  const bool is_server = out.launch.front_end == nullptr || out.launch.front_end->is_server;
  const auto is_known = [](const std::string& word) { return !lists_with(word.substr(0, word.find('='))).empty(); };
  // A change stands for all that was built on it: what some other version takes is a note there, and no refusal. A
  // release is what it is.
  const auto is_this = [&](const Generation& one) { return &one == &generation; };
  const bool is_release =
      std::ranges::find(generation.releases, generation.name, &Release::name) != generation.releases.end();
  if (!is_release && std::ranges::any_of(generations(), is_this)) std::erase_if(parsed->unrecognized, is_known);
  for (std::string& word : parsed->unrecognized)
    if (word.find_first_not_of(' ') == std::string::npos) word = "'" + word + "'";  // of a backslash before a blank
  if (is_server && !parsed->unrecognized.empty()) {
    const std::string words = fmt::format("{}", fmt::join(parsed->unrecognized, " "));
    // It may have it all the same: no verdict without knowing what it does.
    if (!generation.options_are_complete && std::ranges::none_of(parsed->unrecognized, is_known))
      return fail(
          ErrorKind::bad_input,
          fmt::format("{} is no option of SGLang that is known up to {} ({}): {}, or name the version that has it",
                      one_line(words, 100), name_of_state(generation), generation.date,
                      fix_for_unrecognized(generation, parsed->unrecognized)));
    out.refused =
        Error{ErrorKind::parse_error, "launch_server: error: unrecognized arguments: " + one_line(words, 200)};
    return out;
  }
  out.argument_notes = std::move(parsed->notes);
  if (!out.model && options.guesses_model && parsed->args.model_path) {
    out.guessed = guess_model(*parsed->args.model_path);
    if (out.guessed) out.model = out.guessed->shape;
  }
  auto resolved = resolve_deployment({.generation = &generation,
                                      .has_flashinfer_dispatcher = !options.version.is_older,
                                      .args = std::move(parsed->args),
                                      .env = out.launch.env,
                                      .model = out.model,
                                      .model_quantization = options.model_quantization,
                                      .gpu_memory_gib = options.gpu_memory_gib,
                                      .rule = options.rule});
  if (!resolved) return tl::unexpected(resolved.error());
  out.deployment = std::move(*resolved);
  return out;
}

std::string fix_for_refused(const Version& version, std::span<const std::string> argv) {
  return fix_for_refused_argument(as_generation(version), argv);
}

std::string_view alltoall_runner(const Version& version) {
  const std::string_view runners = as_generation(version).start.flashinfer_runners;
  return runners.substr(0, runners.find(' '));
}

std::vector<std::string> spellings(const Version& version, std::string_view option) {
  const OptionSet& known = option_set(as_generation(version).options);
  const Flag* flag = known.find(option);
  if (flag == nullptr) return {};
  std::vector<std::string> out = known.abbreviations_of(*flag);
  for (const std::string_view one : split_words(flag->option_strings)) out.emplace_back(one);
  return out;
}

// --flashinfer-a2a-dispatch-type came with v0.5.20; before, a variable chose between two.
bool has_dispatch_flag(const Version& version) { return !spellings(version, "--flashinfer-a2a-dispatch-type").empty(); }

bool dispatches(const Version& version, DispatchType type) {
  return type != DispatchType::mxfp8 || has_dispatch_flag(version);
}

std::string plan_command(const Version& version, const PlannedServer& server) {
  std::string line;
  if (server.max_num_tokens) line += fmt::format("{}={} ", kCapVariable, *server.max_num_tokens);
  const bool by_flag = has_dispatch_flag(version);
  if (!by_flag)
    line += fmt::format("SGLANG_MOE_NVFP4_DISPATCH={} ", server.dispatch_type == DispatchType::nvfp4 ? 1 : 0);
  // The backend sets ep_size to tp_size by itself, but not where it refuses the layout before.
  line +=
      fmt::format("{} --model-path M --tp-size {} --ep-size {}", kFrontEnds[0].command, server.ep_size, server.ep_size);
  if (server.ep_size > server.attn_tp_size)
    line += fmt::format(" --dp-size {} --enable-dp-attention", server.ep_size / server.attn_tp_size);
  if (server.own_count_only) line += " --enable-dp-lm-head --moe-dense-tp-size 1";
  line += " --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass";
  if (by_flag) line += fmt::format(" --flashinfer-a2a-dispatch-type {}", name(server.dispatch_type));
  if (server.chunked_prefill_size) line += fmt::format(" --chunked-prefill-size {}", *server.chunked_prefill_size);
  return line;
}

const FlashInferLimits& flashinfer(const Version& version) {
  return limits(as_generation(version).capacity.flashinfer);
}

std::vector<std::pair<std::string, std::string>> options(const Version& version) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const OptionSet::Option& option : option_set(as_generation(version).options).options())
    out.emplace_back(option.string, option.flag->default_json);
  return out;
}

}  // namespace

constexpr Engine kSglang{.name = kName,
                         .title = "SGLang",
                         .syntax = &kSyntax,
                         .versions = versions,
                         .find_version = find_version,
                         .deploy = deploy,
                         .fix_for_refused = fix_for_refused,
                         .alltoall_runner = alltoall_runner,
                         .flashinfer = flashinfer,
                         .cap_variable = kCapVariable,
                         .plan_command = plan_command,
                         .dispatches = dispatches,
                         .skip_exchange = "SGLANG_SCHEDULER_SKIP_ALL_GATHER",
                         .log_lines = "\"Prefill batch, ..\" and \"Decode batch, ..\" at --log-level info",
                         .log_numbering = "SGLANG_LOG_FORWARD_ITERS=1",
                         .pull_requests = "https://github.com/sgl-project/sglang/pull/",

                         .images = "lmsysorg/sglang rocm/sglang lmsysorg/sglang-rocm",
                         .spellings = spellings,
                         .options = options};

}  // namespace a2asim
