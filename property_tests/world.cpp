#include "property_tests/world.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace a2asim::props {
namespace {

using Counts = std::vector<std::int64_t>;

// How the ranks are grouped.
enum class Layout : std::uint8_t {
  gathered,        // DP attention, one rank a replica: everybody sees all counts
  collapsed,       // and with dense TP 1 and a DP head: up to #22394 a rank sees its own count only
  wide_gathered,   // two attention ranks a replica
  wide_collapsed,
  sequence,        // no DP attention: one replica over all ranks
};
bool is_wide(Layout layout) { return layout == Layout::wide_gathered || layout == Layout::wide_collapsed; }
bool is_collapsed(Layout layout) { return layout == Layout::collapsed || layout == Layout::wide_collapsed; }

std::vector<Layout> layouts_of(std::int64_t ranks) {
  std::vector<Layout> layouts = {Layout::sequence};
  if (ranks >= 2) layouts.insert(layouts.begin(), {Layout::gathered, Layout::collapsed});
  if (ranks >= 4 && ranks % 2 == 0) layouts.insert(layouts.end() - 1, {Layout::wide_gathered, Layout::wide_collapsed});
  return layouts;
}

// What all steps of a world do, so that an exhaustive walk names it.
enum class Work : std::uint8_t { decode, prefill, beside_prefill, verify };

std::int64_t attn_tp(const Parallel& parallel) { return parallel.world_size() / parallel.attn_dp_size(); }

void draw_limits(ChoiceSource& choose, const Space& space, Parallel& parallel) {
  const std::int64_t replicas = parallel.attn_dp_size();
  const std::int64_t bound = space.patterns ? choose.between(space.max_tokens / 4, space.max_tokens) : space.max_tokens;
  parallel.max_running_requests = std::max<std::int64_t>(bound, 1) * replicas;
  parallel.chunked_prefill_size = space.max_tokens * replicas;
  parallel.max_num_tokens = choose.one_of(space.caps);
}

void draw_graphs(ChoiceSource& choose, const Space& space, Parallel& parallel) {
  parallel.disable_cuda_graph = true;
  if (!choose.coin()) return;
  parallel.disable_cuda_graph = false;
  const std::int64_t step = attn_tp(parallel);  // graphs hold multiples of it
  std::vector<Counts> bases = {{1, 2}};
  if (space.patterns) bases = {{1, 2, 4, 8}, {2, 6}, {1, 3, 12, 24}, {4}};
  parallel.cuda_graph_bs = choose.one_of(bases);
  for (std::int64_t& bs : parallel.cuda_graph_bs) bs *= step;
}

Parallel draw_parallel(ChoiceSource& choose, const Space& space, Work work) {
  Parallel parallel;
  const std::int64_t ranks = choose.one_of(space.ranks);
  const Layout layout = choose.one_of(layouts_of(ranks));
  parallel.tp_size = ranks;
  if (layout != Layout::sequence) {
    parallel.dp_size = is_wide(layout) ? ranks / 2 : ranks;
    parallel.enable_dp_attention = true;
  }
  if (is_collapsed(layout)) {
    parallel.moe_dense_tp_size = 1;
    parallel.enable_dp_lm_head = true;
  }
  parallel.moe_a2a_backend = std::string(choose.one_of(space.backends));
  if (parallel.moe_a2a_backend == "flashinfer") parallel.moe_runner_backend = "flashinfer_cutlass";
  if (work == Work::verify) {
    parallel.speculative_algorithm = "EAGLE";
    parallel.speculative_num_steps = 1;
    parallel.speculative_eagle_topk = 1;
    parallel.speculative_num_draft_tokens = 2;
  }
  draw_limits(choose, space, parallel);
  draw_graphs(choose, space, parallel);
  return parallel;
}

ScenarioModel draw_model(ChoiceSource& choose, const Space& space, std::int64_t ranks) {
  ScenarioModel model;
  model.hidden_size = space.patterns ? choose.one_of(Counts{1, 3, 8, 16}) : 4;
  if (space.every_expert_count) {
    model.num_experts = choose.between(ranks, std::max(space.max_experts, ranks));
  } else {
    const std::int64_t most = std::max<std::int64_t>(space.max_experts / ranks, 1);
    model.num_experts = ranks * choose.between(1, most);
    if (choose.between(0, 3) == 0) model.num_experts += choose.between(0, ranks - 1);
  }
  Counts top_k;
  for (const std::int64_t k : space.top_k)
    if (k <= model.num_experts) top_k.push_back(k);
  model.top_k = choose.one_of(top_k);
  if (space.patterns) {
    model.layers = choose.between(1, 2);
    model.dtype = choose.one_of(std::vector<DataType>{DataType::bfloat16, DataType::float16, DataType::float32});
  }
  return model;
}

// One rank's count: nothing, little, at an edge where a decision changes, or anything.
std::int64_t draw_count(ChoiceSource& choose, const Scenario& world, std::int64_t limit) {
  const Parallel& parallel = *world.parallel;
  Counts edges = {limit, std::min(limit, *parallel.max_num_tokens * attn_tp(parallel)),
                  std::min(limit, *parallel.max_num_tokens + 1)};
  for (const std::int64_t bs : parallel.cuda_graph_bs) edges.insert(edges.end(), {bs, bs + 1});
  switch (choose.between(0, 5)) {
    case 0:
    case 1:
      return 0;
    case 2:
      return std::min<std::int64_t>(limit, choose.between(1, 3));
    case 3:
    case 4:
      return std::min(limit, choose.one_of(edges));
    default:
      return choose.between(0, limit);
  }
}

ForwardMode mode_of(Work work, ChoiceSource& choose) {
  switch (work) {
    case Work::decode:
      return ForwardMode::decode;
    case Work::prefill:
      return ForwardMode::extend;
    case Work::beside_prefill:
      return choose.coin() ? ForwardMode::extend : ForwardMode::decode;
    case Work::verify:
      return ForwardMode::target_verify;
  }
  return ForwardMode::decode;
}

Step draw_step(ChoiceSource& choose, const Space& space, const Scenario& world, Work work) {
  Step step;
  const std::int64_t replicas = world.parallel->attn_dp_size();
  const bool skewed = space.patterns && choose.between(0, 3) == 0;
  for (std::int64_t rank = 0; rank < replicas; ++rank) {
    if (work == Work::beside_prefill || rank == 0) step.mode.push_back(mode_of(work, choose));
    const std::int64_t limit = limit_of(world, step.mode_of(static_cast<std::size_t>(rank)));
    if (!space.patterns) {
      step.tokens.push_back(choose.between(0, std::min(limit, space.max_tokens)));
    } else if (skewed) {
      step.tokens.push_back(rank == 0 ? limit : choose.between(0, std::min<std::int64_t>(limit, 1)));
    } else {
      step.tokens.push_back(draw_count(choose, world, limit));
    }
  }
  if (space.patterns && choose.between(0, 4) == 0) step.graph = false;
  return step;
}

Fault draw_fault(ChoiceSource& choose, const Scenario& world) {
  Fault fault;
  fault.kind = choose.one_of(std::vector<FaultKind>{
      FaultKind::skip_rank, FaultKind::skip_all_gather, FaultKind::stale_counts, FaultKind::wrong_mode,
      FaultKind::replay_rank, FaultKind::dead_rank, FaultKind::corrupt_count, FaultKind::max_num_tokens,
      FaultKind::payload_bytes});
  const std::int64_t ranks = world.parallel->world_size();
  if (!is_construction_fault(fault.kind)) fault.step = choose.between(0, num_steps(world) - 1);
  if (fault.kind == FaultKind::stale_counts && fault.step == 0) fault.kind = FaultKind::skip_rank;  // no step before
  fault.rank = choose.between(0, ranks - 1);
  fault.mode = fault.kind == FaultKind::wrong_mode && choose.coin() ? ForwardMode::extend : ForwardMode::decode;
  if (fault.kind == FaultKind::dead_rank) fault.masked = choose.coin();
  if (fault.kind == FaultKind::corrupt_count) {
    fault.source = choose.between(0, world.parallel->attn_dp_size() - 1);
    fault.value = choose.between(0, 9);
  }
  if (fault.kind == FaultKind::max_num_tokens) fault.value = choose.between(1, 64);
  if (fault.kind == FaultKind::payload_bytes) fault.value = 4 * choose.between(1, 8);
  return fault;
}

std::vector<Work> works_of(const Space& space) {
  if (space.backends.front() != "flashinfer") return {Work::decode, Work::prefill};
  return {Work::decode, Work::prefill, Work::beside_prefill, Work::verify};
}

}  // namespace

Space random_space() {
  Space space;
  space.ranks = {1, 2, 3, 4, 4, 6, 8};
  space.max_experts = 32;
  space.top_k = {1, 2, 4, 8};
  space.max_tokens = 32;
  space.patterns = true;
  space.caps = {4, 12, 64, 64, 64};
  space.max_steps = 4;
  space.routings = {Routing::Kind::uniform, Routing::Kind::hot_rank, Routing::Kind::round_robin};
  return space;
}

Space random_space_with_faults() {
  Space space = random_space();
  space.faults = true;
  return space;
}

Space random_space_of_backends() {
  Space space = random_space();
  space.backends = {"deepep", "mooncake", "nixl", "mori", "pplx"};
  return space;
}

Space small_space() {
  Space space;
  space.ranks = {1, 2, 3, 4};
  space.max_experts = 6;
  space.every_expert_count = true;
  space.top_k = {1, 2};
  space.max_tokens = 3;
  space.caps = {2, 8};
  return space;
}

Space small_sequences() {
  Space space = small_space();
  space.ranks = {2};
  space.max_experts = 2;
  space.top_k = {1};
  space.max_steps = 2;
  return space;
}

std::int64_t limit_of(const Scenario& world, ForwardMode mode) {
  const Parallel& parallel = *world.parallel;
  const bool prefills = mode == ForwardMode::extend || mode == ForwardMode::mixed;
  return (prefills ? *parallel.chunked_prefill_size : *parallel.max_running_requests) / parallel.attn_dp_size();
}

Scenario draw_world(ChoiceSource& choose, const Space& space, std::string_view generation) {
  Scenario world;
  world.name = "world";
  world.sglang = std::string(generation);
  const Work work = choose.one_of(works_of(space));
  world.parallel = draw_parallel(choose, space, work);
  const std::int64_t ranks = world.parallel->world_size();
  world.model = draw_model(choose, space, ranks);
  world.seed = space.patterns ? static_cast<std::uint64_t>(choose.between(0, 999)) : 1;
  world.routing.kind = choose.one_of(space.routings);
  if (world.routing.kind == Routing::Kind::hot_rank) world.routing.rank = choose.between(0, ranks - 1);
  const std::int64_t steps = space.patterns ? choose.between(1, space.max_steps) : space.max_steps;
  for (std::int64_t i = 0; i < steps; ++i) {
    // A sequence goes from phase to phase; its speculation, if any, stays.
    const bool changes = space.patterns && i > 0 && work != Work::verify;
    const Work now = changes ? choose.one_of(std::vector<Work>{Work::decode, Work::prefill, Work::beside_prefill}) : work;
    world.steps.push_back(draw_step(choose, space, world, now));
  }
  if (space.faults) world.faults.push_back(draw_fault(choose, world));
  return world;
}

std::string broken_invariant(const Scenario& world) {
  if (!world.parallel || world.steps.empty()) return "no layout or no step";
  const std::int64_t ranks = world.parallel->world_size(), replicas = world.parallel->attn_dp_size();
  if (ranks < 1 || ranks % replicas != 0) return "ranks do not divide into replicas";
  if (auto ok = check_ranks(world, "world", replicas, ranks); !ok) return ok.error().message;
  if (world.model.num_experts < ranks || world.model.top_k > world.model.num_experts) return "too few experts";
  for (const Step& step : world.steps)
    for (std::size_t rank = 0; rank < step.tokens.size(); ++rank)
      if (step.tokens[rank] > limit_of(world, step.mode_of(rank))) return "more than the limits admit";
  for (const Fault& fault : world.faults)
    if (fault.step >= num_steps(world) || (fault.kind == FaultKind::stale_counts && fault.step == 0))
      return "a fault in a step that cannot have it";
  return "";
}

}  // namespace a2asim::props
