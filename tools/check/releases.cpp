#include "tools/check/releases.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/one_line.h"
#include "model/step/engine.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/text.h"
#include "tools/report/page.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFindingWidth = 58;

ReleaseRow row_of(PreparedServer prepared, const Version& version) {
  prepared.how.version = VersionMatch{&version, false, ""};
  ReleaseRow row{{&version}, std::nullopt, false, std::nullopt, std::nullopt, ""};
  const Result<JudgedServer> judged = judge_server(prepared);
  if (!judged) {
    row.finding = judged.error().message;
    return row;
  }
  const CheckReport& report = judged->report;
  row.verdict = report.verdict;
  row.has_error = report.has_error();
  if (report.capacity) row.max_num_tokens = report.capacity->max_num_tokens;
  if (report.static_cap) row.max_num_tokens = report.static_cap;
  if (report.capacity && report.workspace_known)
    row.workspace_bytes_per_rank = report.capacity->workspace_bytes_per_rank;
  if (!report.findings.empty() && report.findings.front().severity != Severity::note) {
    const CheckFinding& first = report.findings.front();
    const bool at_start = first.phase == Phase::start;
    row.finding = at_start ? fmt::format("{}: {}", name(first.kind), first.message)
                           : fmt::format("{} in {}", name(first.kind), spaced(name(first.phase)));
  }
  return row;
}

Result<std::size_t> index_of(const Engine& engine, const std::vector<const Version*>& all, const std::string& text) {
  const Result<VersionMatch> match = find_version(engine, text);
  if (!match) return tl::unexpected(match.error());
  return static_cast<std::size_t>(std::ranges::find(all, match->version->name, &Version::name) - all.begin());
}

std::string number(const std::optional<std::int64_t>& value) { return value ? grouped(*value) : "-"; }
std::string bytes(const std::optional<std::int64_t>& value) { return value ? bytes_in_words(*value) : "-"; }
std::string verdict_name(const ReleaseRow& row) {
  return row.verdict ? std::string(name(*row.verdict)) +
                           (row.has_error && *row.verdict == Verdict::agrees ? ", bytes wrong" : "")
                     : "not decided";
}

// One server of the table.
struct Table {
  std::string place;
  const Engine* engine = nullptr;
  std::vector<ReleaseRow> rows;
};

std::string safe_words(const Table& table) {
  std::string safe;
  for (const ReleaseRow& row : table.rows)
    if (row.verdict && !row.has_error) safe += (safe.empty() ? "" : ", ") + label(row);
  return safe.empty() ? "no version of these runs it" : "runs without an error: " + safe;
}

std::string as_text(const std::vector<Table>& tables) {
  std::string out;
  for (const Table& one : tables) {
    std::vector<std::vector<std::string>> cells = {{"release", "verdict", "cap", "workspace", "first finding"}};
    for (const ReleaseRow& row : one.rows)
      cells.push_back({label(row), verdict_name(row), number(row.max_num_tokens), bytes(row.workspace_bytes_per_rank),
                       row.finding.empty() ? "-" : cut(one_line(row.finding), kFindingWidth)});
    out += fmt::format("{}{}: {} by release (cap and workspace per rank)\n", out.empty() ? "" : "\n", one.place,
                       one.engine->name);
    for (const std::string& line : wrap(capitalised(safe_words(one)) + ".", 100)) out += line + '\n';
    for (const std::string& line : table(cells, {2, 3})) out += line + '\n';
  }
  return out;
}

Json rows_as_json(const Table& table) {
  Json rows = Json::array();
  for (const ReleaseRow& row : table.rows) {
    Json versions = Json::array();
    for (const Version* version : row.versions) versions.push_back(version->name);
    rows.push_back({{"releases", label(row)},
                    {"versions", versions},
                    {"verdict", row.verdict ? Json(name(*row.verdict)) : Json()},
                    {"has_error", row.has_error},
                    {"max_num_tokens", or_null(row.max_num_tokens)},
                    {"workspace_bytes_per_rank", or_null(row.workspace_bytes_per_rank)},
                    {"finding", row.finding}});
  }
  return rows;
}

std::string as_json(const std::vector<Table>& tables) {
  Json servers = Json::array();
  for (const Table& table : tables)
    servers.push_back({{"place", table.place}, {"engine", table.engine->name}, {"by_release", rows_as_json(table)}});
  return print(Json{{"tool", tool_as_json()}, {"command", "check"}, {"servers", servers}});
}

std::string as_page(const std::vector<Table>& tables) {
  Page page;
  page.title = "a2asim check: releases side by side";
  const bool all_safe = std::ranges::all_of(tables, [](const Table& table) {
    return std::ranges::any_of(table.rows, [](const ReleaseRow& row) { return row.verdict && !row.has_error; });
  });
  page.header = verdict_header("a2asim check", all_safe ? Tone::neutral : Tone::bad, "Releases side by side",
                               tables.size() == 1 ? capitalised(safe_words(tables.front())) + "." : "");
  page.body = "releases.mustache";
  Json list = Json::array();
  for (const Table& table : tables) {
    Json rows = Json::array();
    for (const ReleaseRow& row : table.rows)
      rows.push_back({{"release", label(row)},
                      {"verdict", verdict_name(row)},
                      {"good", row.verdict && !row.has_error},
                      {"cap", number(row.max_num_tokens)},
                      {"workspace", bytes(row.workspace_bytes_per_rank)},
                      {"finding", row.finding}});
    list.push_back({{"place", table.place}, {"safe", capitalised(safe_words(table))}, {"rows", rows}});
  }
  page.values["servers"] = std::move(list);
  return page_html(page);
}

}  // namespace

std::string label(const ReleaseRow& row) { return range_in_words(row.versions); }

Result<std::vector<ReleaseRow>> release_rows(const PreparedServer& prepared, const std::optional<std::string>& range) {
  const std::vector<const Version*> all = prepared.engine->versions();
  std::size_t first = 0, last = all.size() - 1;
  const std::string words = range.value_or("all");
  if (const std::size_t dots = words.find(".."); words != "all" && dots != std::string::npos) {
    if (dots > 0) {
      const auto at = index_of(*prepared.engine, all, words.substr(0, dots));
      if (!at) return tl::unexpected(at.error());
      first = *at;
    }
    if (dots + 2 < words.size()) {
      const auto at = index_of(*prepared.engine, all, words.substr(dots + 2));
      if (!at) return tl::unexpected(at.error());
      last = *at;
    }
    if (first > last) return unusable(fmt::format("{}: the first version is newer than the last", one_line(words, 60)));
  }
  std::vector<ReleaseRow> rows;
  for (std::size_t at = first; at <= last; ++at) {
    ReleaseRow row = row_of(prepared, *all[at]);
    if (!rows.empty() && rows.back().says_the_same(row))
      rows.back().versions.push_back(all[at]);
    else
      rows.push_back(std::move(row));
  }
  return rows;
}

bool is_range(const ServerOptions& options) {
  return std::ranges::any_of(options.versions, [](const auto& entry) {
    return entry.second && (*entry.second == "all" || entry.second->find("..") != std::string::npos);
  });
}

Result<int> check_releases(const ServerOptions& given, SettingsFiles& files, const std::vector<LaunchText>& texts,
                           const ReleasesOutput& output, Io& io) {
  const auto format = parse_choice("--format with a range of versions", output.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  ServerOptions options = given;
  for (auto& [engine, version] : options.versions) version.reset();
  std::vector<Table> tables;
  for (const LaunchText& text : texts) {
    if (text.error) return tl::unexpected(*text.error);
    for (const LaunchedServer& server : text.servers) {
      Result<PreparedServer> prepared = prepare_server(options, files, text, server);
      if (!prepared) return tl::unexpected(prepared.error());
      const auto range = given.versions.find(prepared->engine->name);
      auto rows = release_rows(*prepared, range == given.versions.end() ? std::nullopt : range->second);
      if (!rows) return unusable(fmt::format("--{}: {}", prepared->engine->name, rows.error().message));
      tables.push_back({place_words({{}, server.name, server.line, server.condition, text.source}), prepared->engine,
                        std::move(*rows)});
    }
  }
  if (output.report)
    if (auto written = write_page(*output.report, as_page(tables)); !written) return tl::unexpected(written.error());
  io.out << (*format == 0 ? as_text(tables) : as_json(tables));
  int worst = kNothingWrong;
  for (const Table& table : tables)
    for (const ReleaseRow& row : table.rows)
      worst = std::max(worst, !row.verdict ? kUnusableInput : row.has_error ? kErrorFound : kNothingWrong);
  return worst;
}

}  // namespace a2asim
