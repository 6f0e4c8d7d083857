// a2asim explain: what a finding means, from the registry; also makes tools/docs/findings.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "model/base/nearest.h"
#include "model/check/finding_info.h"
#include "tools/check/check_formats.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/template.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFooterWidth = 116;

struct ExplainArguments {
  std::string id, format = "text";
  bool all = false;
};

std::vector<std::string> on_hardware(const FindingInfo& info) {
  std::vector<std::string> lines;
  for (const Consequence& one : info.consequences()) lines.push_back(capitalised(one.what) + ".");
  return lines;
}

std::string as_list() {
  std::vector<std::vector<std::string>> cells;
  for (const FindingInfo& info : findings()) cells.push_back({std::string(name(info.kind)), std::string(info.what)});
  return fmt::format("{}\n`a2asim explain ID` tells about one.\n", fmt::join(table(cells, {}), "\n"));
}

std::string as_text(const FindingInfo& info) {
  std::string out = fmt::format("{}: {}\n", name(info.kind), info.what);
  const auto add = [&](std::string_view label, const std::string& text) {
    for (const std::string& line : wrap(text, kTextWidth - 12)) {
      out += fmt::format("  {:<10}{}\n", label, line);
      label = "";
    }
  };
  std::string_view label = "hardware";
  for (const std::string& line : on_hardware(info)) add(std::exchange(label, ""), line);
  add("why", std::string(info.why));
  add("fix", std::string(info.fix));
  out += fmt::format("  {:<10}{}\n", "example", info.example);
  for (const std::string_view link : info.links()) out += fmt::format("  {:<10}{}\n", "report", link);
  return out;
}

std::string as_markdown(const FindingInfo& info) {
  std::string out = fmt::format("\n## {}\n{}.\n\n", name(info.kind), capitalised(info.what));
  for (const std::string& line : on_hardware(info)) out += fmt::format("- **On hardware.** {}\n", line);
  out += fmt::format("- **Why.** {}\n- **Fix.** {}\n- **Example.** `{}`\n", info.why, info.fix, info.example);
  if (!info.links().empty()) out += fmt::format("- **Reports.** <{}>\n", fmt::join(info.links(), ">, <"));
  return out;
}

Json as_json(const FindingInfo& info) {
  return {{"id", name(info.kind)}, {"what", info.what},       {"on_hardware", on_hardware(info)}, {"why", info.why},
          {"fix", info.fix},       {"example", info.example}, {"reports", info.links()}};
}

Result<int> run_explain(const ExplainArguments& options, const CommandLine& line, Io& io) {
  if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
  const auto format = parse_choice("--format", options.format, {"text", "json", "markdown"});
  if (!format) return tl::unexpected(format.error());
  std::span<const FindingInfo> chosen = findings();
  if (!options.id.empty()) {
    if (options.all) return fail(ErrorKind::bad_input, "give an ID or --all, not both");
    const auto kind = parse_finding_kind(options.id);
    if (!kind) {
      std::vector<std::string_view> ids;
      for (const FindingInfo& info : findings()) ids.push_back(name(info.kind));
      const std::string_view guess = nearest(options.id, ids);
      return fail(ErrorKind::bad_input,
                  fmt::format("there is no finding '{}'{}; `a2asim explain` lists them", one_line(options.id, 60),
                              guess.empty() ? "" : fmt::format(": did you mean '{}'?", guess)));
    }
    chosen = std::span(&finding_info(*kind), 1);
  } else if (*format == 0 && !options.all) {
    io.out << as_list();
    return kNothingWrong;
  }
  Json documents = Json::array();
  if (*format == 2)
    io.out << "# Findings\nEvery id that the program prints. Made by `a2asim explain --all --format markdown`.\n";
  for (const FindingInfo& info : chosen) {
    if (*format == 0) io.out << (&info == chosen.data() ? "" : "\n") << as_text(info);
    if (*format == 1) documents.push_back(as_json(info));
    if (*format == 2) io.out << as_markdown(info);
  }
  if (*format == 1) io.out << print(Json{{"tool", tool_as_json()}, {"findings", documents}});
  return kNothingWrong;
}

void add_options(CLI::App& command, ExplainArguments& options) {
  add_value(command, "id", options.id, "ID", "A finding's id, as check and replay print it");
  command.add_flag("--all", options.all, "Tell about every finding");
  add_value(command, "--format", options.format, "FORMAT", "text, json or markdown; default text");
  command.footer(help_text("explain.help"));
}

}  // namespace

std::string finding_ids() {
  std::string ids;
  for (const FindingInfo& info : findings()) ids += (ids.empty() ? "" : ", ") + std::string(name(info.kind));
  return fmt::format("{}", fmt::join(wrap(ids, kFooterWidth), "\n"));
}

void add_explain(CLI::App& program, CommandLine& line) {
  add_command<ExplainArguments>(program, line, "explain", "Tell what a finding means and how to fix it", add_options,
                                run_explain);
}

}  // namespace a2asim
