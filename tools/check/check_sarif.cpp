#include <fmt/format.h>

#include <algorithm>

#include "model/check/finding_info.h"
#include "model/step/engine.h"
#include "tools/check/check_formats.h"
#include "tools/program/json_document.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

// For the rule list of a viewer.
Json rule(FindingKind kind) {
  const FindingInfo& info = finding_info(kind);
  Json out = {{"id", name(kind)},
              {"shortDescription", {{"text", capitalised(info.what) + "."}}},
              {"fullDescription", {{"text", info.why}}},
              {"help", {{"text", fmt::format("{}\nExample: {}", info.fix, info.example)}}}};
  if (!info.links().empty()) out["helpUri"] = info.links().front();
  return out;
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

Json location(const CommandSource& source, std::size_t line) {
  if (source.kind == CommandSource::Kind::file) {
    return {{"physicalLocation",
             {{"artifactLocation", {{"uri", uri(source.path)}}},
              {"region", {{"startLine", std::max<std::size_t>(line, 1)}}}}}};
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
  const CheckedServer one{report, "", 0, ""};
  return check_as_sarif(std::span(&one, 1), source);
}

std::string check_as_sarif(std::span<const CheckedServer> servers, const CommandSource& source) {
  std::vector<FindingKind> kinds;
  Json rules = Json::array();
  Json results = Json::array();
  for (const CheckedServer& server : servers) {
    for (const CheckFinding& finding : server.report.findings) {
      auto kind = std::ranges::find(kinds, finding.kind);
      if (kind == kinds.end()) {
        kind = kinds.insert(kinds.end(), finding.kind);
        rules.push_back(rule(finding.kind));
      }
      results.push_back(
          {{"ruleId", name(finding.kind)},
           {"ruleIndex", kind - kinds.begin()},
           {"level", name(finding.severity)},
           {"message", {{"text", message_of(finding)}}},
           {"locations", Json::array({location(source, server.line)})},
           {"properties", {{"phase", name(finding.phase)}, {"witness", witness_as_json(finding.witness)}}}});
    }
  }
  const Version* const generation = servers.empty() ? nullptr : servers.front().report.generation;
  Json driver = tool_as_json();
  driver["rules"] = rules;
  const Json properties = {{"verdict", name(worst_verdict(servers))},
                           {"engine", generation == nullptr ? Json() : Json(engine_of(*generation).name)},
                           {"generation", generation == nullptr ? Json() : Json(generation->name)}};
  const Json run = {{"tool", {{"driver", driver}}}, {"results", results}, {"properties", properties}};
  return print(Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({run})}});
}

}  // namespace a2asim
