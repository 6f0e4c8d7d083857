#include "tools/validate/validate_report.h"

#include <fmt/format.h>

#include "tools/program/json_document.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

std::string coloured(CheckResult result, bool colour) {
  constexpr std::array<const char*, kCheckResults> codes = {"1;32", "1;31", "1;33"};
  const std::string word(name(result));
  return painted(word, codes[static_cast<std::size_t>(result)], colour);
}

std::array<std::int64_t, kCheckResults> summary(std::span<const ScenarioValidation> all) {
  std::array<std::int64_t, kCheckResults> sums = {};
  for (const ScenarioValidation& one : all) ++sums[static_cast<std::size_t>(one.result)];
  return sums;
}

std::int64_t count(const ScenarioValidation& one, CheckKind kind, CheckResult result) {
  return one.counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(result)];
}

// "receive 6, output 3; 12.5 KiB of slices, 40 tokens (3 NaN, 5 wrong, on both)"
std::string what_passed(const ScenarioValidation& one) {
  std::string checks;
  for (int kind = 0; kind < kCheckKinds; ++kind) {
    const std::int64_t passed = count(one, static_cast<CheckKind>(kind), CheckResult::passed);
    if (passed > 0)
      checks += fmt::format("{}{} {}", checks.empty() ? "" : ", ", name(static_cast<CheckKind>(kind)), passed);
  }
  if (checks.empty()) return {};
  if (one.bytes_compared > 0)
    checks += fmt::format("; {} of slices, {}", bytes_in_words(one.bytes_compared),
                          counted(static_cast<std::size_t>(one.tokens_compared), "token"));
  if (one.nan_tokens + one.wrong_tokens > 0)
    checks += fmt::format(" ({} NaN, {} wrong, on both)", one.nan_tokens, one.wrong_tokens);
  if (one.graph_layers > 0)
    checks += fmt::format("; {} by graph replay", counted(static_cast<std::size_t>(one.graph_layers), "layer"));
  if (one.bytes_raced > 0)
    checks += fmt::format("; {} of races settled as on the device",
                          counted(static_cast<std::size_t>(one.bytes_raced), "byte"));
  return checks;
}

std::string place(const Remark& remark) {
  return fmt::format("step {}{}", remark.step, remark.layer > 0 ? fmt::format(", layer {}", remark.layer) : "");
}

Json counts_as_json(const ScenarioValidation& one) {
  Json out = Json::object();
  for (int kind = 0; kind < kCheckKinds; ++kind) {
    Json results = Json::object();
    for (int result = 0; result < kCheckResults; ++result) {
      const std::int64_t number = count(one, static_cast<CheckKind>(kind), static_cast<CheckResult>(result));
      if (number > 0) results[std::string(name(static_cast<CheckResult>(result)))] = number;
    }
    if (!results.empty()) out[std::string(name(static_cast<CheckKind>(kind)))] = std::move(results);
  }
  return out;
}

Json as_json(const ScenarioValidation& one) {
  Json remarks = Json::array();
  for (const Remark& remark : one.remarks) {
    remarks.push_back({{"check", name(remark.kind)},
                       {"result", name(remark.result)},
                       {"step", remark.step},
                       {"layer", remark.layer},
                       {"message", remark.what}});
  }
  return {{"name", one.name},
          {"file", one.file},
          {"guard", one.guard ? "on" : "off"},
          {"result", name(one.result)},
          {"why", one.why.empty() ? Json(nullptr) : Json(one.why)},
          {"verdict", name(one.verdict)},
          {"steps", one.steps},
          {"graph_layers", one.graph_layers},
          {"checks", counts_as_json(one)},
          {"bytes_compared", one.bytes_compared},
          {"bytes_raced", one.bytes_raced},
          {"tokens_compared", one.tokens_compared},
          {"nan_tokens", one.nan_tokens},
          {"wrong_tokens", one.wrong_tokens},
          {"remarks", std::move(remarks)}};
}

}  // namespace

std::string validations_as_text(std::span<const ScenarioValidation> all, bool colour) {
  std::string out;
  for (const ScenarioValidation& one : all) {
    const std::string passed = what_passed(one);
    out += fmt::format("{}  {}, guard {}: {}{}\n", coloured(one.result, colour), one_line(one.name),
                       one.guard ? "on" : "off", name(one.verdict), passed.empty() ? "" : "; " + passed);
    if (!one.why.empty()) out += fmt::format("        {}\n", one_line(one.why));
    for (const Remark& remark : one.remarks)
      out += fmt::format("        {} {}, {}: {}\n", name(remark.kind), name(remark.result), place(remark),
                         one_line(remark.what, 600));
  }
  const auto sums = summary(all);
  return out + fmt::format("validate: {} passed, {} failed, {} skipped\n", sums[0], sums[1], sums[2]);
}

Json validations_as_json(std::span<const ScenarioValidation> all, const std::string& device) {
  Json scenarios = Json::array();
  for (const ScenarioValidation& one : all) scenarios.push_back(as_json(one));
  const auto sums = summary(all);
  return {{"tool", tool_as_json()},
          {"device", device},
          {"scenarios", std::move(scenarios)},
          {"summary", {{"passed", sums[0]}, {"failed", sums[1]}, {"skipped", sums[2]}}}};
}

}  // namespace a2asim
