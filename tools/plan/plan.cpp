#include "tools/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"
#include "model/base/clamped_math.h"
#include "model/check/check.h"
#include "tools/plan/plan_rules.h"
#include "tools/program/input.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr double kBytesOfGib = 1024.0 * 1024.0 * 1024.0;
constexpr std::int64_t kBytesOfMib = std::int64_t{1} << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

struct GpuMemory {
  std::string_view name;
  std::int64_t memory_mib;
};

constexpr std::array<GpuMemory, 9> kGpus = {{
    {"A100 80GB", 81920},
    {"H100 SXM 80GB", 81559},
    {"H100 NVL", 95830},
    {"H20 96GB", 97871},
    {"H200", 143771},
    {"B200", 183359},
    {"GB200", 189471},
    {"B300", 275040},
    {"GB300", 284208},
}};

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// From the start of each region to the start of the next. What is reserved for a larger type than the one in use lies
// at the end.
std::vector<PlanRegion> regions(const PlanInputs& inputs, int ep_size, const Capacity& capacity) {
  const std::int64_t cap = capacity.max_num_tokens;
  const WorkspaceLayout at =
      make_workspace_layout(engine_of(*inputs.generation).flashinfer(*inputs.generation), ep_size, cap);
  std::vector<PlanRegion> out = {
      {"round and token counters", at.flag_val},
      {"send counters", at.send_counters},
      {"receive counters", at.recv_counters},
      {"dispatch completion flags", at.dispatch_completion_flags},
      {"combine completion flags", at.combine_completion_flags},
      {"top-k target ranks", at.topk_target_ranks},
      {"top-k send indices", at.topk_send_indices},
  };
  const auto payloads = payload_bytes_per_token(inputs.dispatch_type, inputs.model.hidden_size, inputs.model.top_k);
  const RegionView view(at, ep_size, cap, payloads.data(), static_cast<int>(payloads.size()),
                        capacity.combine_bytes_per_token);
  for (std::size_t i = 0; i < payloads.size(); ++i)
    out.push_back({fmt::format("receive: {}", payload_words(inputs.dispatch_type, static_cast<int>(i))),
                   view.region(static_cast<int>(i))});
  const std::int64_t end = pad128(view.end());
  out.push_back({"combine: expert output", view.combine_region()});
  if (end < capacity.workspace_bytes_per_rank) out.push_back({"reserved for a larger dispatch type", end});
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i].size_bytes =
        (i + 1 < out.size() ? out[i + 1].offset_bytes : capacity.workspace_bytes_per_rank) - out[i].offset_bytes;
  return out;
}

// Rows that cross between ranks in one layer: of the busiest sender and the busiest receiver.
struct CrossingRows {
  double sent = 0, received = 0, local = 0;
};

std::int64_t rounded(double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); }

// Combine goes back the same way: who received in dispatch sends.
PlanRouting routing_of(const CrossingRows& rows, double dispatch_bytes, double combine_bytes,
                       std::optional<double> link_gbps) {
  PlanRouting out;
  out.dispatch = {rounded(rows.sent * dispatch_bytes), rounded(rows.received * dispatch_bytes),
                  rounded(rows.local * dispatch_bytes)};
  out.combine = {rounded(rows.received * combine_bytes), rounded(rows.sent * combine_bytes),
                 rounded(rows.local * combine_bytes)};
  if (link_gbps) {
    const double bytes_a_us = *link_gbps * 1e9 / 8 / 1e6;
    out.dispatch_us = std::max(rows.sent, rows.received) * dispatch_bytes / bytes_a_us;
    out.combine_us = std::max(rows.sent, rows.received) * combine_bytes / bytes_a_us;
  }
  return out;
}

void add_traffic(const PlanInputs& inputs, PlanPoint& point) {
  const ModelShape& model = inputs.model;
  const int ep = static_cast<int>(point.ep_size);
  const auto rows = static_cast<double>(point.rows_per_rank);
  double total = 0, most = 0, least = 1;
  for (int rank = 0; rank < ep; ++rank) {
    const bool same = rank > 0 && num_local_experts(rank, model.num_experts, ep) ==
                                      num_local_experts(rank - 1, model.num_experts, ep);
    const double chance =
        same ? least : chance_of_rank(model.num_experts, num_local_experts(rank, model.num_experts, ep), model.top_k);
    total += chance;  // ranks own ever fewer experts, so the last chance is the least
    most = std::max(most, chance);
    least = chance;
  }
  point.expected_copies = total;
  const std::int64_t reachable = std::min<std::int64_t>({model.top_k, model.num_experts, point.ep_size - 1});
  const CrossingRows expected{rows * (total - least), rows * (ep - 1) * most, rows * most};
  const CrossingRows worst{rows * static_cast<double>(reachable), rows * (ep - 1), rows};
  const auto layers = static_cast<double>(inputs.layers);
  const double dispatch =
      layers * static_cast<double>(dispatch_bytes_per_token(inputs.dispatch_type, model.hidden_size, model.top_k));
  const double combine =
      layers * static_cast<double>(model.hidden_size * (inputs.combine_type == CombineType::fp8 ? 1 : 2));
  point.expected = routing_of(expected, dispatch, combine, inputs.link_gbps);
  point.worst = routing_of(worst, dispatch, combine, inputs.link_gbps);
}

void add_headroom(const PlanInputs& inputs, PlanPoint& point) {
  const double used_gib = inputs.weights_gib.value_or(0) + inputs.other_gib.value_or(0);
  const auto left = [&](double memory_bytes) {
    return rounded(memory_bytes - used_gib * kBytesOfGib) - point.capacity.workspace_bytes_per_rank;
  };
  if (inputs.gpu_memory_gib) {
    const double bytes = *inputs.gpu_memory_gib * kBytesOfGib;
    point.headroom.push_back({"yours", rounded(bytes) / kBytesOfMib, left(bytes)});
    if (point.headroom[0].left_bytes < 0)
      point.problems.push_back(
          fmt::format("does not fit: {} more than --gpu-memory {} GiB; lower max_num_tokens or ep_size",
                      bytes_in_words(-point.headroom[0].left_bytes), *inputs.gpu_memory_gib));
    return;
  }
  for (const GpuMemory& gpu : kGpus)
    point.headroom.push_back(
        {std::string(gpu.name), gpu.memory_mib, left(static_cast<double>(gpu.memory_mib * kBytesOfMib))});
}

// What stops the chosen version, and what it does otherwise than the rest of the plan assumes.
void add_problems(const Deployment& deployment, PlanPoint& point) {
  for (const Rejection& rejection : deployment.rejections) {
    const bool about_the_layout = rejection.handler.starts_with("_handle_");
    if (about_the_layout && deployment.topology.attn_tp_size > 1) {
      point.notes.push_back(fmt::format("{} refuses this layout at its start ({})", deployment.generation->name,
                                        rejection.error.message));
    } else {
      point.problems.push_back(fmt::format("{} refuses it ({}): {}; {}", deployment.generation->name, rejection.where,
                                           rejection.error.message, rejection.fix.words));
    }
  }
  const bool capture_told = std::ranges::any_of(
      deployment.rejections, [](const Rejection& rejection) { return rejection.handler == "graph capture"; });
  if (deployment.launch_error && !capture_told)
    point.problems.push_back(fmt::format("FlashInfer refuses every dispatch: {}; {}",
                                         deployment.launch_error->error.message, deployment.launch_error->fix.words));
  const PlanRule* decode = chosen_rule(point, PlanPath::eager_decode);
  const PlanRule* prefill = chosen_rule(point, PlanPath::prefill);
  A2ASIM_INVARIANT(decode != nullptr && prefill != nullptr, "every version decides both");
  if (!prefill->runtime_max_tokens && prefill->refused.empty())
    point.notes.push_back(
        fmt::format("{} sends prefill through all-gatherv and reduce-scatterv instead: bytes and "
                    "times here are decode's",
                    deployment.generation->name));
  const PlanRule* refused = !decode->refused.empty() ? decode : !prefill->refused.empty() ? prefill : nullptr;
  if (refused == nullptr) return;
  const bool in_both = !decode->refused.empty() && !prefill->refused.empty();
  (in_both ? point.problems : point.notes)
      .push_back(fmt::format("{}a step of {} is refused in {}: {}; raise "
                             "{} (--max-num-tokens)",
                             in_both ? "" : fmt::format("{}: ", name(can_run(point))),
                             counted(static_cast<std::size_t>(point.tokens), "token"), name(refused->path),
                             refused->refused, engine_of(*deployment.generation).cap_variable));
}

// An all-to-all without that workspace: what check knows of its buffers.
void add_other_backend(const PlanInputs& inputs, const Deployment& deployment, PlanPoint& point) {
  const CheckReport report = judge_deployment(deployment);
  point.capacity_source = report.capacity_source;
  point.workspace_known = report.capacity.has_value() && report.workspace_known;
  point.capacity.dispatch_bytes_per_token =
      dispatch_bytes_per_token(inputs.dispatch_type, inputs.model.hidden_size, inputs.model.top_k);
  point.capacity.combine_bytes_per_token = combine_bytes_per_token(inputs.model.hidden_size);
  if (report.capacity) point.capacity = *report.capacity;
  if (report.static_cap) point.capacity.max_num_tokens = *report.static_cap;
  for (const CheckFinding& finding : report.findings) {
    const std::string words = finding.message + (finding.fix.empty() ? "" : "; " + finding.fix);
    if (finding.severity == Severity::error)
      point.problems.push_back(words);
    else if (finding.kind == FindingKind::static_cap)
      point.notes.push_back(words);
  }
  if (point.tokens > deployment.prefill_tokens.value)
    point.problems.push_back(
        fmt::format("a step of a rank has at most {} tokens: raise --max-num-tokens", deployment.prefill_tokens.value));
}

Result<PlanPoint> make_point(const PlanInputs& inputs, const Deployment& deployment, PlanRules& rules,
                             std::int64_t ep_size, std::int64_t tokens) {
  PlanPoint point;
  point.ep_size = ep_size;
  point.tokens = tokens;
  point.backend = deployment.backend;
  point.rows_per_rank = divide_up(tokens, inputs.attn_tp_size);
  point.launch = engine_of(*inputs.generation).plan_command(*inputs.generation, planned_server(inputs, ep_size, false));
  const std::int64_t bytes_a_row =
      dispatch_bytes_per_token(inputs.dispatch_type, inputs.model.hidden_size, inputs.model.top_k) +
      combine_bytes_per_token(inputs.model.hidden_size);
  if (clamped_product(clamped_product(ep_size * inputs.layers, point.rows_per_rank), bytes_a_row) > kMostBytes)
    return unusable(fmt::format("ep {}, {} tokens and {} layers move more than 2^62 bytes: give smaller numbers",
                                ep_size, tokens, inputs.layers));
  add_traffic(inputs, point);
  if (deployment.uses_flashinfer && deployment.capacity) {
    point.capacity = *deployment.capacity;
    point.capacity_source = deployment.max_num_tokens_source;
    point.regions = regions(inputs, static_cast<int>(ep_size), point.capacity);
    point.rules = rules.at(tokens);
    add_problems(deployment, point);
  } else {
    add_other_backend(inputs, deployment, point);
  }
  add_headroom(inputs, point);
  return point;
}

// What a row of this type needs of the hidden size, and which version sends it.
Result<void> check_types(const PlanInputs& inputs) {
  const std::int64_t divisor = block_elements(inputs.dispatch_type);
  if (inputs.model.hidden_size % divisor != 0)
    return unusable(
        fmt::format("--dispatch-dtype {}: one scale stands for {} elements, which hidden_size {} is no "
                    "multiple of; take bf16",
                    name(inputs.dispatch_type), divisor, inputs.model.hidden_size));
  const Engine& engine = engine_of(*inputs.generation);
  if (!inputs.backend.empty()) return {};  // the server itself refuses a type then
  if (engine.dispatches(*inputs.generation, inputs.dispatch_type)) return {};
  const auto versions = engine.versions();
  const auto first = std::ranges::find_if(
      versions, [&](const Version* version) { return engine.dispatches(*version, inputs.dispatch_type); });
  const std::string_view since = first == versions.end() ? std::string_view() : (*first)->name;
  std::string ways;
  for (const DispatchType type : {DispatchType::bf16, DispatchType::nvfp4, DispatchType::mxfp8})
    if (engine.dispatches(*inputs.generation, type))
      ways += fmt::format("{}{}", ways.empty() ? "" : " or ", name(type));
  if (!since.empty()) ways += fmt::format("{}{} {}", ways.empty() ? "" : ", or ", version_option(engine), since);
  return unusable(fmt::format("--dispatch-dtype {}: {} does not send it in {}; take {}", name(inputs.dispatch_type),
                              engine.title, inputs.generation->name, ways));
}

Result<void> check_sizes(const PlanInputs& inputs) {
  for (const std::int64_t ep_size : inputs.ep_sizes) {
    if (ep_size % inputs.attn_tp_size != 0)
      return unusable(fmt::format("--ep {} is no multiple of --attn-tp-size {}", ep_size, inputs.attn_tp_size));
    if (ep_size > inputs.model.num_experts)
      return unusable(
          fmt::format("--ep {} is more than the {} experts: every rank needs one", ep_size, inputs.model.num_experts));
  }
  if (inputs.ep_sizes.size() * inputs.tokens.size() > kMostPlanPoints)
    return unusable(fmt::format("{} values of --ep times {} of --tokens are more than {} points: give fewer",
                                inputs.ep_sizes.size(), inputs.tokens.size(), kMostPlanPoints));
  return {};
}

}  // namespace

std::string_view name(CombineType type) { return type == CombineType::bf16 ? "bf16" : "fp8"; }

std::string_view name(PlanPath path) {
  constexpr std::array<std::string_view, 3> names = {"eager_decode", "graph_decode", "prefill"};
  return names[static_cast<std::size_t>(path)];
}

std::string_view name(PlanRuns runs) {
  constexpr std::array<std::string_view, 4> names = {"yes", "prefill only", "decode only", "no"};
  return names[static_cast<std::size_t>(runs)];
}

PlanRuns can_run(const PlanPoint& point) {
  if (!point.problems.empty()) return PlanRuns::no;
  const auto refused = [&](PlanPath path) {
    const PlanRule* rule = chosen_rule(point, path);
    return rule != nullptr && !rule->refused.empty();
  };
  if (refused(PlanPath::eager_decode)) return PlanRuns::prefill_only;
  return refused(PlanPath::prefill) ? PlanRuns::decode_only : PlanRuns::yes;
}

const PlanRule* chosen_rule(const PlanPoint& point, PlanPath path) {
  const auto found = std::ranges::find_if(
      point.rules, [&](const PlanRule& rule) { return rule.is_chosen && !rule.own_count_only && rule.path == path; });
  return found == point.rules.end() ? nullptr : &*found;
}

bool Plan::has_problem() const {
  return std::ranges::any_of(points, [](const PlanPoint& point) { return can_run(point) == PlanRuns::no; });
}

// 1 - C(E - n, k) / C(E, k), which is symmetric in n and k.
double chance_of_rank(std::int64_t num_experts, std::int64_t experts_of_rank, std::int64_t top_k) {
  const std::int64_t shorter = std::min(experts_of_rank, top_k);
  const std::int64_t longer = std::max(experts_of_rank, top_k);
  double none = 1;
  for (std::int64_t i = 0; i < shorter && none > 0; ++i)
    none *=
        static_cast<double>(std::max<std::int64_t>(num_experts - longer - i, 0)) / static_cast<double>(num_experts - i);
  return 1 - none;
}

Result<Plan> make_plan(const PlanInputs& inputs) {
  if (const Result<void> possible = check_types(inputs); !possible) return tl::unexpected(possible.error());
  if (const Result<void> possible = check_sizes(inputs); !possible) return tl::unexpected(possible.error());
  Plan plan;
  plan.inputs = inputs;
  for (const std::int64_t ep_size : inputs.ep_sizes) {
    const Result<std::unique_ptr<Deployment>> deployment = plan_deployment(inputs, *inputs.generation, ep_size, false);
    if (!deployment) return tl::unexpected(deployment.error());
    Result<PlanRules> rules = PlanRules::create(inputs, ep_size);
    if (!rules) return tl::unexpected(rules.error());
    for (const std::int64_t tokens : inputs.tokens) {
      Result<PlanPoint> point = make_point(inputs, **deployment, *rules, ep_size, tokens);
      if (!point) return tl::unexpected(point.error());
      plan.points.push_back(std::move(*point));
    }
  }
  return plan;
}

}  // namespace a2asim
