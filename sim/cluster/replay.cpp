#include "sim/cluster/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/base/check_invariant.h"
#include "sim/cluster/fault_plan.h"

namespace a2asim {
namespace {

// rejected, disagrees, over_capacity, corrupt, agrees: the first of two.
Verdict graver(Verdict a, Verdict b) {
  constexpr std::array order = {Verdict::rejected, Verdict::disagrees, Verdict::over_capacity, Verdict::corrupt};
  for (const Verdict verdict : order)
    if (a == verdict || b == verdict) return verdict;
  return a;
}

ClusterOptions cluster_options(const Scenario& scenario, const ReplayOptions& options) {
  ClusterOptions out;
  out.fidelity = options.fidelity;
  out.seed = options.seed.value_or(scenario.seed);
  out.dtype = scenario.model.dtype;
  out.layers = scenario.model.layers;
  out.routing = scenario.routing;
  out.experts = scenario.experts;
  out.construction_faults = scenario.faults;
  out.findings_per_kind = options.findings_per_kind;
  out.mirror = options.mirror;
  return out;
}

// Of a cluster that cannot be built: the fault that by itself is the reason, or the cap, or the model.
Position culprit(const Scenario& scenario, const Deployment& deployment, ClusterOptions options) {
  options.construction_faults.clear();
  if (!Cluster::check(deployment, options))
    return deployment.max_num_tokens > kMaxScenarioCap_tokens ? cap_position(scenario) : scenario.at.model;
  for (const Fault& fault : scenario.faults) {
    options.construction_faults = {fault};
    if (!Cluster::check(deployment, options)) return fault.at;
  }
  return scenario.at.model;
}

ReplayedStep record(const Cluster& cluster, const StepInput& input, const StepOutcome& outcome) {
  A2ASIM_INVARIANT(std::ssize(cluster.decisions()) == cluster.ep_size(), "every rank decided");
  ReplayedStep step;
  step.outcome = outcome;
  step.batches.assign(input.batches.begin(), input.batches.end());
  for (int r = 0; r < cluster.ep_size(); ++r) {
    step.ranks.push_back({cluster.decisions()[static_cast<std::size_t>(r)], outcome.taking_part.contains(r)});
    const auto list = cluster.dp_global(static_cast<std::size_t>(r));
    step.lists.push_back(list ? std::optional(std::vector<std::int64_t>(list->begin(), list->end())) : std::nullopt);
  }
  step.findings = step_findings(cluster, input, outcome);
  step.counts = cluster.log().counts();
  for (const Finding& found : step.findings) ++step.counts[static_cast<std::size_t>(found.kind)];
  step.findings.insert(step.findings.end(), cluster.log().findings().begin(), cluster.log().findings().end());
  // What a person can follow comes first: the answer of a request.
  std::ranges::stable_partition(step.findings,
                                [&](const Finding& found) { return !found.row || is_of_request(step, found); });
  return step;
}

void add(Traffic& sum, const Traffic& step) {
  A2ASIM_INVARIANT(step.rows_sent >= 0 && step.rows_reserved >= 0, "rows are counted");
  sum.rows_sent += step.rows_sent;
  sum.rows_reserved += step.rows_reserved;
  sum.dispatch_bytes += step.dispatch_bytes;
  sum.combine_bytes += step.combine_bytes;
}

// Rows are followed from provenance on, outputs need bytes.
bool can_show(Fidelity fidelity, FindingKind kind) {
  switch (kind) {
    case FindingKind::geometry_disagreement:
    case FindingKind::over_capacity:
    case FindingKind::receive_overflow:
    case FindingKind::missing_rank:
    case FindingKind::wasted:
      return true;
    case FindingKind::misplaced:
    case FindingKind::stale:
    case FindingKind::unwritten:
    case FindingKind::torn:
      return fidelity != Fidelity::geometry;
    case FindingKind::expert_id_out_of_range:
    case FindingKind::nan_output:
    case FindingKind::wrong_output:
      return fidelity == Fidelity::numeric;
    default:
      return false;  // nothing that a step shows
  }
}

Finding capture_finding(const std::string& why, const std::string& fix) {
  Finding found;
  found.kind = FindingKind::over_capacity;
  found.phase = Phase::start;
  found.message = "over_capacity: " + why;
  found.fix = fix;
  return found;
}

class Run {
 public:
  Run(const Scenario& scenario, const ReplayOptions& options, Cluster& cluster, ReplayReport& report)
      : scenario_(scenario),
        options_(options),
        cluster_(cluster),
        report_(report),
        plan_(scenario, cluster.deployment().topology) {}

  Result<void> all() {
    for (const Step& wanted : scenario_.steps) {
      for (std::int64_t i = 0; i < wanted.repeat; ++i) {
        const Result<bool> goes_on = one(wanted);
        if (!goes_on) return tl::unexpected(goes_on.error());
        if (!*goes_on) return finish();
      }
    }
    return finish();
  }

 private:
  Result<bool> one(const Step& wanted) {
    A2ASIM_INVARIANT(report_.steps_run < report_.num_steps, "a scenario has so many steps");
    StepInput input;
    plan_.apply(report_.steps_run, wanted, input);
    const Result<StepOutcome> outcome = cluster_.step(input);
    if (!outcome)
      return scenario_error(report_.file, wanted.at,
                            fmt::format("step {}: {}", report_.steps_run, outcome.error().message));
    if (auto ok = plan_.check_replays(report_.file, report_.steps_run, wanted, input, cluster_); !ok)
      return tl::unexpected(ok.error());
    note_lost(input, *outcome);
    cluster_.add_to(digest_, *outcome);
    add(report_.traffic, outcome->traffic);
    report_.bad_tokens += outcome->bad_tokens;
    ReplayedStep step = record(cluster_, input, *outcome);
    report_.verdict = graver(report_.verdict, step.verdict());
    for (std::size_t kind = 0; kind < step.counts.size(); ++kind) report_.counts[kind] += step.counts[kind];
    if (!report_.first_bad_step && step.is_bad()) report_.first_bad_step = report_.steps_run;
    const auto kept = static_cast<std::int64_t>(report_.steps.size()) * cluster_.ep_size();
    if (kept < options_.kept_rank_steps) report_.steps.push_back(std::move(step));
    ++report_.steps_run;
    const bool goes_on = !options_.progress || options_.progress({report_.steps_run, report_.num_steps});
    return goes_on && !outcome->stopped;
  }

  void note_lost(const StepInput& input, const StepOutcome& outcome) {
    A2ASIM_INVARIANT(outcome.step >= 0, "steps are counted");
    if (FaultPlan::lost_work(input, outcome) == 0) return;
    if (steps_lost_++ == 0) first_lost_ = outcome.step;
  }

  Result<void> finish() {
    A2ASIM_INVARIANT(report_.steps_run <= report_.num_steps, "a scenario has so many steps");
    report_.digest = digest_.value();
    if (steps_lost_ == 1)
      report_.notes.push_back(
          fmt::format("step {}: every rank with work skips it; what it had to do is lost", first_lost_));
    if (steps_lost_ > 1)
      report_.notes.push_back(fmt::format("step {} and {} later: every rank skips them; what they had to do is lost",
                                          first_lost_, steps_lost_ - 1));
    return {};
  }

  const Scenario& scenario_;
  const ReplayOptions& options_;
  Cluster& cluster_;
  ReplayReport& report_;
  FaultPlan plan_;
  Digest digest_;
  std::int64_t steps_lost_ = 0, first_lost_ = 0;
};

void describe_cluster(const Cluster& cluster, ReplayReport& report) {
  A2ASIM_INVARIANT(report.generation != nullptr && cluster.ep_size() >= 1, "a report is of a version and its ranks");
  const AllToAllConfig& config = cluster.config(0);
  report.ep_size = cluster.ep_size();
  report.max_num_tokens = cluster.deployment().max_num_tokens;
  report.dispatch_type = cluster.payloads().type;
  report.payload_bytes_per_token = cluster.sent_bytes();
  report.dispatch_bytes_per_token = config.dispatch_bytes_per_token();
  report.combine_bytes_per_token = config.combine_bytes_per_token();
  report.workspace_bytes_per_rank = config.max_num_tokens > 0 ? config.workspace_bytes() : 0;
  report.fidelity = cluster.fidelity();
  const Deployment& deployment = cluster.deployment();
  const std::int64_t sized_for = deployment.capacity ? deployment.capacity->dispatch_bytes_per_token : 0;
  const bool is_quantised = cluster.payloads().is_quantised();
  const std::int64_t sent = std::reduce(cluster.sent_bytes().begin(), cluster.sent_bytes().end());
  if (deployment.capacity && sized_for != sent)
    report.notes.push_back(fmt::format(
        "hidden states travel as {}, {} bytes per token with {}ids and weights; the server sizes its workspace "
        "for {} bytes (`a2asim check`); R and slots are the same",
        is_quantised ? title(report.dispatch_type) : name(config.combine_type), sent, is_quantised ? "scales, " : "",
        sized_for));
}

}  // namespace

bool ReplayedStep::is_bad() const {
  return outcome.verdict != Verdict::agrees ||
         std::ranges::any_of(findings, [](const Finding& found) { return found.severity == Severity::error; });
}

Verdict ReplayedStep::verdict() const {
  return outcome.verdict == Verdict::agrees && is_bad() ? Verdict::corrupt : outcome.verdict;
}

bool is_of_request(const ReplayedStep& step, const Finding& found) {
  if (!found.row || found.row->token < 0) return false;
  const int source = found.row->payload < 0 ? found.rank : found.row->source;
  return source >= 0 && source < std::ssize(step.ranks) &&
         found.row->token < step.ranks[static_cast<std::size_t>(source)].decision.real_rows;
}

bool ReplayReport::has_error() const {
  return first_bad_step.has_value() || (verdict != Verdict::agrees && verdict != Verdict::out_of_scope);
}

Result<ReplayReport> replay(const Scenario& scenario, std::string_view file, const ReplayOptions& options) {
  const Result<ScenarioDeployment> deployed = deploy(scenario, file, options.version, options.rule);
  if (!deployed) return tl::unexpected(deployed.error());
  return replay(scenario, file, options, *deployed);
}

Result<ReplayReport> replay(const Scenario& scenario, std::string_view file, const ReplayOptions& options,
                            const ScenarioDeployment& deployed) {
  ReplayReport report;
  report.name = scenario.name;
  report.file = file;
  report.generation = deployed.generation;
  report.fidelity = options.fidelity;
  report.seed = options.seed.value_or(scenario.seed);
  report.layers = scenario.model.layers;
  report.num_steps = num_steps(scenario);
  report.verdict = deployed.verdict;
  report.why = deployed.why;
  report.fix = deployed.fix;
  report.notes = deployed.notes;
  if (deployed.deployment) {
    report.topology = deployed.deployment->topology;
    report.max_num_tokens = deployed.deployment->max_num_tokens;
  }
  if (deployed.verdict == Verdict::over_capacity) {
    report.start_findings.push_back(capture_finding(report.why, report.fix));
    report.counts[static_cast<std::size_t>(FindingKind::over_capacity)] = 1;
  }
  if (deployed.verdict != Verdict::agrees) return report;
  A2ASIM_INVARIANT(deployed.deployment != nullptr, "what starts has a deployment");
  const Deployment& deployment = *deployed.deployment;
  if (deployment.topology.tp_size > kMaxRanks && !deployment.launch_error)
    return scenario_error(file, scenario.at.deployment,
                          fmt::format("replay has memory for {} ranks, not for {}: make the deployment smaller",
                                      kMaxRanks, deployment.topology.tp_size));
  if (deployment.topology.tp_size > kMaxRanks) {  // FlashInfer refuses every dispatch
    report.verdict = Verdict::rejected;
    report.why = deployed.deployment->launch_error ? deployed.deployment->launch_error->error.message
                                                   : fmt::format("more than {} ranks", kMaxRanks);
    return report;
  }
  ClusterOptions with = cluster_options(scenario, options);
  if (options.progress)
    with.progress = [&](std::int64_t part, std::int64_t parts) {
      options.progress({report.steps_run, report.num_steps, part, parts});
    };
  Result<std::unique_ptr<Cluster>> cluster = Cluster::create(*deployed.deployment, with);
  if (!cluster) return scenario_error(file, culprit(scenario, *deployed.deployment, with), cluster.error().message);
  describe_cluster(**cluster, report);
  if (report.fidelity != options.fidelity)
    report.notes.push_back("a rank built with other payload bytes cannot compute: run at provenance fidelity");
  if (auto ok = Run(scenario, options, **cluster, report).all(); !ok) return tl::unexpected(ok.error());
  return report;
}

std::string differs_from(const Expect& expected, const ReplayReport& report) {
  const auto unseen = [&](FindingKind kind) { return !can_show(report.fidelity, kind); };
  const bool hidden =
      expected.verdict == Verdict::corrupt && report.verdict == Verdict::agrees && report.fidelity != Fidelity::numeric;
  if (expected.verdict && *expected.verdict != report.verdict && !hidden)
    return fmt::format("expected verdict {}, got {}", name(*expected.verdict), name(report.verdict));
  if (expected.step && report.first_bad_step != expected.step && !hidden)
    return fmt::format("expected step {} to be the first bad one, got {}", *expected.step,
                       report.first_bad_step ? fmt::format("step {}", *report.first_bad_step) : "none");
  for (const FindingKind kind : expected.findings) {
    if (report.counts[static_cast<std::size_t>(kind)] == 0 && !unseen(kind))
      return fmt::format("expected a finding {}, got none", name(kind));
  }
  return {};
}

}  // namespace a2asim
