#include "model/check/capacity_mend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>

#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"
#include "model/step/finding.h"
#include "model/engines/sglang/static_caps.h"

namespace a2asim {
namespace {

// The cap that bounds a rank's tokens and the variable that sets it.
struct Cap {
  std::string_view variable;
  std::int64_t tokens = 0;
  std::int64_t per_unit = 1;  // tokens that one more of the variable gives
};

Cap cap_of(const Deployment& deployment) {
  if (const StaticCapRow* row = find_static_cap(deployment.backend))
    return {row->env, int_env_or(sglang_part(deployment).env.get(row->env), row->default_cap), 1};
  return {kCapVariable, deployment.max_num_tokens,
          sglang_part(deployment).generation().cap_is_times_ep_size ? deployment.topology.ep_size : 1};
}

// A limit that can be lowered, in steps: one token or request a rank, or one entry of a list.
struct Knob {
  std::string name;
  std::int64_t most_steps = 0;   // as it is now
  std::int64_t guess_steps = 0;  // where the edge is to be expected
  std::function<std::vector<std::int64_t>(std::int64_t steps)> values;
  std::function<void(ServerArgs& args, const std::vector<std::int64_t>& values)> set;
  std::string now;
  bool is_given = true;
};

class Mender {
 public:
  Mender(const Deployment& deployment, const CheckReport& report, CapacityTrouble trouble)
      : deployment_(deployment),
        trouble_(trouble),
        may_disagree_(has(report, FindingKind::geometry_disagreement)),
        cap_(cap_of(deployment)),
        replicas_(deployment.topology.attn_dp_size) {
    const Severity least = trouble == CapacityTrouble::errors ? Severity::error : Severity::note;
    for (const CheckFinding& finding : report.findings)
      if (finding.severity <= least) needed_ = std::max(needed_, finding.needed_tokens_per_rank);
    if (deployment.prefill_reachable) knobs_.push_back(prefill_knob());
    if (deployment.decode_reachable) knobs_.push_back(requests_knob());
    if (!deployment.capture_bs.empty()) knobs_.push_back(graph_knob());
  }

  std::vector<CapacityMend> mends() const {
    std::vector<CapacityMend> out;
    if (auto raised = variable()) out.push_back(std::move(*raised));
    for (std::size_t size = 1; size <= knobs_.size(); ++size) {
      const std::size_t before = out.size();
      for (std::size_t set = 1; set < std::size_t{1} << knobs_.size(); ++set)
        if (static_cast<std::size_t>(std::popcount(set)) == size)
          if (auto lowered = lower(set)) out.push_back(std::move(*lowered));
      if (out.size() > before) break;  // more settings than needed are no better
    }
    std::ranges::stable_sort(out, {}, &CapacityMend::change);
    return out;
  }

 private:
  using Steps = std::vector<std::int64_t>;  // by knob

  std::string a_rank(std::int64_t per_rank) const {
    return replicas_ > 1 ? fmt::format(" / dp_size {} = {} a rank", replicas_, per_rank) : "";
  }

  // A count of the whole server, of which each replica has its share.
  Knob shared_knob(std::string name, std::optional<std::int64_t> given, const Limit& per_rank, std::int64_t guess,
                   ServerArgs::OptionalInt ServerArgs::*member) const {
    Knob knob;
    knob.name = std::move(name);
    knob.most_steps = per_rank.value;
    knob.guess_steps = guess;
    knob.values = [replicas = replicas_](std::int64_t steps) { return Steps{steps * replicas}; };
    knob.set = [member](ServerArgs& args, const Steps& values) { args.*member = values.front(); };
    knob.is_given = given.has_value();
    knob.now = given ? fmt::format("now {}{}", *given, a_rank(per_rank.value))
                     : fmt::format("not given: {} a rank assumed", per_rank.value);
    return knob;
  }

  Knob prefill_knob() const {
    const ServerArgs& given = sglang_part(deployment_).given.args;
    const std::int64_t guess = cap_.tokens * deployment_.topology.attn_tp_size;
    if (given.chunked_prefill_size.value_or(1) > 0)
      return shared_knob("--chunked-prefill-size", given.chunked_prefill_size, deployment_.prefill_tokens, guess,
                         &ServerArgs::chunked_prefill_size);
    Knob knob;  // without chunks max_prefill_tokens bounds a batch of every replica
    knob.name = "--max-prefill-tokens";
    knob.most_steps = given.max_prefill_tokens;
    knob.guess_steps = guess;
    knob.values = [](std::int64_t steps) { return Steps{steps}; };
    knob.set = [](ServerArgs& args, const Steps& values) { args.max_prefill_tokens = values.front(); };
    knob.now = fmt::format("now {}, the bound without chunks", given.max_prefill_tokens);
    return knob;
  }

  Knob requests_knob() const {
    const std::int64_t width = deployment_.num_tokens_per_bs;
    Knob knob = shared_knob("--max-running-requests", sglang_part(deployment_).given.args.max_running_requests,
                            deployment_.requests_per_dp_rank, cap_.tokens * deployment_.topology.attn_tp_size / width,
                            &ServerArgs::max_running_requests);
    if (width > 1) knob.now += fmt::format(", {} tokens each", width);
    return knob;
  }

  Knob graph_knob() const {
    const ServerArgs& given = sglang_part(deployment_).given.args;
    const std::int64_t guess = cap_.tokens * deployment_.topology.attn_tp_size / deployment_.num_tokens_per_bs;
    Knob knob;
    if (!given.cuda_graph_bs || given.cuda_graph_bs->empty()) {
      knob.name = "--cuda-graph-max-bs";
      knob.most_steps = deployment_.graph_max_bs.value;
      knob.guess_steps = guess;
      knob.values = [](std::int64_t steps) { return Steps{steps}; };
      knob.set = [](ServerArgs& args, const Steps& values) { args.cuda_graph_max_bs = values.front(); };
      knob.is_given = given.cuda_graph_max_bs.has_value();
      knob.now = knob.is_given ? fmt::format("now {}", knob.most_steps)
                               : fmt::format("not given: {} assumed", knob.most_steps);
      return knob;
    }
    Steps sizes = *given.cuda_graph_bs;
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    knob.name = "--cuda-graph-bs";
    knob.most_steps = static_cast<std::int64_t>(sizes.size());
    knob.guess_steps = std::ranges::upper_bound(sizes, guess) - sizes.begin();
    knob.now = fmt::format("now {}", fmt::join(*given.cuda_graph_bs, " "));
    knob.values = [sizes](std::int64_t steps) { return Steps(sizes.begin(), sizes.begin() + steps); };
    knob.set = [](ServerArgs& args, const Steps& values) { args.cuda_graph_bs = values; };
    return knob;
  }

  // The deployment with these changes has nothing above the cap, starts, and does not disagree instead.
  bool cures(const DeploymentInputs& inputs) const {
    const auto changed = resolve_deployment(inputs);
    if (!changed || !(*changed)->rejections.empty()) return false;
    const CheckReport report = judge_deployment(**changed);
    const Severity least = trouble_ == CapacityTrouble::errors ? Severity::error : Severity::note;
    return !has(report, FindingKind::rejected) && !has(report, FindingKind::over_capacity, least) &&
           (may_disagree_ || !has(report, FindingKind::geometry_disagreement));
  }

  bool cures(const Steps& steps) const {
    DeploymentInputs inputs = sglang_part(deployment_).given;
    for (std::size_t k = 0; k < knobs_.size(); ++k)
      if (steps[k] < knobs_[k].most_steps) knobs_[k].set(inputs.args, knobs_[k].values(steps[k]));
    return cures(inputs);
  }

  // The least value that is known to do, or the next power of two times it.
  std::optional<CapacityMend> variable() const {
    constexpr int kMostDoublings = 24;
    std::int64_t needed = std::max<std::int64_t>(needed_, cap_.tokens + 1);
    for (int doubling = 0; doubling < kMostDoublings; ++doubling, needed *= 2) {
      MendSetting setting = raise_cap_variable(deployment_, needed);
      DeploymentInputs inputs = sglang_part(deployment_).given;
      inputs.env.set(setting.name, fmt::format("{}", setting.values.front()));
      if (!cures(inputs)) continue;
      const double cap = std::max(static_cast<double>(cap_.tokens), 0.5);
      return CapacityMend{{std::move(setting)}, std::log(static_cast<double>(needed) / cap)};
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

  std::optional<CapacityMend> lower(std::size_t set) const {
    Steps steps;
    for (std::size_t k = 0; k < knobs_.size(); ++k) steps.push_back((set >> k & 1) != 0 ? 1 : knobs_[k].most_steps);
    CapacityMend mend;
    for (std::size_t k = 0; k < knobs_.size(); ++k) {
      if ((set >> k & 1) == 0) continue;
      const auto found = most(steps, k);
      if (!found || *found >= knobs_[k].most_steps) return std::nullopt;
      steps[k] = *found;
      mend.change += std::log(static_cast<double>(knobs_[k].most_steps) / static_cast<double>(*found));
      mend.settings.push_back({knobs_[k].name, knobs_[k].values(*found), knobs_[k].now, knobs_[k].is_given});
    }
    return mend;
  }

  const Deployment& deployment_;
  CapacityTrouble trouble_;
  bool may_disagree_;
  Cap cap_;
  std::int64_t needed_ = 0;
  std::int64_t replicas_;
  std::vector<Knob> knobs_;
};

std::string text(const MendSetting& setting) {
  return fmt::format("{} {} to {}{} ({})", setting.raises || !setting.is_given ? "set" : "lower", setting.name,
                     fmt::join(setting.values, " "), setting.raises ? " or more" : "", setting.now);
}

}  // namespace

MendSetting raise_cap_variable(const Deployment& deployment, std::int64_t needed_tokens) {
  const Cap cap = cap_of(deployment);
  MendSetting setting;
  setting.name = cap.variable;
  setting.values = {(needed_tokens + cap.per_unit - 1) / cap.per_unit};
  setting.now = fmt::format("the cap is {} now{}", cap.tokens, cap.per_unit > 1 ? ", the variable times ep_size" : "");
  setting.raises = true;
  return setting;
}

std::vector<CapacityMend> capacity_mends(const Deployment& deployment, const CheckReport& report,
                                         CapacityTrouble trouble) {
  return Mender(deployment, report, trouble).mends();
}

std::string text(std::span<const CapacityMend> mends) {
  std::vector<std::string> alternatives;
  for (const CapacityMend& mend : mends) {
    std::vector<std::string> settings;
    for (const MendSetting& setting : mend.settings) settings.push_back(text(setting));
    alternatives.push_back(fmt::format("{}", fmt::join(settings, ", and ")));
  }
  return fmt::format("{}", fmt::join(alternatives, ", or "));
}

}  // namespace a2asim
