// The registry of findings: complete, short, and true: its examples show what they are said to show.
#include "model/check/finding_info.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/launch/shell_run.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

bool is_plain(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.find('\n') == std::string_view::npos && text.front() != ' ' &&
         text.back() != ' ';
}

bool is_sentence(std::string_view text) { return is_plain(text, 320) && text.ends_with('.'); }
bool is_clause(std::string_view text) { return is_plain(text, 140) && !text.ends_with('.'); }

// The words after "a2asim" of an example, its files found from the source folder, answers in JSON.
std::vector<std::string> arguments_of(std::string_view example) {
  std::vector<std::string> words;
  const auto script = parse_shell(example);
  REQUIRE(script);
  ShellVariables variables;
  ShellChoices choices;
  REQUIRE(run_shell(*script, variables, choices, [&](const ShellStart& start) {
    for (const ShellValue& word : start.words) words.push_back(word.text);
    return true;
  }));
  REQUIRE(words.size() > 2);
  CHECK(words.front() == "a2asim");
  words.erase(words.begin());
  for (std::string& word : words)
    for (const std::string_view folder : {"tools/examples/", "sim/scenarios/"})
      if (const std::size_t at = word.find(folder); at != std::string::npos) word.insert(at, A2ASIM_SOURCE_DIR "/");
  words.insert(words.begin() + 1, {"--format", "json"});
  return words;
}

std::vector<std::string> ids_in(const json& document) {
  std::vector<std::string> ids;
  for (const json& finding : document.value("findings", json::array())) ids.push_back(finding["id"]);
  if (!document.contains("findings"))
    for (const json& server : document.value("servers", json::array()))
      for (const json& finding : server["findings"]) ids.push_back(finding["id"]);
  for (const json& scenario : document.value("scenarios", json::array()))
    for (const auto& count : scenario["counts"].items()) ids.push_back(count.key());
  return ids;
}

}  // namespace

TEST_CASE("findings: every kind has its words, and they are short") {
  REQUIRE(findings().size() == kAllFindingKinds);
  for (int i = 0; i < kAllFindingKinds; ++i) {
    const auto kind = static_cast<FindingKind>(i);
    const FindingInfo& info = finding_info(kind);
    CAPTURE(name(kind));
    CHECK(info.kind == kind);
    CHECK(parse_finding_kind(name(kind)) == kind);
    CHECK(is_clause(info.what));
    CHECK_FALSE(info.consequences().empty());
    for (const Consequence& one : info.consequences()) CHECK(is_clause(one.what));
    CHECK(is_sentence(info.why));
    CHECK(is_sentence(info.fix));
    CHECK(info.example.starts_with("a2asim "));
    for (const std::string_view link : info.links()) CHECK(link.starts_with("https://github.com/"));
    CHECK(std::filesystem::exists(fmt::format("{}/model/check/findings/{}.inc", A2ASIM_SOURCE_DIR, name(kind))));
  }
  CHECK_FALSE(parse_finding_kind("no_such_finding").has_value());
}

TEST_CASE("findings: every example shows its finding") {
  for (const FindingInfo& info : findings()) {
    CAPTURE(info.example);
    const Outcome outcome = run(arguments_of(info.example));
    CAPTURE(outcome.err);
    REQUIRE(json::accept(outcome.out));
    const std::vector<std::string> ids = ids_in(json::parse(outcome.out));
    CHECK_MESSAGE(std::ranges::find(ids, name(info.kind)) != ids.end(), name(info.kind));
  }
}

TEST_CASE("explain: one, all, in three formats, unknown ids are refused") {
  const Outcome one = run({"explain", "over_capacity"});
  CHECK(one.exit_code == 0);
  CHECK(one.out.starts_with("over_capacity: "));
  for (const char* label : {"  hardware  ", "  why  ", "  fix  ", "  example  ", "  report  "})
    CHECK(one.out.find(label) != std::string::npos);
  const json document = json::parse(run({"explain", "stale", "--format", "json"}).out);
  REQUIRE(document["findings"].size() == 1);
  CHECK(document["findings"][0]["id"] == "stale");
  CHECK(json::parse(run({"explain", "--format", "json"}).out)["findings"].size() == kAllFindingKinds);
  const std::string list = run({"explain"}).out;
  for (const FindingInfo& info : findings()) CHECK(list.find(name(info.kind)) != std::string::npos);
  const Outcome unknown = run({"explain", "over_capacty"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("did you mean 'over_capacity'?") != std::string::npos);
  CHECK(run({"explain", "stale", "--all"}).exit_code == 2);
  CHECK(run({"explain", "--", "x"}).exit_code == 2);
}

TEST_CASE("tools/docs/findings.md is what `a2asim explain --all --format markdown` prints") {
  std::ifstream file(A2ASIM_SOURCE_DIR "/tools/docs/findings.md");
  std::stringstream page;
  page << file.rdbuf();
  CHECK(page.str() == run({"explain", "--all", "--format", "markdown"}).out);
}

}  // namespace a2asim
