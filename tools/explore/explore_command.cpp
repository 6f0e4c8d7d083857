// a2asim explore: a bounded space of configurations and batches, walked in order of size.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "model/step/engine.h"
#include "tools/explore/explore_formats.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/output.h"
#include "tools/program/rule_process.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/program/version_options.h"
#include "tools/report/explore_page.h"

namespace a2asim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostSeconds = 1'000'000;

struct Options {
  VersionChoice version;
  std::optional<std::string> rule_cmd, budget, shard, threads, out, report;
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

// "I/N": counted from 0 or from 1, for 0 and N name the same shard.
Result<std::optional<Shard>> parse_shard(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const std::size_t slash = text->find('/');
  if (slash == std::string::npos)
    return unusable(fmt::format("--shard takes I/N, such as 1/4, not '{}'", one_line(*text, 60)));
  const Result<std::int64_t> of = parse_count("--shard, after the slash", text->substr(slash + 1), 1, kMostShards);
  if (!of) return tl::unexpected(of.error());
  const Result<std::int64_t> index = parse_count("--shard, before the slash", text->substr(0, slash), 0, *of);
  if (!index) return tl::unexpected(index.error());
  return Shard{*index % *of, *of};
}

// Stops at the end of the time or when the rule fails, and shows on a terminal how far it is.
class Watch {
 public:
  Watch(std::optional<std::chrono::milliseconds> time, const RuleProcess* rule, const Caller& caller, Io& io)
      : rule_(rule), caller_(caller), io_(io) {
    if (time) deadline_ = Clock::now() + *time;
  }
  ~Watch() {
    if (shown_) io_.err << "\r\x1b[K" << std::flush;
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

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
  const RuleProcess* rule_;
  const Caller& caller_;
  Io& io_;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

Result<int> run_explore(const Options& options, const CommandLine& line, Io& io) {
  if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
  const Result<std::size_t> format = parse_choice("--format", options.format, {"text", "json", "sarif"});
  if (!format) return tl::unexpected(format.error());
  const auto chosen = chosen_generations(options.version);
  if (!chosen) return tl::unexpected(chosen.error());
  const Result<Budget> budget = parse_budget(options.budget);
  if (!budget) return tl::unexpected(budget.error());
  const auto shard = parse_shard(options.shard);
  if (!shard) return tl::unexpected(shard.error());
  const std::vector<std::string> inputs = given({}, options.rule_cmd);
  if (auto apart = check_outputs({{"--report", options.report}}, inputs); !apart) return tl::unexpected(apart.error());
  const Result<int> threads = parse_threads(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  const auto rule = start_rule(options.rule_cmd, line.caller);
  if (!rule) return tl::unexpected(rule.error());

  ExploreReport report;
  report.engine = engine_of(options.version).name;
  if (*rule) report.rule = options.rule_cmd.value_or(line.caller.rule_name);
  report.budget_cases = budget->cases;
  report.shard = *shard;
  {
    Watch watch(budget->time, rule->get(), line.caller, io);
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
  if (*rule && (*rule)->failed()) return tl::unexpected(finish_rule(*rule).error());
  const SizingRule own = *rule ? (*rule)->rule() : SizingRule{};
  const std::string html = options.report ? explore_page(report, own) : "";  // its replays may ask the rule
  if (const Result<void> answered = finish_rule(*rule); !answered) return tl::unexpected(answered.error());
  return deliver(report, {options.format, options.out, options.report, html, inputs}, io);
}

void add_options(CLI::App& command, Options& options) {
  add_version_options(command, options.version, "A version, a range A..B, or all; default newest");
  add_value(command, "--rule-cmd", options.rule_cmd, "\"PROGRAM ARGS\"", kRuleCommandAbout);
  add_value(command, "--budget", options.budget, "10s|N", "Stop after 10s, 2m, or a number of cases of each version");
  add_value(command, "--shard", options.shard, "I/N", "Explore one part of N; `merge` adds the JSON outputs up");
  add_value(command, "--threads", options.threads, "N", "Threads; the result does not depend on it; default all cores");
  add_value(command, "--out", options.out, "DIR", "Write the witness of each bad cell as a scenario for `replay`");
  add_value(command, "--report", options.report, "OUT.html",
            "Write one HTML page: the matrix, and each witness with its replay");
  add_value(command, "--format", options.format, "FORMAT", "text, json or sarif; default text");
  command.footer(help_text("explore.help"));
}

}  // namespace

void add_explore(CLI::App& program, CommandLine& line) {
  add_command<Options>(program, line, "explore", "Search all small configurations and batches for trouble", add_options,
                       run_explore);
}

}  // namespace a2asim
