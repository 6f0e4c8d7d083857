// What check found as GitHub's workflow annotations and as JUnit's XML, and the fingerprint of a finding.
#include <fmt/format.h>

#include <algorithm>

#include "model/base/digest.h"
#include "model/step/engine.h"
#include "tools/check/check_formats.h"
#include "tools/program/template.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

// A message ends with its line, and a property at a comma: https://github.com/actions/toolkit, command.ts.
std::string github_text(std::string_view text, bool is_property) {
  std::string out;
  for (const char c : text) {
    const bool escapes = c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ','));
    out += escapes ? fmt::format("%{:02X}", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return out;
}

std::string github_place(const CheckedServer& server, std::size_t finding) {
  if (server.source.kind != CommandSource::Kind::file) return "";
  std::string out = fmt::format(" file={}", github_text(server.source.path, true));
  const FindingPlace place = finding < server.words.size() ? server.words[finding] : FindingPlace{};
  out += fmt::format(",line={}", std::max<std::size_t>(place.line > 0 ? place.line : server.line, 1));
  if (place.line > 0)
    out += fmt::format(",endLine={},col={},endColumn={}", place.end_line, place.column, place.end_column);
  return out + ",";
}

bool is_wrong(const CheckedServer& server, std::size_t at, bool strict) {
  const Severity severity = server.report.findings[at].severity;
  return server.counts(at) && (severity == Severity::error || (strict && severity == Severity::warning));
}

std::string long_message(const CheckedServer& server, std::size_t at) {
  const CheckFinding& finding = server.report.findings[at];
  std::string out = sentence(capitalised(finding.message));
  if (!finding.consequence.empty()) out += "\nOn hardware: " + sentence(finding.consequence);
  if (const std::string fix = fix_words(server, at); !fix.empty()) out += "\nFix: " + sentence(fix);
  return out;
}

}  // namespace

std::string check_as_github(std::span<const CheckedServer> servers, bool strict) {
  std::string out;
  for (const CheckedServer& server : servers) {
    if (server.undecided)
      out += fmt::format("::error{}title=a2asim: not decided::{}\n",
                         github_place(server, 0) == "" ? " " : github_place(server, 0),
                         github_text(server.undecided->message, false));
    for (std::size_t at = 0; at < server.report.findings.size(); ++at) {
      const CheckFinding& finding = server.report.findings[at];
      if (!server.counts(at) || finding.severity == Severity::note) continue;
      const std::string place = github_place(server, at);
      out += fmt::format("::{}{}title={}::{}\n", is_wrong(server, at, strict) ? "error" : "warning",
                         place.empty() ? " " : place, github_text(fmt::format("a2asim: {}", name(finding.kind)), true),
                         github_text(long_message(server, at), false));
    }
  }
  return out + summary(servers) + "\n";
}

std::string check_as_junit(std::span<const CheckedServer> servers, bool strict) {
  nlohmann::ordered_json suites = nlohmann::ordered_json::array();
  std::size_t failures = 0, errors = 0;
  for (const CheckedServer& server : servers) {
    const std::string file = in_words(server.source);
    if (suites.empty() || suites.back()["file"] != file)
      suites.push_back(
          {{"file", file}, {"tests", 0}, {"failures", 0}, {"errors", 0}, {"cases", nlohmann::ordered_json::array()}});
    // Each name of its own: a missing one would be looked up in the suite.
    nlohmann::ordered_json one = {{"name", place_words(server)},
                                  {"file", file},
                                  {"line", server.line},
                                  {"failed", nlohmann::ordered_json::array()},
                                  {"undecided", ""}};
    for (std::size_t at = 0; at < server.report.findings.size(); ++at)
      if (is_wrong(server, at, strict))
        one["failed"].push_back({{"kind", name(server.report.findings[at].kind)},
                                 {"message", server.report.findings[at].message},
                                 {"text", long_message(server, at)}});
    if (server.undecided) one["undecided"] = server.undecided->message;
    nlohmann::ordered_json& suite = suites.back();
    const std::size_t failed = one["failed"].empty() ? 0 : 1, undecided = server.undecided ? 1 : 0;
    suite["tests"] = suite["tests"].get<std::size_t>() + 1;
    suite["failures"] = suite["failures"].get<std::size_t>() + failed;
    suite["errors"] = suite["errors"].get<std::size_t>() + undecided;
    failures += failed, errors += undecided;
    suite["cases"].push_back(std::move(one));
  }
  return rendered("junit.mustache",
                  {{"tests", servers.size()}, {"failures", failures}, {"errors", errors}, {"suites", suites}});
}

std::string fingerprint(const CheckedServer& server, const CheckFinding& finding) {
  Digest digest;
  for (const std::string_view part : {std::string_view(server.source.path), std::string_view(server.name),
                                      std::string_view(server.condition), name(finding.kind), name(finding.phase)})
    digest.add(part);
  return fmt::format("{:016x}", digest.value());
}

}  // namespace a2asim
