// a2asim explore: a bounded space of configurations and batches, walked in order of size.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "model/step/engine.h"
#include "tools/conform/conform.h"
#include "tools/explore/explore_formats.h"
#include "tools/explore/shard.h"
#include "tools/program/commands.h"
#include "tools/program/engine_process.h"
#include "tools/program/input.h"
#include "tools/program/output.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/program/version_options.h"
#include "tools/report/explore_page.h"

namespace a2asim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostSeconds = 1'000'000;

struct ExploreArguments {
  VersionChoice version;
  std::optional<std::string> rule_cmd, source, budget, shard, threads, out, report;
  std::string format = "text";
};

Result<std::size_t> generation_index(const Engine& engine, const std::string& text) {
  const Result<VersionMatch> match = find_version(engine, {std::string(engine.name), text});
  if (!match) return tl::unexpected(match.error());
  const std::vector<const Version*> versions = engine.versions();
  const auto same = [&](const Version* version) { return version->name == match->version->name; };
  return static_cast<std::size_t>(std::ranges::find_if(versions, same) - versions.begin());
}

// "GEN", "GEN..GEN" (oldest first) or "all".
Result<std::vector<const Version*>> chosen_generations(const VersionChoice& choice) {
  const std::string wanted = choice.is_given() ? choice.text : "newest";
  const Engine& engine = engine_of(choice);
  const std::vector<const Version*> all = engine.versions();
  if (wanted == "all") return all;
  const std::size_t dots = wanted.find("..");
  const Result<std::size_t> first = generation_index(engine, wanted.substr(0, dots));
  if (!first) return tl::unexpected(first.error());
  const Result<std::size_t> last =
      dots == std::string::npos ? first : generation_index(engine, wanted.substr(dots + 2));
  if (!last) return tl::unexpected(last.error());
  if (*last < *first)
    return unusable(
        fmt::format("{} '{}': the older version comes first", version_option(engine), one_line(wanted, 60)));
  return std::vector(all.begin() + static_cast<std::ptrdiff_t>(*first),
                     all.begin() + static_cast<std::ptrdiff_t>(*last) + 1);
}

struct Budget {
  std::optional<std::int64_t> cases;
  std::optional<std::chrono::milliseconds> time;
};

// "500", "500cases", "500 cases", "10s", "2m".
Result<Budget> parse_budget(const std::optional<std::string>& text) {
  Budget budget;
  if (!text) return budget;
  const std::size_t digits = std::min(text->find_first_not_of("0123456789"), text->size());
  std::string unit = text->substr(digits);
  unit.erase(0, std::min(unit.find_first_not_of(' '), unit.size()));
  const bool is_time = unit == "s" || unit == "m";
  if (digits == 0 || !(is_time || unit.empty() || unit == "cases" || unit == "case"))
    return unusable(
        fmt::format("--budget takes seconds (10s), minutes (2m) or cases (5000), not '{}'", one_line(*text, 60)));
  const Result<std::int64_t> number =
      parse_count("--budget", text->substr(0, digits), 1, is_time ? kMostSeconds : kMostCases);
  if (!number) return tl::unexpected(number.error());
  if (is_time)
    budget.time = std::chrono::seconds(*number * (unit == "m" ? 60 : 1));
  else
    budget.cases = *number;
  return budget;
}

// Stops at the end of the time or when the rule fails, and shows on a terminal how far it is.
class SearchWatch {
 public:
  SearchWatch(std::optional<std::chrono::milliseconds> time, const EngineProcess* rule, const Caller& caller, Io& io)
      : rule_(rule), caller_(caller), io_(io) {
    if (time) deadline_ = Clock::now() + *time;
  }
  ~SearchWatch() {
    if (shown_) io_.err << "\r\x1b[K" << std::flush;
  }
  SearchWatch(const SearchWatch&) = delete;
  SearchWatch& operator=(const SearchWatch&) = delete;

  bool goes_on() const {
    return !(deadline_ && Clock::now() >= *deadline_) && !(rule_ != nullptr && rule_->failed()) && !is_stopped();
  }
  bool is_stopped() const { return caller_.stopped && caller_.stopped(); }

  bool report(std::string_view generation, std::int64_t done, std::int64_t all) {
    const Clock::time_point now = Clock::now();
    if (io_.err_is_terminal && now - last_ > std::chrono::milliseconds(200)) {
      last_ = now;
      shown_ = true;
      io_.err << fmt::format("\rexploring {}: {} of {} configurations\x1b[K", generation, done, all) << std::flush;
    }
    return goes_on();
  }

 private:
  std::optional<Clock::time_point> deadline_;
  const EngineProcess* rule_;
  const Caller& caller_;
  Io& io_;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

Result<int> run_explore(const ExploreArguments& options, const CommandLine& line, Io& io) {
  if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
  const Result<std::size_t> format = parse_choice("--format", options.format, {"text", "json", "sarif"});
  if (!format) return tl::unexpected(format.error());
  if (const auto known = chosen_generations(options.version); !known) return tl::unexpected(known.error());
  const Result<Budget> budget = parse_budget(options.budget);
  if (!budget) return tl::unexpected(budget.error());
  const auto shard = parse_shard(options.shard, ::getenv);
  if (!shard) return tl::unexpected(shard.error());
  const std::vector<std::string> inputs = given({}, options.rule_cmd);
  if (auto apart = check_outputs({{"--report", options.report}}, inputs); !apart) return tl::unexpected(apart.error());
  const Result<int> threads = parse_threads(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  const auto rule = start_engine({options.rule_cmd, options.source}, line.caller);
  if (!rule) return tl::unexpected(rule.error());
  const Result<VersionChoice> version =
      options.source ? version_beside(**rule, options.version) : Result<VersionChoice>(options.version);
  if (!version) return tl::unexpected(version.error());
  const auto chosen = chosen_generations(*version);
  if (!chosen) return tl::unexpected(chosen.error());

  ExploreReport report;
  report.engine = engine_of(*version).name;
  if (*rule) report.rule = options.source ? (*rule)->shown() : options.rule_cmd.value_or(line.caller.rule_name);
  if (options.source)
    report.answered = answered_by(**rule, chosen->size() == 1 ? chosen->front()->name : "the version");
  report.budget_cases = budget->cases;
  report.shard = *shard;
  {
    SearchWatch watch(budget->time, rule->get(), line.caller, io);
    for (const Version* generation : *chosen) {
      ExploreOptions how;
      if (*rule) how.rule = (*rule)->rule();
      how.budget_cases = watch.goes_on() ? budget->cases : 0;
      how.shard = shard->value_or(Shard{}).index;
      how.shards = shard->value_or(Shard{}).of;
      how.threads = *threads;
      how.on_progress = [&](std::int64_t done, std::int64_t all) { return watch.report(generation->name, done, all); };
      GenerationExploration found = explore(*generation, how);
      if (how.budget_cases == 0) found.stopped_at = 0;
      report.generations.push_back(std::move(found));
    }
    if (watch.is_stopped()) return unusable("stopped");
  }
  if (*rule && (*rule)->failed()) return tl::unexpected(finish_engine(*rule).error());
  const SizingRule own = *rule ? (*rule)->rule() : SizingRule{};
  const std::string html = options.report ? explore_page(report, own) : "";  // its replays may ask the rule
  if (const Result<void> answered = finish_engine(*rule); !answered) return tl::unexpected(answered.error());
  return deliver(report, {options.format, options.out, options.report, html, inputs}, io);
}

void add_options(CLI::App& command, ExploreArguments& options) {
  add_version_options(command, options.version,
                      "A version, a range A..B, or all; default newest, of a checkout the nearest");
  add_engine_option(command, options.version);
  add_engine_options(command, options.rule_cmd, options.source);
  add_value(command, "--budget", options.budget, "10s|N", "Stop after 10s, 2m, or a number of cases of each version");
  add_value(command, "--shard", options.shard, "I/N|auto",
            "Explore one part of N; auto: as a Slurm array, Kubernetes indexed Job or mpirun says; see `merge`");
  add_value(command, "--threads", options.threads, "N", "Threads; the result does not depend on it; default all cores");
  add_value(command, "--out", options.out, "DIR",
            "Write the example batch of each bad cell as a scenario for `replay`");
  add_value(command, "--report", options.report, "OUT.html",
            "Write one HTML page: the matrix, and each example batch with its replay");
  add_value(command, "--format", options.format, "FORMAT", "text, json or sarif; default text");
  command.footer(help_text("explore.help"));
}

}  // namespace

void add_explore(CLI::App& program, CommandLine& line) {
  add_command<ExploreArguments>(program, line, "explore", "Search all small configurations and batches for trouble",
                                add_options, run_explore);
}

}  // namespace a2asim
