#include "tools/from_log/from_log_place.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <variant>

namespace a2asim {
namespace {

using RankOrReason = std::variant<std::size_t, std::string_view>;

// The data-parallel rank whose batch the line reports.
RankOrReason rank_of(const BatchLine& line, const PlaceOptions& options) {
  const Topology& topology = options.topology;
  if (line.pp_rank.value_or(0) > 0) return "a later pipeline stage: it runs the batches of stage PP0";
  if (line.tp_rank && *line.tp_rank >= topology.tp_size) return "its TP tag is no rank of this deployment";
  const std::int64_t tp_rank = line.tp_rank.value_or(0);
  if (topology.attn_tp_rank(tp_rank) > 0 || topology.attn_cp_rank(tp_rank) > 0 || line.attn_cp_rank.value_or(0) > 0)
    return "another rank of the same replica: it runs the batch that the replica's first rank logs";
  if (!topology.enable_dp_attention || topology.attn_dp_size == 1) {
    if (line.dp_rank.value_or(options.replica) != options.replica)
      return "without DP attention the DP ranks are servers of their own: this is another one (--replica chooses)";
    return std::size_t{0};
  }
  if (!line.dp_rank && !line.tp_rank) return "neither a DP nor a TP tag";
  const std::int64_t rank = line.dp_rank.value_or(topology.attn_dp_rank(tp_rank));
  if (rank >= topology.attn_dp_size) return "its DP tag is no rank of this deployment";
  if (line.tp_rank && topology.attn_dp_rank(tp_rank) != rank)
    return "its DP and TP tags do not go together in this deployment";
  return static_cast<std::size_t>(rank);
}

// What all lines are placed by; a line that lacks it stays outside.
struct Key {
  bool iteration = false;
  bool time = false;
};

Key key_of(std::span<const BatchLine> batches) {
  Key key;
  for (const BatchLine& line : batches) {
    key.iteration = key.iteration || line.iteration.has_value();
    key.time = key.time || line.time_ms.has_value();
  }
  return key;
}

class Placer {
 public:
  Placer(std::span<const BatchLine> batches, const PlaceOptions& options)
      : batches_(batches),
        options_(options),
        key_(key_of(batches)),
        last_step_(static_cast<std::size_t>(options.topology.attn_dp_size), kNone) {
    out_.by_iteration = key_.iteration;
  }

  LinePlacement place() {
    for (const std::size_t index : in_order_of_time()) {
      const BatchLine& line = batches_[index];
      const RankOrReason rank = rank_of(line, options_);
      if (const auto* reason = std::get_if<std::string_view>(&rank)) {
        leave_out(line, *reason);
      } else if (key_.iteration) {
        place_by_iteration(index, std::get<std::size_t>(rank));
      } else {
        place_by_time(index, std::get<std::size_t>(rank));
      }
    }
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  void leave_out(const BatchLine& line, std::string_view reason) { out_.not_placed.emplace_back(line.number, reason); }

  std::vector<std::size_t> in_order_of_time() {
    std::vector<std::size_t> order(batches_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!key_.time) return order;
    std::int64_t latest = std::numeric_limits<std::int64_t>::min();
    for (const BatchLine& line : batches_) {
      if (!line.time_ms) continue;
      out_.out_of_order += *line.time_ms < latest ? 1 : 0;
      latest = std::max(latest, *line.time_ms);
    }
    // Lines without a stamp stay outside below, so where they go does not matter.
    const auto key = [&](std::size_t index) { return std::pair(batches_[index].time_ms.value_or(0), index); };
    std::ranges::sort(order, {}, key);
    return order;
  }

  std::size_t begin_step(const BatchLine& line) {
    out_.steps.push_back({line.kind, line.time_ms, line.iteration, {}});
    return out_.steps.size() - 1;
  }

  void place_by_iteration(std::size_t index, std::size_t rank) {
    const BatchLine& line = batches_[index];
    if (!line.iteration) return leave_out(line, "no iteration number, where other lines have one");
    const auto [at, is_new] = by_iteration_.try_emplace({line.kind, *line.iteration}, out_.steps.size());
    if (is_new) begin_step(line);
    LogStep& step = out_.steps[at->second];
    if (std::ranges::find(step.lines, rank, &std::pair<std::size_t, std::size_t>::first) != step.lines.end())
      return leave_out(line, "a second line of its rank for the same iteration");
    step.lines.emplace_back(rank, index);
  }

  bool takes(std::size_t step, const BatchLine& line, std::size_t rank) const {
    if (step == kNone || (last_step_[rank] != kNone && last_step_[rank] >= step)) return false;
    return !key_.time || *line.time_ms - *out_.steps[step].time_ms <= options_.window_ms;
  }

  void place_by_time(std::size_t index, std::size_t rank) {
    const BatchLine& line = batches_[index];
    if (key_.time && !line.time_ms) return leave_out(line, "no time stamp, where other lines have one");
    std::size_t& newest = newest_[static_cast<std::size_t>(line.kind)];
    std::size_t& before = before_newest_[static_cast<std::size_t>(line.kind)];
    if (!takes(newest, line, rank)) {
      before = newest;
      newest = begin_step(line);
    } else if (takes(before, line, rank)) {
      out_.ambiguous.push_back(line.number);
    }
    out_.steps[newest].lines.emplace_back(rank, index);
    last_step_[rank] = newest;
  }

  std::span<const BatchLine> batches_;
  const PlaceOptions& options_;
  Key key_;
  std::vector<std::size_t> last_step_;      // by data-parallel rank
  std::size_t newest_[2] = {kNone, kNone};  // by kind
  std::size_t before_newest_[2] = {kNone, kNone};
  std::map<std::pair<BatchLine::Kind, std::int64_t>, std::size_t> by_iteration_;
  LinePlacement out_;
};

}  // namespace

LinePlacement place_lines(std::span<const BatchLine> batches, const PlaceOptions& options) {
  return Placer(batches, options).place();
}

}  // namespace a2asim
