#include "sim/cluster/trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/check_invariant.h"
#include "model/step/engine.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kDecide_us = 1;
constexpr std::int64_t kForever_us = 1000;  // what waiting for a rank that never comes is drawn as

class Tracer {
 public:
  explicit Tracer(const ReplayReport& report) : report_(report) {
    A2ASIM_INVARIANT(report.generation != nullptr, "a report is of a version");
    add_name("process_name", 0, report.name + " (" + std::string(report.generation->name) + ")");
    for (int r = 0; r < report.ep_size; ++r) add_name("thread_name", r, "rank " + std::to_string(r));
  }

  std::string all() {
    for (const ReplayedStep& step : report_.steps) add_step(step);
    return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events_)}}.dump() + "\n";
  }

 private:
  void add_name(const char* what, int rank, const std::string& name) {
    events_.push_back({{"name", what}, {"ph", "M"}, {"pid", 0}, {"tid", rank}, {"args", {{"name", name}}}});
  }
  void add(const std::string& name, int rank, std::int64_t duration_us, Json args) {
    A2ASIM_INVARIANT(rank >= 0 && duration_us >= 0, "an event is of a rank and takes time");
    events_.push_back({{"name", name},
                       {"cat", "a2asim"},
                       {"ph", "X"},
                       {"ts", now_us_},
                       {"dur", duration_us},
                       {"pid", 0},
                       {"tid", rank},
                       {"args", std::move(args)}});
  }

  static std::int64_t findings_of(const ReplayedStep& step, int layer, int rank, Operation operation) {
    return std::ranges::count_if(step.findings, [&](const Finding& found) {
      return found.layer == layer && found.rank == rank && found.operation == operation;
    });
  }

  void add_decisions(const ReplayedStep& step) {
    A2ASIM_INVARIANT(std::ssize(step.ranks) == report_.ep_size, "every rank decided");
    for (int r = 0; r < report_.ep_size; ++r) {
      const ReplayedRank& rank = step.ranks[static_cast<std::size_t>(r)];
      const RankDecision& decision = rank.decision;
      if (!decision.participates) continue;
      Json args = {{"step", step.outcome.step},
                   {"mode", name(decision.mode)},
                   {"branch", rank.branch() ? Json(text(*rank.branch())) : Json(nullptr)},
                   {"rows", decision.rows},
                   {"path", decision.replay ? "graph" : "eager"}};
      if (const auto size = rank.runtime_max()) args["runtime_max_tokens_per_rank"] = *size;
      if (decision.raised) args["raised"] = decision.raised->message;
      add("decide", r, kDecide_us, std::move(args));
    }
    now_us_ += kDecide_us;
  }

  // An operation of all ranks: each takes its own time, and then waits for the slowest.
  template <class Rows>
  void add_operation(const ReplayedStep& step, int layer, Operation operation, Rows rows_of) {
    A2ASIM_INVARIANT(layer >= 0 && layer < report_.layers, "an operation is of a layer");
    std::int64_t longest = 0;
    for (int r = 0; r < report_.ep_size; ++r) {
      const ReplayedRank& rank = step.ranks[static_cast<std::size_t>(r)];
      if (!rank.takes_part) continue;
      const std::int64_t rows = rows_of(rank.decision);
      Json args = {{"step", step.outcome.step}, {"layer", layer}, {"rows", rows}};
      if (const std::int64_t count = findings_of(step, layer, r, operation); count > 0) args["findings"] = count;
      add(std::string(name(operation)), r, rows + 1, std::move(args));
      longest = std::max(longest, rows + 1);
    }
    now_us_ += longest;
  }

  void add_step(const ReplayedStep& step) {
    if (step.outcome.group.empty()) return;
    add_decisions(step);
    if (step.outcome.stopped) {
      for (const Finding& found : step.findings) {
        if (found.kind == FindingKind::missing_rank)
          add("waits", found.rank, kForever_us, {{"step", step.outcome.step}, {"for_rank", found.peer}});
      }
      now_us_ += kForever_us;
      return;
    }
    for (int layer = 0; layer < report_.layers; ++layer) {
      add_operation(step, layer, Operation::dispatch, [](const RankDecision& d) { return d.rows; });
      add_operation(step, layer, Operation::experts,
                    [this](const RankDecision& d) { return report_.ep_size * d.sizing.runtime_max_tokens_per_rank; });
      add_operation(step, layer, Operation::combine, [](const RankDecision& d) { return d.rows; });
    }
  }

  const ReplayReport& report_;
  Json events_ = Json::array();
  std::int64_t now_us_ = 0;
};

}  // namespace

std::string chrome_trace(const ReplayReport& report) { return Tracer(report).all(); }

}  // namespace a2asim
