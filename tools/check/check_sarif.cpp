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

Json region(const FindingPlace& place) {
  return {{"startLine", place.line},
          {"startColumn", place.column},
          {"endLine", place.end_line},
          {"endColumn", place.end_column}};
}

Json location(const CheckedServer& server, std::size_t finding) {
  if (server.source.kind == CommandSource::Kind::file) {
    const FindingPlace place = finding < server.words.size() ? server.words[finding] : FindingPlace{};
    const Json where = place.line > 0 ? region(place) : Json{{"startLine", std::max<std::size_t>(server.line, 1)}};
    return {{"physicalLocation", {{"artifactLocation", {{"uri", uri(server.source.path)}}}, {"region", where}}}};
  }
  return {{"logicalLocations", Json::array({{{"name", in_words(server.source)}, {"kind", "resource"}}})}};
}

// Those that are edits of the file, the first one first.
Json fixes_of(const CheckedServer& server, std::size_t finding) {
  Json out = Json::array();
  if (server.source.kind != CommandSource::Kind::file || finding >= server.fixes.size()) return out;
  for (const TriedFix& tried : server.fixes[finding]) {
    if (!tried.edit.inserted) continue;
    const Json change = {{"deletedRegion", region(tried.edit)}, {"insertedContent", {{"text", *tried.edit.inserted}}}};
    out.push_back({{"description", {{"text", in_words(tried.fix)}}},
                   {"artifactChanges", Json::array({{{"artifactLocation", {{"uri", uri(server.source.path)}}},
                                                     {"replacements", Json::array({change})}}})}});
  }
  return out;
}

std::string message_of(const CheckedServer& server, std::size_t at) {
  const CheckFinding& finding = server.report.findings[at];
  std::string text = finding.message;
  if (!finding.consequence.empty()) text += "\nOn hardware: " + finding.consequence;
  for (const std::string& link : finding.chain) text += "\nWhy: " + link;
  for (const Condition& one : finding.any_of)
    text += fmt::format("\nNeeded, any one: {} {} (yours: {})", one.what, one.needed, one.yours);
  if (const std::string fix = fix_words(server, at); !fix.empty()) text += "\nFix: " + fix;
  return text;
}

Json result_of(const CheckedServer& server, std::size_t at, std::ptrdiff_t rule_index) {
  const CheckFinding& finding = server.report.findings[at];
  Json out = {{"ruleId", name(finding.kind)},
              {"ruleIndex", rule_index},
              {"level", name(finding.severity)},
              {"message", {{"text", message_of(server, at)}}},
              {"locations", Json::array({location(server, at)})},
              {"partialFingerprints", {{"a2asim/v1", fingerprint(server, finding)}}},
              {"properties", {{"phase", name(finding.phase)}, {"witness", witness_as_json(finding.witness)}}}};
  if (Json fixes = fixes_of(server, at); !fixes.empty()) out["fixes"] = std::move(fixes);
  if (!server.counts(at))
    out["suppressions"] = Json::array({{{"kind", server.ignored[at] == kInBaseline ? "external" : "inSource"},
                                        {"justification", server.ignored[at]}}});
  return out;
}

// What stopped the program before a verdict.
Json notification(const CheckedServer& server) {
  return {{"level", "error"},
          {"message", {{"text", server.undecided->message}}},
          {"locations", Json::array({location(server, 0)})}};
}

}  // namespace

std::string check_as_sarif(const CheckReport& report, const CommandSource& source) {
  const CheckedServer one{report, "", 0, "", source};
  return check_as_sarif(std::span(&one, 1), true);
}

std::string check_as_sarif(std::span<const CheckedServer> servers, bool notes) {
  std::vector<FindingKind> kinds;
  Json rules = Json::array(), results = Json::array(), undecided = Json::array();
  for (const CheckedServer& server : servers) {
    if (server.undecided) undecided.push_back(notification(server));
    for (std::size_t at = 0; at < server.report.findings.size(); ++at) {
      const CheckFinding& finding = server.report.findings[at];
      if (finding.severity == Severity::note && !notes) continue;
      auto kind = std::ranges::find(kinds, finding.kind);
      if (kind == kinds.end()) {
        kind = kinds.insert(kinds.end(), finding.kind);
        rules.push_back(rule(finding.kind));
      }
      results.push_back(result_of(server, at, kind - kinds.begin()));
    }
  }
  const Version* const generation = servers.empty() ? nullptr : servers.front().report.generation;
  Json driver = tool_as_json();
  driver["rules"] = rules;
  const Json properties = {{"verdict", name(worst_verdict(servers))},
                           {"engine", generation == nullptr ? Json() : Json(engine_of(*generation).name)},
                           {"generation", generation == nullptr ? Json() : Json(generation->name)}};
  const Json invocation = {{"executionSuccessful", undecided.empty()}, {"toolExecutionNotifications", undecided}};
  const Json run = {{"tool", {{"driver", driver}}},
                    {"columnKind", "unicodeCodePoints"},
                    {"invocations", Json::array({invocation})},
                    {"results", results},
                    {"properties", properties}};
  return print(Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({run})}});
}

}  // namespace a2asim
