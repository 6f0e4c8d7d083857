// Smaller worlds. Values of a world depend on each other (ranks, entries, experts, limits): a step here changes all
// that belong together, and what broke an invariant is left out.
#include <algorithm>
#include <bit>
#include <utility>

#include "property_tests/world.h"

namespace a2asim::props {
namespace {

class Smaller {
 public:
  explicit Smaller(const Scenario& world) : world_(world) {}

  std::vector<Scenario> all() {
    drop_steps();
    drop_faults();
    fewer_ranks();
    simpler_parallel();
    simpler_model();
    smaller_counts();
    return std::move(found_);
  }

 private:
  void keep(Scenario candidate) {
    if (broken_invariant(candidate).empty() && size_of(candidate) < size_of(world_))
      found_.push_back(std::move(candidate));
  }
  template <class Change>
  void with(Change change) {
    Scenario candidate = world_;
    change(candidate);
    keep(std::move(candidate));
  }

  void drop_steps() {
    for (std::size_t i = 0; i < world_.steps.size(); ++i)
      with([i](Scenario& world) {
        world.steps.erase(world.steps.begin() + static_cast<std::ptrdiff_t>(i));
        for (Fault& fault : world.faults)
          if (fault.step > static_cast<std::int64_t>(i)) --fault.step;
      });
  }

  void drop_faults() {
    for (std::size_t i = 0; i < world_.faults.size(); ++i)
      with([i](Scenario& world) { world.faults.erase(world.faults.begin() + static_cast<std::ptrdiff_t>(i)); });
    for (std::size_t i = 0; i < world_.faults.size(); ++i)
      if (world_.faults[i].kind == FaultKind::corrupt_count) with([i](Scenario& world) { world.faults[i].value /= 2; });
  }

  // The first or the last ranks stay, their limits and experts with them.
  static void cut(Scenario& world, std::int64_t ranks, bool last_stay) {
    Parallel& parallel = *world.parallel;
    const std::int64_t before = parallel.world_size(), replicas = parallel.attn_dp_size();
    const std::int64_t width = before / replicas;
    if (parallel.enable_dp_attention) {
      const std::int64_t left = std::max<std::int64_t>(ranks / width, 1);
      parallel.dp_size = left;
      *parallel.max_running_requests = *parallel.max_running_requests / replicas * left;
      *parallel.chunked_prefill_size = *parallel.chunked_prefill_size / replicas * left;
      for (Step& step : world.steps) {
        keep_entries(step.tokens, left, last_stay);
        if (step.mode.size() > 1) keep_entries(step.mode, left, last_stay);
      }
      if (left == 1) without_dp_attention(parallel);
    }
    parallel.tp_size = ranks;
    const bool divides = world.model.num_experts % before == 0;
    if (divides) world.model.num_experts = world.model.num_experts / before * ranks;
    world.model.top_k = std::min(world.model.top_k, world.model.num_experts);
    world.routing.rank = std::min(world.routing.rank, ranks - 1);
    for (Fault& fault : world.faults) {
      if (fault.rank) fault.rank = std::min(*fault.rank, ranks - 1);
      fault.source = std::min(fault.source, parallel.attn_dp_size() - 1);
    }
  }

  template <class List>
  static void keep_entries(List& list, std::int64_t left, bool last_stay) {
    if (last_stay) std::ranges::reverse(list);
    list.resize(static_cast<std::size_t>(left));
    if (last_stay) std::ranges::reverse(list);
  }

  static void without_dp_attention(Parallel& parallel) {
    parallel.enable_dp_attention.reset();
    parallel.enable_dp_lm_head.reset();
    parallel.moe_dense_tp_size.reset();
    parallel.dp_size.reset();
  }

  void fewer_ranks() {
    const std::int64_t ranks = world_.parallel->world_size();
    for (const std::int64_t fewer : {std::int64_t{2}, ranks / 2, ranks - 1})
      for (const bool last_stay : {false, true})
        if (fewer >= 1 && fewer < ranks) with([=](Scenario& world) { cut(world, fewer, last_stay); });
    // One attention rank a replica.
    if (world_.parallel->enable_dp_attention && ranks != world_.parallel->attn_dp_size())
      with([](Scenario& world) { world.parallel->tp_size = world.parallel->attn_dp_size(); });
  }

  void simpler_parallel() {
    const Parallel& parallel = *world_.parallel;
    if (!parallel.cuda_graph_bs.empty())
      with([](Scenario& world) {
        world.parallel->cuda_graph_bs.clear();
        world.parallel->disable_cuda_graph = true;
      });
    for (std::size_t i = 0; parallel.cuda_graph_bs.size() > 1 && i < parallel.cuda_graph_bs.size(); ++i)
      with([i](Scenario& world) {
        world.parallel->cuda_graph_bs.erase(world.parallel->cuda_graph_bs.begin() + static_cast<std::ptrdiff_t>(i));
      });
    if (parallel.speculative_algorithm) with(without_speculation);
  }

  static void without_speculation(Scenario& world) {
    Parallel& parallel = *world.parallel;
    parallel.speculative_algorithm.reset();
    parallel.speculative_num_steps.reset();
    parallel.speculative_eagle_topk.reset();
    parallel.speculative_num_draft_tokens.reset();
    for (Step& step : world.steps)
      for (ForwardMode& mode : step.mode)
        mode = mode == ForwardMode::target_verify  ? ForwardMode::decode
               : mode == ForwardMode::draft_extend ? ForwardMode::extend
                                                   : mode;
  }

  void simpler_model() {
    with([](Scenario& world) { world.seed = 0; });
    with([](Scenario& world) { world.routing = Routing{}; });
    with([](Scenario& world) { world.model.layers = 1; });
    with([](Scenario& world) { world.model.top_k = 1; });
    with([](Scenario& world) {
      world.model.hidden_size = &engine_of(world) == engines().front() ? 1 : block_elements(DispatchType::nvfp4);
    });
    with([](Scenario& world) {
      world.model.num_experts = world.parallel->world_size();
      world.model.top_k = std::min(world.model.top_k, world.model.num_experts);
    });
  }

  void smaller_counts() {
    for (std::size_t i = 0; i < world_.steps.size(); ++i) {
      if (world_.steps[i].graph) with([i](Scenario& world) { world.steps[i].graph.reset(); });
      if (world_.steps[i].mode.size() > 1) with([i](Scenario& world) { world.steps[i].mode.resize(1); });
      with(
          [i](Scenario& world) { std::ranges::replace(world.steps[i].mode, ForwardMode::mixed, ForwardMode::extend); });
      with([i](Scenario& world) { std::ranges::replace(world.steps[i].mode, ForwardMode::idle, ForwardMode::decode); });
      for (std::size_t rank = 0; rank < world_.steps[i].tokens.size(); ++rank) {
        const std::int64_t count = world_.steps[i].tokens[rank];
        for (const std::int64_t fewer : {std::int64_t{0}, count / 2, count - 1})
          if (fewer >= 0 && fewer < count) with([=](Scenario& world) { world.steps[i].tokens[rank] = fewer; });
      }
    }
  }

  const Scenario& world_;
  std::vector<Scenario> found_;
};

}  // namespace

std::int64_t size_of(const Scenario& world) {
  const Parallel& parallel = *world.parallel;
  std::int64_t size = 1000 * parallel.world_size() + 20 * static_cast<std::int64_t>(parallel.cuda_graph_bs.size()) +
                      (parallel.speculative_algorithm ? 50 : 0) + world.model.num_experts + world.model.top_k +
                      world.model.layers + world.model.hidden_size + (world.seed != 0 ? 1 : 0) +
                      (world.routing == Routing{} ? 0 : 1) + 100 * static_cast<std::int64_t>(world.faults.size());
  // corrupt_count halves its value; bits, so that no value outweighs a rank.
  for (const Fault& fault : world.faults) size += std::bit_width(static_cast<std::uint64_t>(fault.value));
  for (const Step& step : world.steps) {
    size += std::ranges::count(step.mode, ForwardMode::mixed) + std::ranges::count(step.mode, ForwardMode::idle);
    size += 200 + static_cast<std::int64_t>(step.mode.size()) + (step.graph ? 1 : 0);
    for (const std::int64_t count : step.tokens) size += count;
  }
  return size;
}

std::vector<Scenario> smaller_worlds(const Scenario& world) { return Smaller(world).all(); }

}  // namespace a2asim::props
