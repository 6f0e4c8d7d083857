#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/engines/sglang/generation.h"
#include "tools/check/check_formats.h"
#include "tools/program/json_document.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

// What the ids mean, for the rule list of a viewer; other ids are described by their own name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kRuleTexts = {{
    {"geometry_disagreement", "Ranks derive different sizes of the all-to-all: payloads land in wrong slots."},
    {"over_capacity", "A batch above the cap of the all-to-all is admitted."},
    {"receive_overflow",
     "A rank has more rows than its receive region: it writes into its neighbour's slots, unchecked."},
    {"missing_rank", "A collective that some rank skips: the others wait for it."},
    {"rejected", "SGLang or FlashInfer refuses this configuration."},
    {"wasted", "Slots and bytes moved or computed beyond need."},
}};

std::string rule_text(const std::string& id) {
  const auto found = std::ranges::find(kRuleTexts, std::string_view(id), [](const auto& rule) { return rule.first; });
  if (found != kRuleTexts.end()) return std::string(found->second);
  std::string text = id;
  std::ranges::replace(text, '_', ' ');
  return text;
}

// A path as a URI reference: relative ones stay relative.
std::string uri(const std::string& path) {
  std::string out = path.starts_with("/") ? "file://" : "";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/-._~").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return out;
}

Json location(const CommandSource& source) {
  if (source.kind == CommandSource::Kind::file) {
    return {{"physicalLocation", {{"artifactLocation", {{"uri", uri(source.path)}}}, {"region", {{"startLine", 1}}}}}};
  }
  const bool typed = source.kind == CommandSource::Kind::command_line;
  return {
      {"logicalLocations", Json::array({{{"name", typed ? "command line" : "standard input"}, {"kind", "resource"}}})}};
}

std::string message_of(const CheckFinding& finding) {
  std::string text = finding.message;
  if (!finding.consequence.empty()) text += "\nOn hardware: " + finding.consequence;
  for (const std::string& link : finding.chain) text += "\nWhy: " + link;
  if (!finding.fix.empty()) text += "\nFix: " + finding.fix;
  return text;
}

}  // namespace

std::string check_as_sarif(const CheckReport& report, const CommandSource& source) {
  std::vector<std::string> ids;
  Json rules = Json::array();
  Json results = Json::array();
  for (const CheckFinding& finding : report.findings) {
    auto id = std::ranges::find(ids, finding.id);
    if (id == ids.end()) {
      id = ids.insert(ids.end(), finding.id);
      rules.push_back({{"id", finding.id}, {"shortDescription", {{"text", rule_text(finding.id)}}}});
    }
    results.push_back(
        {{"ruleId", finding.id},
         {"ruleIndex", id - ids.begin()},
         {"level", name(finding.severity)},
         {"message", {{"text", message_of(finding)}}},
         {"locations", Json::array({location(source)})},
         {"properties", {{"phase", name(finding.phase)}, {"witness", witness_as_json(finding.witness)}}}});
  }
  Json driver = tool_as_json();
  driver["rules"] = rules;
  const Json properties = {{"verdict", name(report.verdict)},
                           {"engine", "sglang"},
                           {"generation", report.generation == nullptr ? Json() : Json(report.generation->name)}};
  const Json run = {{"tool", {{"driver", driver}}}, {"results", results}, {"properties", properties}};
  return print(Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({run})}});
}

}  // namespace a2asim
