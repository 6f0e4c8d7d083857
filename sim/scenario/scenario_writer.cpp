#include "sim/scenario/scenario_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

// Without quotes only what every reader of YAML takes as this very text: not yes, null, 1e3 or 2026-06-20.
bool needs_no_quotes(std::string_view text) {
  constexpr std::string_view special[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::string folded(text);
  std::transform(folded.begin(), folded.end(), folded.begin(), lower);
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-'; };
  return !folded.empty() && folded.front() >= 'a' && folded.front() <= 'z' &&
         std::all_of(folded.begin(), folded.end(), plain) &&
         std::find(std::begin(special), std::end(special), folded) == std::end(special);
}

// The code point at the front of valid UTF-8, which is removed. Bytes that are none count one by one.
std::uint32_t take_code_point(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  std::uint32_t code = length == 1 ? first : first & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length && i < text.size(); ++i) {
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  text.remove_prefix(std::min(length, text.size()));
  return code;
}

std::string yaml_quoted(std::string_view text) {
  if (needs_no_quotes(text)) return std::string(text);
  std::string out = "\"";
  while (!text.empty()) {
    const std::uint32_t c = take_code_point(text);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c >= ' ' && c < 0x7F) {
      out += static_cast<char>(c);
    } else {
      out += c > 0xFFFF ? fmt::format("\\U{:08x}", c) : fmt::format("\\u{:04x}", c);
    }
  }
  return out + '"';
}

std::string list(std::span<const std::int64_t> values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

std::string parallel_lines(const Parallel& parallel) {
  std::string out;
  for (const ParallelField& field : parallel_fields()) {
    std::string value;
    if (field.integer != nullptr) {
      if (const auto& integer = parallel.*field.integer) value = std::to_string(*integer);
    } else if (field.boolean != nullptr) {
      if (const auto& boolean = parallel.*field.boolean) value = *boolean ? "true" : "false";
    } else if (field.word != nullptr) {
      if (const auto& word = parallel.*field.word) value = yaml_quoted(*word);
    } else if (const auto& entries = parallel.*field.list; !entries.empty()) {
      value = list(entries);
    }
    if (!value.empty()) out += fmt::format("  {}: {}\n", field.key, value);
  }
  return out.empty() ? "parallel: {}\n" : "parallel:\n" + out;
}

std::string deployment_lines(const Scenario& scenario) {
  std::string out;
  if (scenario.engine && scenario.version) {
    out += fmt::format("{}: {}\n", *scenario.engine, yaml_quoted(*scenario.version));  // the short form
  } else {
    if (scenario.engine) out += fmt::format("engine: {}\n", *scenario.engine);
    if (scenario.version) out += fmt::format("version: {}\n", yaml_quoted(*scenario.version));
  }
  if (scenario.launch) out += fmt::format("launch: {}\n", yaml_quoted(*scenario.launch));
  if (scenario.parallel) out += parallel_lines(*scenario.parallel);
  if (!scenario.env.empty()) out += "env:\n";
  for (const auto& [name, value] : scenario.env)
    out += fmt::format("  {}: {}\n", yaml_quoted(name), yaml_quoted(value));
  return out;
}

std::string model_lines(const Scenario& scenario) {
  const ScenarioModel& model = scenario.model;
  std::string out = fmt::format(
      "model: {{num_experts: {}, top_k: {}, hidden_size: {}, layers: {}, dtype: {}}}\nseed: {}\n", model.num_experts,
      model.top_k, model.hidden_size, model.layers, name_in(model_dtypes(), model.dtype), scenario.seed);
  const Routing& routing = scenario.routing;
  if (routing != Routing{}) {
    const bool has_rank = routing.kind == Routing::Kind::hot_rank;
    out += fmt::format("routing: {{kind: {}{}}}\n", name_in(routing_kinds(), routing.kind),
                       has_rank ? fmt::format(", rank: {}", routing.rank) : "");
  }
  if (scenario.experts != ExpertsKind::exact) {
    out += fmt::format("experts: {}\n", name_in(experts_kinds(), scenario.experts));
  }
  return out;
}

std::string step_line(const Step& step) {
  std::vector<std::string_view> names;
  names.reserve(step.mode.size());
  A2ASIM_INVARIANT(step.mode.size() == 1 || step.mode.size() == step.tokens.size(), "one mode, or one a rank");
  for (const ForwardMode mode : step.mode) names.push_back(name_in(step_modes(), mode));
  const std::string mode = names.size() == 1 ? std::string(names[0]) : fmt::format("[{}]", fmt::join(names, ", "));
  std::string out = fmt::format("  - {{mode: {}, tokens: {}", mode, list(step.tokens));
  if (step.graph) out += *step.graph ? ", graph: true" : ", graph: false";
  if (step.repeat != 1) out += fmt::format(", repeat: {}", step.repeat);
  return out + "}\n";
}

std::string fault_value(const Fault& fault) {
  std::string rank = fault.rank ? std::to_string(*fault.rank) : "true";
  switch (fault.kind) {
    case FaultKind::wrong_mode:
      return fmt::format("{{rank: {}, mode: {}}}", rank, name_in(step_modes(), fault.mode));
    case FaultKind::corrupt_count:
      return fmt::format("{{{}source: {}, value: {}}}", fault.rank ? fmt::format("rank: {}, ", rank) : "", fault.source,
                         fault.value);
    case FaultKind::max_num_tokens:
      return fmt::format("{{rank: {}, value: {}}}", rank, fault.value);
    case FaultKind::payload_bytes:
      return fmt::format("{{rank: {}, payload: {}, value: {}}}", rank, fault.payload, fault.value);
    default:
      return rank;
  }
}

std::string fault_line(const Fault& fault) {
  A2ASIM_INVARIANT(fault.step >= 0, "steps count from zero");
  const std::string step = is_construction_fault(fault.kind) ? "" : fmt::format("step: {}, ", fault.step);
  return fmt::format("  - {{{}{}: {}{}}}\n", step, name_in(fault_kinds(), fault.kind), fault_value(fault),
                     fault.masked ? ", masked: true" : "");
}

std::string expect_value(const Expect& expect) {
  std::vector<std::string> parts;
  if (expect.verdict) parts.push_back(fmt::format("verdict: {}", name_in(verdicts(), *expect.verdict)));
  if (expect.step) parts.push_back(fmt::format("step: {}", *expect.step));
  std::vector<std::string_view> findings;
  findings.reserve(expect.findings.size());
  for (const FindingKind kind : expect.findings) findings.push_back(name(kind));
  if (!findings.empty()) parts.push_back(fmt::format("findings: [{}]", fmt::join(findings, ", ")));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

}  // namespace

std::string to_yaml(const Scenario& scenario) {
  std::string out = fmt::format("name: {}\n", yaml_quoted(scenario.name));
  out += deployment_lines(scenario) + model_lines(scenario) + "steps:\n";
  for (const Step& step : scenario.steps) out += step_line(step);
  if (!scenario.faults.empty()) out += "faults:\n";
  for (const Fault& fault : scenario.faults) out += fault_line(fault);
  if (scenario.expect) out += fmt::format("expect: {}\n", expect_value(*scenario.expect));
  if (!scenario.expect_by_generation.empty()) out += "expect_by_generation:\n";
  for (const auto& [generation, expect] : scenario.expect_by_generation) {
    out += fmt::format("  {}: {}\n", yaml_quoted(generation), expect_value(expect));
  }
  return out;
}

}  // namespace a2asim
