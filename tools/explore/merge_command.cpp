// a2asim merge: the JSON outputs of all shards of an exploration -> the output of the whole.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "tools/explore/explore_formats.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/explore_page.h"

namespace a2asim {
namespace {

struct MergeArguments {
  std::vector<std::string> files;
  std::optional<std::string> out, report;
  std::string format = "text";
};

struct Part {
  std::string file;
  ExploreReport report;
};

Result<Part> read_part(const std::string& file) {
  const Result<std::string> text = read_text_file(file);
  if (!text) return tl::unexpected(text.error());
  Result<ExploreReport> report = read_explore_json(*text, one_line(file));
  if (!report) return tl::unexpected(report.error());
  if (!report->shard) return unusable(fmt::format("'{}' is no shard: it was made without --shard", one_line(file)));
  return Part{one_line(file), std::move(*report)};
}

Result<void> add_part(ExploreReport& whole, const Part& first, const Part& part) {
  const ExploreReport& report = part.report;
  const auto differs = [&](std::string_view what) {
    return unusable(
        fmt::format("'{}' and '{}' belong to different explorations: {} differs", first.file, part.file, what));
  };
  if (report.shard->of != first.report.shard->of) return differs("the number of shards");
  if (report.engine != first.report.engine) return differs("the engine");
  if (report.rule != first.report.rule) return differs("the rule (--rule-cmd or the checkout)");
  if (report.budget_cases != first.report.budget_cases) return differs("--budget");
  if (report.generations.size() != whole.generations.size()) return differs("the versions");
  for (std::size_t i = 0; i < whole.generations.size(); ++i)
    if (const auto added = add(whole.generations[i], report.generations[i]); !added)
      return unusable(fmt::format("'{}' and '{}' belong to different explorations: {}", first.file, part.file,
                                  added.error().message));
  return {};
}

std::int64_t index_of(const Part& part) { return part.report.shard->index; }

// Every shard once; `parts` are in the order of their indices.
Result<void> check_complete(const std::vector<Part>& parts) {
  const std::int64_t of = parts.front().report.shard->of;
  const auto twice = std::ranges::adjacent_find(parts, {}, index_of);
  if (twice != parts.end())
    return unusable(fmt::format("'{}' and '{}' are the same shard {}/{}", twice->file, std::next(twice)->file,
                                index_of(*twice), of));
  constexpr std::size_t kNamed = 20;
  std::vector<std::string> missing;
  auto next = parts.begin();
  for (std::int64_t index = 0; index < of && missing.size() <= kNamed; ++index)
    if (next != parts.end() && index_of(*next) == index)
      ++next;
    else
      missing.push_back(fmt::format("{}/{}", index, of));
  if (missing.empty()) return {};
  const std::string more = missing.size() > kNamed ? ", .." : "";
  if (!more.empty()) missing.pop_back();
  const bool one = missing.size() == 1;
  return unusable(fmt::format("{} {}{} {} missing: run each again alone with --shard, and give the outputs of all {}",
                              one ? "shard" : "shards", fmt::join(missing, ", "), more, one ? "is" : "are", of));
}

Result<int> run_merge(const MergeArguments& options, const CommandLine&, Io& io) {
  if (options.files.empty())
    return unusable("no shards: name the JSON outputs of `a2asim explore --shard I/N --format json`");
  std::vector<Part> parts;
  for (const std::string& file : options.files) {
    Result<Part> part = read_part(file);
    if (!part) return tl::unexpected(part.error());
    parts.push_back(std::move(*part));
  }
  std::ranges::sort(parts, {}, index_of);
  ExploreReport whole = parts.front().report;
  whole.shard.reset();
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (auto added = add_part(whole, parts.front(), parts[i]); !added) return tl::unexpected(added.error());
  if (auto complete = check_complete(parts); !complete) return tl::unexpected(complete.error());
  const std::string html = options.report ? explore_page(whole, {}) : "";
  return deliver(whole, {options.format, options.out, options.report, html, options.files}, io);
}

void add_options(CLI::App& command, MergeArguments& options) {
  add_value(command, "files", options.files, "SHARD.json",
            "Outputs of `explore --shard I/N --format json`, all N of them");
  add_value(command, "--out", options.out, "DIR",
            "Write the example batch of each bad cell as a scenario for `replay`");
  add_value(command, "--report", options.report, "OUT.html",
            "Write one HTML page: the matrix, and each example batch with its replay");
  add_value(command, "--format", options.format, "FORMAT", "text, json or sarif; default text");
  command.footer(help_text("merge.help"));
}

}  // namespace

void add_merge(CLI::App& program, CommandLine& line) {
  add_command<MergeArguments>(program, line, "merge", "Add up the shards of an exploration", add_options, run_merge);
}

}  // namespace a2asim
