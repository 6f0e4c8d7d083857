#include "sim/conformance/suite.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "model/base/check_invariant.h"
#include "model/base/one_line.h"

namespace a2asim::conformance {
namespace {

struct Failed {
  std::string why;
};

}  // namespace

std::string_view name(CaseOutcome outcome) {
  constexpr std::array<std::string_view, 3> names = {"passed", "failed", "skipped"};
  return names[static_cast<std::size_t>(outcome)];
}

Bench Trial::bench(const std::vector<AllToAllConfig>& configs, bool guard) {
  auto made = subject_->make(configs, guard);
  check(made.has_value(), made ? "" : made.error().message);
  const Capabilities can = (*made)->capabilities();
  if (configs.size() > 1 && !can.has(Capability::several_ranks)) throw Skipped{{}, Capability::several_ranks};
  check((*made)->local_ranks().size() == configs.size(),
        fmt::format("it drives {} ranks of {}", (*made)->local_ranks().size(), configs.size()));
  return Bench(configs, std::move(*made));
}

void Trial::need(const Bench& bench, Capability capability) const {
  if (!bench.can(capability)) throw Skipped{{}, capability};
}

void Trial::check(bool holds, std::string what) const {
  if (holds) return;
  if (auto why = skip_reason(what)) throw Skipped{std::move(*why), {}};
  throw Failed{std::move(what)};
}

std::optional<std::string> skip_reason(std::string_view error) {
  constexpr std::string_view mark = "SKIPPED: ";
  const auto at = error.find(mark);
  return at == std::string_view::npos ? std::nullopt : std::optional(std::string(error.substr(at + mark.size())));
}

std::span<const Case> cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    for (const auto part : {law_cases(), flashinfer_cases(), beyond_cases()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

CaseResult run(const Subject& subject, const Case& one) {
  A2ASIM_INVARIANT(one.body != nullptr && subject.make, "a case has a body, a subject can be made");
  Trial trial(subject);
  try {
    one.body(trial);
  } catch (const Skipped& skipped) {
    const std::string why = skipped.lacks ? fmt::format("needs '{}'", name(*skipped.lacks)) : skipped.why;
    return {one.name, CaseOutcome::skipped, one_line(why, 400), skipped.lacks};
  } catch (const Failed& failed) {
    return {one.name, CaseOutcome::failed, one_line(failed.why, 400), {}};
  }
  return {one.name, CaseOutcome::passed, {}, {}};
}

std::string summary(std::span<const CaseResult> results) {
  std::array<std::int64_t, 3> counts = {};
  std::map<std::string, std::int64_t> lacking;
  for (const CaseResult& one : results) {
    ++counts[static_cast<std::size_t>(one.outcome)];
    if (one.outcome == CaseOutcome::skipped) ++lacking[one.lacks ? std::string(name(*one.lacks)) : "for other reasons"];
  }
  std::string reasons;
  for (const auto& [reason, count] : lacking)
    reasons += fmt::format("{}{} {}", reasons.empty() ? " (" : ", ", count, reason);
  return fmt::format("{} passed, {} failed, {} skipped{}{}", counts[0], counts[1], counts[2], reasons,
                     reasons.empty() ? "" : ")");
}

AllToAllConfig usual_config(int ep_size, std::int64_t max_num_tokens, std::int64_t hidden, int top_k,
                            std::int64_t num_experts, DataType type) {
  AllToAllConfig config;
  config.ep_size = ep_size;
  config.top_k = top_k;
  config.num_experts = num_experts;
  config.max_num_tokens = max_num_tokens;
  config.combine_type = type;
  config.hidden_size = hidden;
  config.payload_bytes_per_token = {config.combine_bytes_per_token(), 4 * top_k, 4 * top_k};
  return config;
}

std::vector<TokenBatch> draw(const std::vector<AllToAllConfig>& configs, const ExpertPayloads& payloads,
                             const std::vector<std::int64_t>& tokens, RoutingPattern routing, Random& random) {
  A2ASIM_INVARIANT(configs.size() == tokens.size(), "every rank has a number of tokens");
  std::vector<TokenBatch> batches;
  for (std::size_t r = 0; r < configs.size(); ++r)
    batches.emplace_back(configs[r], payloads, tokens[r], routing, random);
  return batches;
}

std::vector<DispatchInput> inputs_of(const std::vector<TokenBatch>& batches, std::int64_t runtime_max) {
  std::vector<DispatchInput> inputs;
  for (const TokenBatch& batch : batches) inputs.push_back(batch.input(runtime_max));
  return inputs;
}

}  // namespace a2asim::conformance
