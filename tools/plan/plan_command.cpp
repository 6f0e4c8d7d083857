// a2asim plan: what an all-to-all takes in memory, traffic, waste and time, before anything is deployed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "tools/plan/plan.h"
#include "tools/plan/plan_formats.h"
#include "tools/plan/plan_rules.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/output.h"
#include "tools/program/shape_options.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/program/version_options.h"
#include "tools/report/page.h"
#include "tools/report/plan_page.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostListEntries = 256;
constexpr double kMostGib = 1 << 20;
constexpr double kMostGbps = 1e9;

struct PlanArguments {
  ShapeOptions shape;
  VersionChoice version;
  std::optional<std::string> ep, tokens, max_num_tokens, chunked_prefill_size, gpu_memory, weights, other, link_gbps,
      report;
  std::optional<std::string> dispatch_dtype, backend;
  std::string combine_dtype = "bf16", attn_tp_size = "1", layers = "1", format = "text";
};

Result<std::vector<std::int64_t>> parse_list(std::string_view option, const std::optional<std::string>& text,
                                             std::int64_t minimum, std::int64_t maximum) {
  if (!text) return unusable(fmt::format("{} is missing: give one number, or several as 8,16,32", option));
  std::vector<std::int64_t> values;
  for (std::size_t at = 0; at <= text->size();) {
    const std::size_t end = std::min(text->find(',', at), text->size());
    const Result<std::int64_t> value =
        parse_count(option, std::string_view(*text).substr(at, end - at), minimum, maximum);
    if (!value) return tl::unexpected(value.error());
    values.push_back(*value);
    at = end + 1;
  }
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() > kMostListEntries)
    return unusable(fmt::format("{} has {} values: give at most {}", option, values.size(), kMostListEntries));
  return values;
}

Result<void> read_optional(std::string_view option, const std::optional<std::string>& text, std::int64_t minimum,
                           std::optional<std::int64_t>& value) {
  if (!text) return {};
  const Result<std::int64_t> count = parse_count(option, *text, minimum, INT32_MAX);
  if (!count) return tl::unexpected(count.error());
  value = *count;
  return {};
}

Result<void> read_optional(std::string_view option, const std::optional<std::string>& text, std::string_view unit,
                           double most, std::optional<double>& value) {
  if (!text) return {};
  const Result<double> number = parse_positive(option, *text, unit, most);
  if (!number) return tl::unexpected(number.error());
  value = *number;
  return {};
}

Result<void> read_types(const PlanArguments& options, PlanInputs& inputs) {
  // "fp8" is how people say it; the only form that is dispatched is mxfp8.
  inputs.dispatch_type = usual_type(*inputs.generation);
  if (options.dispatch_dtype) {
    const Result<std::size_t> dispatch =
        parse_choice("--dispatch-dtype", *options.dispatch_dtype, {"bf16", "nvfp4", "mxfp8", "fp8"});
    if (!dispatch) return tl::unexpected(dispatch.error());
    inputs.dispatch_type = static_cast<DispatchType>(std::min<std::size_t>(*dispatch, 2));
  }
  const Result<std::size_t> combine = parse_choice("--combine-dtype", options.combine_dtype, {"bf16", "fp8"});
  if (!combine) return tl::unexpected(combine.error());
  inputs.combine_type = static_cast<CombineType>(*combine);
  return {};
}

// Errors: bad_input, with those that the version has.
Result<void> read_backend(const PlanArguments& options, PlanInputs& inputs) {
  if (!options.backend) return {};
  const Engine& engine = engine_of(*inputs.generation);
  if (engine.plan_backends == nullptr)
    return unusable(
        fmt::format("--backend: plan knows {}'s FlashInfer all-to-all alone; leave the option out", engine.title));
  const std::vector<std::string> known = engine.plan_backends(*inputs.generation);
  inputs.backend = *options.backend;
  if (std::ranges::find(known, inputs.backend) != known.end()) return {};
  return unusable(fmt::format("--backend {}: {} {} has {}", one_line(inputs.backend, 60), engine.title,
                              inputs.generation->name, fmt::join(known, ", ")));
}

Result<void> read_sizes(const PlanArguments& options, PlanInputs& inputs) {
  const Result<std::vector<std::int64_t>> ep_sizes = parse_list("--ep", options.ep, 2, kMostPlanRanks);
  if (!ep_sizes) return tl::unexpected(ep_sizes.error());
  const Result<std::vector<std::int64_t>> tokens = parse_list("--tokens", options.tokens, 1, kMostPlanTokens);
  if (!tokens) return tl::unexpected(tokens.error());
  const Result<std::int64_t> attn_tp = parse_count("--attn-tp-size", options.attn_tp_size, 1, kMostPlanRanks);
  if (!attn_tp) return tl::unexpected(attn_tp.error());
  const Result<std::int64_t> layers = parse_count("--layers", options.layers, 1, kMostPlanLayers);
  if (!layers) return tl::unexpected(layers.error());
  inputs.ep_sizes = *ep_sizes;
  inputs.tokens = *tokens;
  inputs.attn_tp_size = *attn_tp;
  inputs.layers = *layers;
  if (auto read = read_optional("--max-num-tokens", options.max_num_tokens, 1, inputs.max_num_tokens); !read)
    return read;
  return read_optional("--chunked-prefill-size", options.chunked_prefill_size, 1, inputs.chunked_prefill_size);
}

Result<void> read_machine(const PlanArguments& options, PlanInputs& inputs) {
  if (auto read = read_optional("--gpu-memory", options.gpu_memory, "GiB of one GPU", kMostGib, inputs.gpu_memory_gib);
      !read)
    return read;
  if (auto read = read_optional("--weights", options.weights, "GiB of one GPU", kMostGib, inputs.weights_gib); !read)
    return read;
  if (auto read = read_optional("--other", options.other, "GiB of one GPU", kMostGib, inputs.other_gib); !read)
    return read;
  return read_optional("--link-gbps", options.link_gbps, "Gbit/s of one GPU in one direction", kMostGbps,
                       inputs.link_gbps);
}

Result<PlanInputs> read_inputs(const PlanArguments& options) {
  PlanInputs inputs;
  const Engine& engine = engine_of(options.version);
  const Result<VersionMatch> match = find_version(engine, options.version);
  if (!match) return tl::unexpected(match.error());
  if (match->is_older)
    return unusable(fmt::format("{} {}: {}", version_option(engine), one_line(options.version.text, 60), match->note));
  inputs.generation = match->version;
  const Result<std::optional<ModelShape>> shape = shape_from_options(options.shape);
  if (!shape) return tl::unexpected(shape.error());
  if (!*shape)
    return unusable("no model: give --model NAME, --model-config FILE, or --num-experts, --top-k and --hidden-size");
  inputs.model = **shape;
  if (auto read = read_backend(options, inputs); !read) return tl::unexpected(read.error());
  if (auto read = read_types(options, inputs); !read) return tl::unexpected(read.error());
  if (auto read = read_sizes(options, inputs); !read) return tl::unexpected(read.error());
  if (auto read = read_machine(options, inputs); !read) return tl::unexpected(read.error());
  return inputs;
}

Result<int> run_plan(const PlanArguments& options, const CommandLine& line, Io& io) {
  if (line.after_dashes) return unusable("takes no launch command: give --ep; `a2asim check` takes a command");
  const Result<std::size_t> format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  if (auto apart = check_outputs({{"--report", options.report}}, given({options.shape.model_config})); !apart)
    return tl::unexpected(apart.error());
  const Result<PlanInputs> inputs = read_inputs(options);
  if (!inputs) return tl::unexpected(inputs.error());
  const Result<Plan> plan = make_plan(*inputs);
  if (!plan) return tl::unexpected(plan.error());
  if (options.report) {
    if (auto written = write_page(*options.report, plan_page(*plan)); !written) return tl::unexpected(written.error());
  }
  io.out << (*format == 0 ? plan_as_text(*plan) : plan_as_json(*plan));
  return plan->has_problem() ? kErrorFound : kNothingWrong;
}

void add_deployment_options(CLI::App& command, PlanArguments& options) {
  add_version_options(command, options.version, "The version (`a2asim versions`); default newest");
  add_engine_option(command, options.version);
  add_value(command, "--backend", options.backend, "NAME",
            "The all-to-all, where an engine has several; default FlashInfer's, or what the version has in its place");
  add_shape_options(command, options.shape, "");
  add_value(command, "--ep,--ep-size,--sweep-ep", options.ep, "N[,N..]",
            "Ranks of the all-to-all; a list makes a sweep");
  add_value(command, "--tokens,--tokens-per-rank,--sweep-tokens", options.tokens, "N[,N..]",
            "Tokens of one data-parallel rank in a step; a list makes a sweep");
  add_value(command, "--attn-tp-size", options.attn_tp_size, "N",
            "Ranks that share a data-parallel rank's tokens; default 1 (dp_size = ep_size)");
  add_value(command, "--layers", options.layers, "N", "MoE layers of a step: traffic and time of all; default 1");
  add_value(command, "--dispatch-dtype", options.dispatch_dtype, "TYPE",
            "bf16, nvfp4, mxfp8 or fp8 (which is mxfp8); default bf16, where the version sends it");
  add_value(command, "--combine-dtype", options.combine_dtype, "TYPE",
            "bf16 or fp8 (FlashInfer's use_low_precision, which engines leave off); default bf16");
  add_value(command, "--max-num-tokens", options.max_num_tokens, "N",
            "The cap: tokens of one rank that the workspace is built for; default: the version's own");
  add_value(command, "--chunked-prefill-size", options.chunked_prefill_size, "N",
            "Of the server, as on its command line");
}

void add_options(CLI::App& command, PlanArguments& options) {
  add_deployment_options(command, options);
  add_value(command, "--gpu-memory", options.gpu_memory, "GiB",
            "Headroom on this GPU instead of the table of common ones");
  add_value(command, "--weights", options.weights, "GiB", "The model's weights on one GPU");
  add_value(command, "--other", options.other, "GiB", "KV cache, graphs and whatever else one GPU holds");
  add_value(command, "--link-gbps", options.link_gbps, "RATE", "Gbit/s (not GB/s) that one GPU sends in one direction");
  add_value(command, "--report", options.report, "OUT.html", "Write one HTML page; a sweep as pictures");
  add_value(command, "--format", options.format, "FORMAT", "text or json; default text");
  command.footer(help_text("plan.help"));
}

}  // namespace

void add_plan(CLI::App& program, CommandLine& line) {
  add_command<PlanArguments>(program, line, "plan",
                             "Memory, traffic, waste and least time of a deployment, and sweeps over them", add_options,
                             run_plan);
}

}  // namespace a2asim
