#include "property_tests/world.h"

#include <algorithm>

#include "model/base/check_invariant.h"

namespace a2asim::props {
namespace {

using Counts = std::vector<std::int64_t>;

// How the ranks are grouped.
enum class Layout : std::uint8_t {
  gathered,       // DP attention, one rank a replica: everybody sees all counts
  collapsed,      // and with dense TP 1 and a DP head: up to #22394 a rank sees its own count only
  wide_gathered,  // two attention ranks a replica
  wide_collapsed,
  sequence,  // no DP attention: one replica over all ranks
};
bool is_wide(Layout layout) { return layout == Layout::wide_gathered || layout == Layout::wide_collapsed; }
bool is_collapsed(Layout layout) { return layout == Layout::collapsed || layout == Layout::wide_collapsed; }

std::vector<Layout> layouts_of(std::int64_t ranks, Space::Layouts wanted) {
  if (wanted == Space::Layouts::wide) return {Layout::wide_gathered, Layout::wide_collapsed};
  if (wanted == Space::Layouts::plain) return {ranks > 1 ? Layout::gathered : Layout::sequence};
  std::vector<Layout> layouts = {Layout::sequence};
  if (ranks >= 2) layouts.insert(layouts.begin(), {Layout::gathered, Layout::collapsed});
  if (ranks >= 4 && ranks % 2 == 0) layouts.insert(layouts.end() - 1, {Layout::wide_gathered, Layout::wide_collapsed});
  return layouts;
}

// What all ranks of a step do, so that an exhaustive walk names it.
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
  if (!choose.coin()) return;
  parallel.disable_cuda_graph = false;
  const std::int64_t step = attn_tp(parallel);  // graphs hold multiples of it
  std::vector<Counts> bases = {{1, 2}};
  if (space.patterns) bases = {{1, 2, 4, 8}, {2, 6}, {1, 3, 12, 24}, {4}};
  parallel.cuda_graph_bs = choose.one_of(bases);
  for (std::int64_t& bs : parallel.cuda_graph_bs) bs *= step;
}

Parallel draw_parallel(ChoiceSource& choose, const Space& space, Work work, Space::Layouts layouts) {
  Parallel parallel;
  const std::int64_t ranks = choose.one_of(space.ranks);
  const Layout layout = choose.one_of(layouts_of(ranks, layouts));
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
  parallel.disable_cuda_graph = true;
  if (space.layouts != Space::Layouts::plain) draw_graphs(choose, space, parallel);
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

ForwardMode mode_of(Work work, const Space& space, ChoiceSource& choose, bool draft_extends) {
  const auto or_variant = [&](ForwardMode plain, ForwardMode variant) {
    return space.patterns && choose.between(0, 4) == 0 ? variant : plain;
  };
  switch (work) {
    case Work::decode:
      return ForwardMode::decode;
    case Work::prefill:
      return or_variant(ForwardMode::extend, ForwardMode::mixed);
    case Work::beside_prefill:
      return choose.coin() ? or_variant(ForwardMode::extend, ForwardMode::mixed) : ForwardMode::decode;
    case Work::verify:
      return or_variant(ForwardMode::target_verify,
                        draft_extends ? ForwardMode::draft_extend : ForwardMode::target_verify);
  }
  return ForwardMode::decode;
}

// A rank without work may say so.
void name_idle_ranks(ChoiceSource& choose, Step& step) {
  if (std::ranges::count(step.tokens, 0) == 0 || choose.between(0, 2) != 0) return;
  step.mode.resize(step.tokens.size(), step.mode.front());
  for (std::size_t rank = 0; rank < step.tokens.size(); ++rank)
    if (step.tokens[rank] == 0) step.mode[rank] = ForwardMode::idle;
}

// Nothing: as the engine decides. true where there is something to replay.
std::optional<bool> draw_graph_wish(ChoiceSource& choose, const Scenario& world, const Step& step) {
  const std::int64_t wish = choose.between(0, 4);
  if (wish == 0) return false;
  const bool can = !world.parallel->cuda_graph_bs.empty() && std::ranges::all_of(step.mode, is_cuda_graph);
  return wish == 1 && can ? std::optional(true) : std::nullopt;
}

Step draw_step(ChoiceSource& choose, const Space& space, const Scenario& world, Work work) {
  Step step;
  const std::int64_t replicas = world.parallel->attn_dp_size();
  const bool skewed = space.patterns && choose.between(0, 3) == 0;
  for (std::int64_t rank = 0; rank < replicas; ++rank) {
    if (work == Work::beside_prefill || rank == 0)
      step.mode.push_back(mode_of(work, space, choose, world.engine == engines().front()->name));
    const std::int64_t limit = limit_of(world, step.mode_of(static_cast<std::size_t>(rank)));
    if (!space.patterns) {
      const std::int64_t most = std::min(limit, space.max_tokens);
      step.tokens.push_back(choose.between(space.one_batch ? most : 0, most));
    } else if (skewed) {
      step.tokens.push_back(rank == 0 ? limit : choose.between(0, std::min<std::int64_t>(limit, 1)));
    } else {
      step.tokens.push_back(draw_count(choose, world, limit));
    }
  }
  if (!space.patterns) return step;
  name_idle_ranks(choose, step);
  step.graph = draw_graph_wish(choose, world, step);
  return step;
}

// Small ones, those where a size or a bucket changes, and any that the reader takes.
std::int64_t draw_corrupt_count(ChoiceSource& choose, const Scenario& world) {
  const std::int64_t cap = *world.parallel->max_num_tokens * attn_tp(*world.parallel);
  Counts edges = {0, cap, cap + 1, 2 * cap, kMaxScenarioTokens, kMaxScenarioCount};
  for (const std::int64_t bs : world.parallel->cuda_graph_bs) edges.insert(edges.end(), {bs, bs + 1});
  return choose.coin() ? choose.between(0, 64) : choose.one_of(edges);
}

// A few of each kind, in the last step.
Fault draw_small_fault(ChoiceSource& choose, const Scenario& world) {
  Fault fault;
  fault.kind = choose.one_of(fault_kinds()).value;
  if (!is_construction_fault(fault.kind)) fault.step = num_steps(world) - 1;
  if (fault.kind == FaultKind::stale_counts && fault.step == 0) fault.kind = FaultKind::skip_rank;  // no step before
  fault.rank = choose.between(0, world.parallel->world_size() - 1);
  if (fault.kind == FaultKind::wrong_mode) fault.mode = choose.one_of(step_modes()).value;
  if (fault.kind == FaultKind::dead_rank) fault.masked = choose.coin();
  if (fault.kind == FaultKind::corrupt_count) {
    fault.source = choose.between(0, world.parallel->attn_dp_size() - 1);
    fault.value = choose.one_of(Counts{0, 1, 3, kMaxScenarioCount});
  }
  if (fault.kind == FaultKind::max_num_tokens) fault.value = choose.one_of(Counts{1, 512});
  if (fault.kind == FaultKind::payload_bytes) fault.value = choose.one_of(Counts{4, 12});
  return fault;
}

Fault draw_fault(ChoiceSource& choose, const Scenario& world) {
  Fault fault;
  fault.kind = choose.one_of(fault_kinds()).value;
  if (!is_construction_fault(fault.kind)) fault.step = choose.between(0, num_steps(world) - 1);
  if (fault.kind == FaultKind::stale_counts && fault.step == 0) fault.kind = FaultKind::skip_rank;  // no step before
  if (fault.kind == FaultKind::replay_rank && world.parallel->cuda_graph_bs.empty()) fault.kind = FaultKind::dead_rank;
  fault.rank = choose.between(0, world.parallel->world_size() - 1);
  switch (fault.kind) {
    case FaultKind::wrong_mode:
      fault.mode = choose.one_of(step_modes()).value;
      break;
    case FaultKind::dead_rank:
      fault.masked = choose.coin();
      break;
    case FaultKind::skip_all_gather:
      if (choose.between(0, 3) == 0) fault.rank.reset();
      break;
    case FaultKind::corrupt_count:
      if (choose.between(0, 3) == 0) fault.rank.reset();
      fault.source = choose.between(0, world.parallel->attn_dp_size() - 1);
      fault.value = draw_corrupt_count(choose, world);
      break;
    case FaultKind::max_num_tokens:
      fault.value = choose.one_of(Counts{choose.between(1, 64), 512});
      break;
    case FaultKind::payload_bytes:
      fault.payload = choose.between(0, 2);
      fault.value = 4 * choose.between(1, 16);
      break;
    case FaultKind::skip_rank:
    case FaultKind::stale_counts:
    case FaultKind::replay_rank:
      break;
  }
  return fault;
}

std::vector<Work> works_of(const Space& space) {
  if (space.layouts == Space::Layouts::plain) return {Work::decode};
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
  space.faults = 3;
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

Space small_deployments() {
  Space space = small_space();
  space.max_experts = 0;
  space.top_k = {1};
  space.caps = {2, 3};  // below a chunk; above one, and below the drafts of a bucket
  return space;
}

Space small_pairs() {
  Space space = small_sequences();
  space.max_tokens = 1;
  space.caps = {8};
  return space;
}

Space small_faults() {
  Space space = small_pairs();
  space.max_steps = 1;
  space.faults = 1;
  return space;
}

Space small_wide_faults() {
  Space space = small_faults();
  space.ranks = {4};
  space.max_experts = 4;
  space.layouts = Space::Layouts::wide;
  return space;
}

Space small_fault_pairs() {
  Space space = small_faults();
  space.layouts = Space::Layouts::plain;
  space.faults = 2;
  return space;
}

Space small_texts() {
  Space space = small_pairs();
  space.ranks = {1, 2};
  space.max_steps = 1;
  return space;
}

Space small_backends() {
  Space space = small_pairs();
  space.backends = random_space_of_backends().backends;
  space.max_tokens = 3;
  space.max_steps = 1;
  space.caps = {1, 2, 3, 4, 8};
  space.one_batch = true;
  return space;
}

Space small_rounds() {
  Space space = small_space();
  space.caps = {8};
  space.routings = {Routing::Kind::uniform, Routing::Kind::hot_rank, Routing::Kind::round_robin};
  space.layouts = Space::Layouts::plain;
  return space;
}

std::int64_t limit_of(const Scenario& world, ForwardMode mode) {
  const Parallel& parallel = *world.parallel;
  const bool prefills = mode == ForwardMode::extend || mode == ForwardMode::mixed;
  return (prefills ? *parallel.chunked_prefill_size : *parallel.max_running_requests) / parallel.attn_dp_size();
}

std::vector<const Version*> every_version() {
  std::vector<const Version*> all;
  for (const Engine* engine : engines())
    for (const Version* version : engine->versions()) all.push_back(version);
  return all;
}

const Version& version_named(std::string_view name) {
  static const std::vector<const Version*> all = every_version();
  const auto found = std::ranges::find(all, name, &Version::name);
  A2ASIM_INVARIANT(found != all.end(), "laws are asked of versions that exist");
  return **found;
}

bool is_of_first_engine(const Version& version) { return &engine_of(version) == engines().front(); }

Scenario draw_world(ChoiceSource& choose, const Space& space, std::string_view generation) {
  Scenario world;
  world.name = "world";
  const Version& version = version_named(generation);
  world.engine = std::string(engine_of(version).name);
  world.version = std::string(generation);
  const Work work = choose.one_of(works_of(space));
  world.parallel =
      draw_parallel(choose, space, work, is_of_first_engine(version) ? space.layouts : Space::Layouts::plain);
  if (!is_of_first_engine(version) && !world.parallel->cuda_graph_bs.empty())  // engines without modes ignore it
    world.parallel->cuda_graph_mode = std::string(
        choose.one_of(std::vector<std::string_view>{"FULL_DECODE_ONLY", "FULL", "PIECEWISE", "FULL_AND_PIECEWISE"}));
  const std::int64_t ranks = world.parallel->world_size();
  world.model = draw_model(choose, space, ranks);
  if (!is_of_first_engine(version))  // the model of their layouts is in NVFP4
    world.model.hidden_size = align_up(world.model.hidden_size, block_elements(DispatchType::nvfp4));
  world.seed = space.patterns ? static_cast<std::uint64_t>(choose.between(0, 999)) : 1;
  world.routing.kind = choose.one_of(space.routings);
  if (world.routing.kind == Routing::Kind::hot_rank) world.routing.rank = choose.between(0, ranks - 1);
  const std::int64_t steps = space.patterns ? choose.between(1, space.max_steps) : space.max_steps;
  for (std::int64_t i = 0; i < steps; ++i) {
    // A sequence goes from phase to phase; its speculation, if any, stays.
    const bool changes = space.patterns && i > 0 && work != Work::verify;
    const Work now =
        changes ? choose.one_of(std::vector<Work>{Work::decode, Work::prefill, Work::beside_prefill}) : work;
    world.steps.push_back(draw_step(choose, space, world, now));
  }
  const auto is_mixed = [](const Step& step) { return std::ranges::count(step.mode, ForwardMode::mixed) > 0; };
  if (std::ranges::any_of(world.steps, is_mixed)) world.parallel->enable_mixed_chunk = true;
  const std::int64_t faults = space.patterns && space.faults > 0 ? choose.between(1, space.faults) : space.faults;
  for (std::int64_t i = 0; i < faults; ++i) {
    world.faults.push_back(space.patterns ? draw_fault(choose, world) : draw_small_fault(choose, world));
    if (!broken_invariant(world).empty()) world.faults.pop_back();  // it contradicts one that is there
  }
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
  for (const Step& step : world.steps)
    for (std::size_t rank = 0; rank < step.tokens.size(); ++rank)
      if (step.mode_of(rank) == ForwardMode::idle && step.tokens[rank] != 0) return "an idle rank has tokens";
  for (const Fault& fault : world.faults)
    if (fault.step >= num_steps(world) || (fault.kind == FaultKind::stale_counts && fault.step == 0))
      return "a fault in a step that cannot have it";
  return "";
}

}  // namespace a2asim::props
