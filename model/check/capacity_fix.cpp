#include "model/check/capacity_fix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "model/step/finding.h"

namespace a2asim {
namespace {

class CapacityFixer {
 public:
  CapacityFixer(const Deployment& deployment, const CheckReport& report, CapacityTrouble trouble)
      : deployment_(deployment),
        trouble_(trouble),
        may_disagree_(has(report, FindingKind::geometry_disagreement)),
        cap_(checked_engine(deployment).cap(deployment)),
        knobs_(checked_engine(deployment).knobs(deployment)) {
    const Severity least = trouble == CapacityTrouble::errors ? Severity::error : Severity::note;
    for (const CheckFinding& finding : report.findings)
      if (finding.severity <= least) needed_ = std::max(needed_, finding.needed_tokens_per_rank);
  }

  std::vector<CapacityFix> fixes() const {
    std::vector<CapacityFix> out;
    if (auto raised = variable()) out.push_back(std::move(*raised));
    for (std::size_t size = 1; size <= knobs_.size(); ++size) {
      const std::size_t before = out.size();
      for (std::size_t set = 1; set < std::size_t{1} << knobs_.size(); ++set)
        if (static_cast<std::size_t>(std::popcount(set)) == size)
          if (auto lowered = lower(set)) out.push_back(std::move(*lowered));
      if (out.size() > before) break;  // more settings than needed are no better
    }
    std::ranges::stable_sort(out, {}, &CapacityFix::change);
    return out;
  }

 private:
  using Steps = std::vector<std::int64_t>;  // by knob

  // The deployment with these changes has nothing above the cap, starts, and does not disagree instead.
  bool cures(std::span<const FixSetting> settings) const {
    const auto changed = checked_engine(deployment_).with(settings);
    if (!changed || !(*changed)->rejections.empty()) return false;
    const CheckReport report = judge_deployment(**changed);
    const Severity least = trouble_ == CapacityTrouble::errors ? Severity::error : Severity::note;
    return !has(report, FindingKind::rejected) && !has(report, FindingKind::over_capacity, least) &&
           (may_disagree_ || !has(report, FindingKind::geometry_disagreement));
  }

  bool cures(const Steps& steps) const {
    std::vector<FixSetting> settings;
    for (std::size_t k = 0; k < knobs_.size(); ++k)
      if (steps[k] < knobs_[k].most_steps) settings.push_back({knobs_[k].name, knobs_[k].values(steps[k]), ""});
    return cures(settings);
  }

  // The least value that is known to do, or the next power of two times it.
  std::optional<CapacityFix> variable() const {
    constexpr int kMostDoublings = 24;
    std::int64_t needed = std::max<std::int64_t>(needed_, cap_.tokens + 1);
    for (int doubling = 0; doubling < kMostDoublings; ++doubling, needed *= 2) {
      FixSetting setting = raise_cap_variable(deployment_, needed);
      if (!cures(std::span(&setting, 1))) continue;
      const double cap = std::max(static_cast<double>(cap_.tokens), 0.5);
      return CapacityFix{{std::move(setting)}, std::log(static_cast<double>(needed) / cap)};
    }
    return std::nullopt;
  }

  // Most steps of knob k that cure; nothing: not even one step does. Larger steps are expected to be worse; where they
  // are not, the answer still cures.
  std::optional<std::int64_t> most(Steps steps, std::size_t k) const {
    const auto works = [&](std::int64_t value) {
      steps[k] = value;
      return cures(steps);
    };
    if (!works(1)) return std::nullopt;
    std::int64_t good = 1, bad = knobs_[k].most_steps;
    if (bad <= 1 || works(bad)) return bad;
    std::int64_t probe = std::clamp<std::int64_t>(knobs_[k].guess_steps, good, bad);
    for (std::int64_t stride = 1; bad - good > 1; stride *= 2) {  // gallop from the guess, then halve
      probe = probe <= good || probe >= bad ? good + (bad - good) / 2 : probe;
      const bool fits = works(probe);
      (fits ? good : bad) = probe;
      probe += fits ? stride : -stride;
    }
    return good;
  }

  std::optional<CapacityFix> lower(std::size_t set) const {
    Steps steps;
    for (std::size_t k = 0; k < knobs_.size(); ++k) steps.push_back((set >> k & 1) != 0 ? 1 : knobs_[k].most_steps);
    CapacityFix one;
    for (std::size_t k = 0; k < knobs_.size(); ++k) {
      if ((set >> k & 1) == 0) continue;
      const auto found = most(steps, k);
      if (!found || *found >= knobs_[k].most_steps) return std::nullopt;
      steps[k] = *found;
      one.change += std::log(static_cast<double>(knobs_[k].most_steps) / static_cast<double>(*found));
      one.settings.push_back({knobs_[k].name, knobs_[k].values(*found), knobs_[k].now, knobs_[k].is_given});
    }
    return one;
  }

  const Deployment& deployment_;
  CapacityTrouble trouble_;
  bool may_disagree_;
  CapVariable cap_;
  std::int64_t needed_ = 0;
  std::vector<Knob> knobs_;
};

FixStep as_step(const FixSetting& setting) {
  FixStep step{setting.name.starts_with('-') ? FixStep::What::set_flag : FixStep::What::set_variable, setting.name};
  if (step.what == FixStep::What::set_variable)
    step.values.push_back(fmt::format("{}", fmt::join(setting.values, " ")));
  else
    for (const std::int64_t value : setting.values) step.values.push_back(std::to_string(value));
  step.now = setting.now;
  step.or_more = setting.raises;
  return step;
}

}  // namespace

FixSetting raise_cap_variable(const Deployment& deployment, std::int64_t needed_tokens) {
  const CapVariable cap = checked_engine(deployment).cap(deployment);
  FixSetting setting;
  setting.name = cap.name;
  setting.values = {(needed_tokens + cap.per_unit - 1) / cap.per_unit};
  setting.now =
      fmt::format("the cap is {} now{}{}", cap.tokens, cap.per_unit > 1 ? ", " : "", cap.per_unit > 1 ? cap.how : "");
  setting.raises = true;
  return setting;
}

std::vector<CapacityFix> capacity_fixes(const Deployment& deployment, const CheckReport& report,
                                        CapacityTrouble trouble) {
  return CapacityFixer(deployment, report, trouble).fixes();
}

Advice advice(std::span<const CapacityFix> found) {
  std::vector<Fix> fixes;
  for (const CapacityFix& one : found) {
    Fix& fix = fixes.emplace_back();
    for (const FixSetting& setting : one.settings) fix.steps.push_back(as_step(setting));
  }
  return fixes;
}

}  // namespace a2asim
