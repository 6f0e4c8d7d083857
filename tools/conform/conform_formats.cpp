// What conform prints: a table, one line a kind; the smallest difference of each; the nearest version.
#include <fmt/format.h>

#include "tools/conform/conform.h"
#include "tools/program/json_document.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

std::string indented(std::string_view head, const std::string& text) {
  std::string out;
  const std::string first = fmt::format("{:<9} {}", head, text);
  for (const std::string& line : wrap(first, kTextWidth, 10)) out += "    " + line + '\n';
  return out;
}

std::string count_in_words(std::int64_t count) { return count == 0 ? "none" : grouped(count); }

}  // namespace

std::string conform_as_text(const ConformReport& report, const Engine& engine) {
  const Version& against = *report.versions[report.against];
  const Version& nearest = *report.versions[report.nearest];
  std::string out =
      fmt::format("{} compared with {} {} (seed {})\n", report.source, engine.name, against.name, report.seed);
  std::vector<std::vector<std::string>> rows = {{"kind", "questions", "differ"}};
  for (const ConformKind& kind : report.kinds)
    rows.push_back({std::string(name(kind.kind)), kind.not_loaded ? "-" : grouped(std::ssize(kind.questions)),
                    kind.not_loaded ? "not loaded" : count_in_words(kind.differing[report.against])});
  for (const std::string& line : table(rows, {1})) out += "  " + line + '\n';
  for (const ConformKind& kind : report.kinds)
    if (kind.not_loaded) out += fmt::format("  {} could not be loaded: {}\n", name(kind.kind), *kind.not_loaded);
  for (const ConformDifference& one : report.differences) {
    out += fmt::format("  {}: the smallest question for which the answers differ\n", name(one.kind));
    out += indented("question", one.question.dump());
    out += indented("the code", one.outside.dump());
    out += indented(std::string(against.name), one.own.dump());
  }
  const std::int64_t differing = report.differing(report.nearest);
  out += fmt::format("the code behaves as {} in {} of {} kinds that could be asked", nearest.name,
                     report.equal_kinds(report.nearest), report.loaded_kinds());
  out += differing == 0 ? "\n" : fmt::format(", and differs in {} answers\n", grouped(differing));
  return out;
}

std::string conform_as_json(const ConformReport& report, const Engine& engine) {
  Json kinds = Json::array();
  for (const ConformKind& kind : report.kinds) {
    Json smallest = nullptr;
    for (const ConformDifference& one : report.differences)
      if (one.kind == kind.kind)
        smallest = {{"question", one.question.dump()}, {"outside", one.outside.dump()}, {"own", one.own.dump()}};
    kinds.push_back({{"kind", name(kind.kind)},
                     {"not_loaded", or_null(kind.not_loaded)},
                     {"questions", kind.questions.size()},
                     {"differing", kind.not_loaded ? Json() : Json(kind.differing[report.against])},
                     {"smallest", smallest}});
  }
  return print(Json{{"tool", tool_as_json()},
                    {"engine", engine.name},
                    {"source", report.source},
                    {"seed", report.seed},
                    {"against", report.versions[report.against]->name},
                    {"kinds", kinds},
                    {"nearest",
                     {{"generation", report.versions[report.nearest]->name},
                      {"equal_kinds", report.equal_kinds(report.nearest)},
                      {"differing", report.differing(report.nearest)}}}});
}

std::string conform_as_golden(const ConformReport& report) {
  std::string out;
  for (const ConformKind& kind : report.kinds)
    for (std::size_t at = 0; at < kind.questions.size(); ++at) {
      nlohmann::json row = kind.answers[at];
      row["in"] = kind.questions[at];
      row["in"]["kind"] = name(kind.kind);
      row["in"]["generation"] = report.versions[report.against]->name;
      out += row.dump() + '\n';
    }
  return out;
}

}  // namespace a2asim
