// Laws over faults: what one rank does wrong stays its own, and is seen.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "property_tests/law.h"
#include "sim/cluster/replay.h"

namespace a2asim::props {
namespace {

// What a rank brings to the collective of a step. Ranks whose shares differ do not fit together.
struct Share {
  std::string_view collective;      // "" where it makes no call
  std::vector<std::int64_t> sizes;  // R, or the sizes given to the all-gatherv
  bool operator==(const Share&) const = default;
};

std::string text(const Share& share) {
  return share.collective.empty() ? "no call" : fmt::format("{} [{}]", share.collective, fmt::join(share.sizes, ", "));
}

// The list of #35758's prefill, split over the ranks of each replica as SGLang does: the first ones get one more.
std::vector<std::int64_t> gather_sizes(const ReplayedStep& step, std::size_t rank) {
  const std::size_t ranks = step.ranks.size(), width = ranks / step.batches.size();
  const auto& list = step.lists[rank];
  if (!list) return std::vector<std::int64_t>(ranks, step.ranks[rank].decision.rows);
  std::vector<std::int64_t> sizes;
  for (const std::int64_t count : *list)
    for (std::size_t i = 0; i < width; ++i)
      sizes.push_back(count / static_cast<std::int64_t>(width) +
                      (static_cast<std::int64_t>(i) < count % static_cast<std::int64_t>(width) ? 1 : 0));
  return sizes;
}

// splits: as the first engine does; what others gather is not told apart here.
Share share_of(const ReplayedStep& step, std::size_t rank, bool splits) {
  const auto is_in = [&](RankMask mask) { return mask.contains(static_cast<int>(rank)); };
  if (is_in(step.outcome.refused)) return {"refuses", {}};
  if (is_in(step.outcome.gathering))
    return {"gathers", splits ? gather_sizes(step, rank) : std::vector<std::int64_t>{}};
  if (!is_in(step.outcome.taking_part)) return {};
  return {"dispatches", {step.ranks[rank].decision.sizing.runtime_max_tokens_per_rank}};
}

bool decides_alike(const RankDecision& a, const RankDecision& b) {
  return a.participates == b.participates && a.replay == b.replay && a.rows == b.rows &&
         a.sizing.branch == b.sizing.branch && a.raised.has_value() == b.raised.has_value() &&
         a.sizing.runtime_max_tokens_per_rank == b.sizing.runtime_max_tokens_per_rank;
}

// Faults that change what the peers do, too: they are told to run eagerly, or count the dead rank as idle. Of a replica
// the row of its first rank is the one that is read.
bool reaches_peers(const Fault& fault, const ReplayedStep& step) {
  const auto width = static_cast<std::int64_t>(step.ranks.size() / step.batches.size());
  return fault.kind == FaultKind::replay_rank || (fault.masked && *fault.rank % width == 0);
}

// Built with another cap or other payload bytes than its peers, it lays out its workspace in another way.
bool builds_otherwise(const ReplayReport& peers, const Fault& fault) {
  if (fault.kind == FaultKind::max_num_tokens) return fault.value != peers.max_num_tokens;
  return fault.kind == FaultKind::payload_bytes &&
         fault.value != peers.payload_bytes_per_token.at(static_cast<std::size_t>(fault.payload));
}

// Up to the step in which the fault begins; nothing where the run does not come so far.
std::optional<ReplayReport> replayed(const Scenario& world, std::vector<Fault> faults, std::int64_t step,
                                     const Product& product) {
  Scenario own = world;
  own.faults = std::move(faults);
  own.steps.resize(static_cast<std::size_t>(step) + 1);
  ReplayOptions options;
  options.fidelity = Fidelity::geometry;
  Result<ReplayReport> report = product.replay(own, options);
  if (!report || report->steps.size() != own.steps.size()) return std::nullopt;
  return std::move(*report);
}

void mark_seen(const ReplayedStep& step, const Fault& fault, const Share& own, const Share& other, Marks& marks) {
  ++marks[fmt::format("fault seen: {}", name_in(fault_kinds(), fault.kind))];
  if (step.batches.size() != step.ranks.size())
    ++marks[step.batches.size() == 1 ? "fault seen: sequence parallel" : "fault seen: wide replicas"];
  if (own.collective == "gathers" && other.collective == "gathers") ++marks["fault seen: sizes of a gather"];
}

// A rank that died takes part in no later step.
std::string comes_back(const Scenario& world, const Fault& fault, Trial& trial) {
  if (fault.kind != FaultKind::dead_rank) return "";
  const auto last = static_cast<std::int64_t>(world.steps.size()) - 1;
  const std::optional<ReplayReport> run = replayed(world, {fault}, last, trial.bench.product());
  if (!run) return "";
  for (auto step = static_cast<std::size_t>(fault.step); step < run->steps.size(); ++step) {
    const StepOutcome& outcome = run->steps[step].outcome;
    if ((outcome.taking_part | outcome.gathering | outcome.refused).contains(static_cast<int>(*fault.rank)))
      return fmt::format("rank {} died in step {} and is there in step {}", *fault.rank, fault.step, step);
    if (static_cast<std::int64_t>(step) > fault.step && !outcome.group.empty()) ++trial.marks["step after a death"];
  }
  return "";
}

// The first bad step is where a person looks.
std::string names_first_bad_step(const Scenario& world, Trial& trial) {
  const auto last = static_cast<std::int64_t>(world.steps.size()) - 1;
  const std::optional<ReplayReport> run = replayed(world, world.faults, last, trial.bench.product());
  if (!run) return "";
  std::optional<std::int64_t> first;
  std::int64_t bad = 0;
  for (std::size_t step = 0; step < run->steps.size(); ++step)
    if (run->steps[step].is_bad() && bad++ == 0) first = static_cast<std::int64_t>(step);
  if (bad > 1) ++trial.marks["several bad steps"];
  return first == run->first_bad_step ? "" : fmt::format("{} bad steps, and another one is named first", bad);
}

std::string judge_fault(const Scenario& world, const Fault& fault, Trial& trial) {
  const Product& product = trial.bench.product();
  const std::optional<ReplayReport> without = replayed(world, {}, fault.step, product);
  const std::optional<ReplayReport> with = replayed(world, {fault}, fault.step, product);
  if (!without || !with || without->steps.back().outcome.group.empty()) return "";
  const ReplayedStep &right = without->steps.back(), &wrong = with->steps.back();
  const auto own = static_cast<std::size_t>(*fault.rank);
  const std::string kind = fmt::format("step {}: {} of rank {}", fault.step, name_in(fault_kinds(), fault.kind), own);
  for (std::size_t rank = 0; rank < right.ranks.size() && !reaches_peers(fault, right); ++rank)
    if (rank != own && !decides_alike(right.ranks[rank].decision, wrong.ranks[rank].decision))
      return fmt::format("{} changes what rank {} decides", kind, rank);
  if (right.outcome.verdict != Verdict::agrees || fault.masked) return "";
  const bool splits = world.engine == engines().front()->name;
  const Share share = share_of(wrong, own, splits);
  const Share other = share_of(fault.kind == FaultKind::replay_rank ? wrong : right, own == 0 ? 1 : 0, splits);
  const bool another_layout = share.collective == "dispatches" && builds_otherwise(*without, fault);
  if (share == other && !another_layout) return "";
  mark_seen(right, fault, share, other, trial.marks);
  if (wrong.outcome.verdict != Verdict::agrees) return "";
  return fmt::format("{}: {} where its peers have {}, and the verdict is agrees", kind, text(share), text(other));
}

}  // namespace

// One fault at a time. A lone rank cannot disagree with anybody, and a fault of all ranks may leave them agreed on what
// is wrong. A masked rank is left out by its peers, who agree without it.
std::string faults_are_seen(const Scenario& world, Trial& trial) {
  if (world.parallel->world_size() < 2) return "";
  if (std::string wrong = names_first_bad_step(world, trial); !wrong.empty()) return wrong;
  for (const Fault& fault : world.faults) {
    if (!fault.rank) continue;
    if (std::string wrong = judge_fault(world, fault, trial); !wrong.empty()) return wrong;
    if (std::string wrong = comes_back(world, fault, trial); !wrong.empty()) return wrong;
  }
  return "";
}

namespace {

void mark_pairs(const std::vector<Fault>& faults, Marks& marks) {
  ++marks["several faults"];
  for (const Fault& one : faults)
    for (const Fault& other : faults) {
      if (&one == &other || one.step != other.step) continue;
      if (one.rank == other.rank) ++marks["two faults of one rank and step"];
      if (one.kind == other.kind) ++marks["two faults of one kind and step"];
    }
}

}  // namespace

// Faults that contradict each other are refused before.
std::string order_of_faults_changes_nothing(const Scenario& world, Trial& trial) {
  if (world.faults.size() < 2) return "";
  mark_pairs(world.faults, trial.marks);
  Scenario turned = world;
  std::ranges::reverse(turned.faults);
  ReplayOptions options;
  options.fidelity = Fidelity::geometry;
  const auto& replay = trial.bench.product().replay;
  const Result<ReplayReport> straight = replay(world, options), reversed = replay(turned, options);
  if (straight.has_value() != reversed.has_value())
    return "one order is refused: " + (straight ? reversed : straight).error().message;
  if (!straight) return "";
  if (straight->verdict != reversed->verdict)
    return fmt::format("{} becomes {} when the faults are turned round", name(straight->verdict),
                       name(reversed->verdict));
  return straight->digest == reversed->digest && straight->counts == reversed->counts
             ? ""
             : "another run when the faults are turned round";
}

}  // namespace a2asim::props
