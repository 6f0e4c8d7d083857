// a2asim replay: from scenario files to what happened.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>

#include "model/launch/launch_file.h"
#include "sim/alltoall/parallel.h"
#include "sim/cluster/replay.h"
#include "sim/cluster/trace.h"
#include "sim/scenario/scenario_reader.h"
#include "tools/program/commands.h"
#include "tools/program/engine_process.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/output.h"
#include "tools/program/progress_line.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/program/version_options.h"
#include "tools/replay/replay_formats.h"
#include "tools/report/replay_page.h"

namespace a2asim {
namespace {

struct ReplayArguments {
  std::vector<std::string> files;
  std::string fidelity = "numeric";
  VersionChoice version;
  std::optional<std::string> seed, trace, report, rule_cmd, source, threads;
  std::string format = "text";
  bool digest = false;
  bool verbose = false;
};

bool is_good(const ReplayForPage& run) {
  return run.expectation ? run.expectation->differs.empty() : !run.report.has_error();
}

Result<ReplayOptions> replay_options(const ReplayArguments& options) {
  const Result<std::size_t> fidelity = parse_choice(
      "--fidelity", options.fidelity, {name(Fidelity::geometry), name(Fidelity::provenance), name(Fidelity::numeric)});
  if (!fidelity) return tl::unexpected(fidelity.error());
  ReplayOptions out;
  out.fidelity = static_cast<Fidelity>(*fidelity);
  out.version = options.version;
  if (options.seed) {
    const Result<std::uint64_t> seed = parse_seed(*options.seed);
    if (!seed) return tl::unexpected(seed.error());
    out.seed = *seed;
  }
  return out;
}

void show_progress(ReplayOptions& options, ProgressLine& line, const std::string& file) {
  options.progress = [&line, stopped = std::move(options.progress),
                      name = one_line(file)](const ReplayProgress& progress) {
    line.show([&] { return progress_words(name, progress); });
    return !stopped || stopped(progress);
  };
}

// What is no scenario may be a launch, which another command takes.
std::optional<Error> as_launch(const std::string& file) {
  const Result<std::string> text = read_text_file(file);
  if (!text || !find_servers_in_file(*text)) return std::nullopt;
  return Error{ErrorKind::bad_input,
               fmt::format("{}: this is a launch, not a scenario: run it with 'a2asim check --file {}'", one_line(file),
                           one_line(file))};
}

// drawing_bytes: how much of a page's drawings this file may take; 0: there is no page.
Result<ReplayForPage> replay_file(const std::string& file, const ReplayOptions& options, std::int64_t drawing_bytes) {
  Result<Scenario> scenario = load_scenario(file);
  if (!scenario) return tl::unexpected(as_launch(file).value_or(scenario.error()));
  Result<ReplayForPage> run = replay_for_page(std::move(*scenario), file, options, drawing_bytes);
  if (run && run->scenario.expect && !options.version.is_given())
    run->expectation = Expectation{*run->scenario.expect, differs_from(*run->scenario.expect, run->report)};
  return run;
}

// In the order of the files, whichever thread ran which; of several that cannot be used, the first is named.
Result<std::vector<ReplayForPage>> replay_files(const ReplayArguments& options, ReplayOptions with, int threads,
                                                const Caller& caller, Io& io) {
  const std::size_t count = options.files.size();
  ProgressLine line(io.err);
  const auto is_stopped = [&caller] { return caller.stopped && caller.stopped(); };
  with.progress = [&](const ReplayProgress&) { return !is_stopped(); };
  if (io.err_is_terminal && count == 1) show_progress(with, line, options.files.front());
  const std::int64_t share_bytes = kDrawingLimit_bytes / static_cast<std::int64_t>(count);
  const std::int64_t drawing_bytes = options.report ? std::max<std::int64_t>(share_bytes, 1) : 0;
  std::vector<std::optional<Result<ReplayForPage>>> found(count);
  WorkList list(count);
  std::mutex terminal;
  std::size_t done = 0;
  run_workers(threads, count, [&] {
    while (const std::optional<std::size_t> file = is_stopped() ? std::nullopt : list.take()) {
      found[*file] = replay_file(options.files[*file], with, drawing_bytes);
      if (!io.err_is_terminal || count == 1) continue;
      const std::lock_guard lock(terminal);
      io.err << (++done == count ? "\r\x1b[K" : fmt::format("\r{} of {} scenarios", done, count)) << std::flush;
    }
  });
  std::vector<ReplayForPage> all;
  for (std::optional<Result<ReplayForPage>>& one : found) {
    if (is_stopped()) return unusable("stopped");
    if (!*one) return tl::unexpected(one->error());
    all.push_back(std::move(**one));
  }
  return all;
}

// "2 with an error, or not as expected: a.yaml, b.yaml"
std::string not_good(const std::vector<ReplayForPage>& all) {
  constexpr std::size_t kMostNamed = 10;
  std::string out;
  std::size_t count = 0;
  for (const ReplayForPage& one : all)
    if (!is_good(one) && ++count <= kMostNamed) out += (out.empty() ? "" : ", ") + one.report.file;
  if (count == 0) return "none with an error, or not as expected";
  return fmt::format("{} with an error, or not as expected: {}{}", count, out,
                     count > kMostNamed ? fmt::format(" and {} more", count - kMostNamed) : "");
}

Result<void> write_trace(const std::string& path, const ReplayReport& report) {
  return write_output("--trace", path, chrome_trace(report));
}

void print_all(const std::vector<ReplayForPage>& all, const ReplayArguments& options, bool as_json, Io& io) {
  if (as_json) {
    nlohmann::ordered_json scenarios = nlohmann::ordered_json::array();
    for (const ReplayForPage& one : all) scenarios.push_back(replay_as_json(one.report, one.expectation));
    io.out << print({{"tool", tool_as_json()}, {"scenarios", std::move(scenarios)}});
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) io.out << '\n';
    io.out << replay_as_text(all[i].report, all[i].expectation, {options.verbose, io.colour, options.digest});
  }
  if (all.size() < 2) return;
  io.out << fmt::format("\n{} scenarios: {}; {}\n", all.size(), verdict_counts(verdicts_of(all)), not_good(all));
}

Result<int> run_replay(const ReplayArguments& options, const CommandLine& line, Io& io) {
  const Result<std::size_t> format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  if (options.files.empty())
    return unusable("no scenario: name one or more files, such as sim/scenarios/collapse.yaml");
  if (options.trace && options.files.size() > 1) return unusable("--trace writes one scenario: name one file");
  std::vector<std::string> inputs = given({}, options.rule_cmd);
  inputs.insert(inputs.end(), options.files.begin(), options.files.end());
  if (auto apart = check_outputs({{"--trace", options.trace}, {"--report", options.report}}, inputs); !apart)
    return tl::unexpected(apart.error());
  Result<ReplayOptions> with = replay_options(options);
  if (!with) return tl::unexpected(with.error());
  const Result<std::unique_ptr<EngineProcess>> rule = start_engine({options.rule_cmd, options.source}, line.caller);
  if (!rule) return tl::unexpected(rule.error());
  if (*rule) with->rule = (*rule)->rule();
  const Result<int> threads = parse_threads(options.threads);
  if (!threads) return tl::unexpected(threads.error());
  Result<std::vector<ReplayForPage>> all = replay_files(options, *with, *threads, line.caller, io);
  if (!all) return tl::unexpected(all.error());
  if (const Result<void> answered = finish_engine(*rule); !answered) return tl::unexpected(answered.error());
  if (options.source)
    for (ReplayForPage& one : *all) one.report.notes.push_back(answered_by(**rule, one.report.generation->name));
  if (options.trace) {
    if (auto ok = write_trace(*options.trace, all->front().report); !ok) return tl::unexpected(ok.error());
  }
  if (options.report) {
    if (auto ok = write_page(*options.report, replay_page(*all)); !ok) return tl::unexpected(ok.error());
  }
  print_all(*all, options, *format == 1, io);
  return std::ranges::all_of(*all, is_good) ? kNothingWrong : kErrorFound;
}

void add_options(CLI::App& command, ReplayArguments& options) {
  add_value(command, "files", options.files, "FILE", "Scenario files, YAML or JSON");
  add_value(command, "--fidelity", options.fidelity, "FIDELITY", "geometry, provenance or numeric; default numeric");
  add_version_options(command, options.version, "Run with this version's rules instead of the file's");
  add_engine_options(command, options.rule_cmd, options.source);
  add_value(command, "--seed", options.seed, "N", "Draw tokens and routing from this seed instead of the file's");
  add_value(command, "--trace", options.trace, "OUT.json", "Write Chrome trace events: one track a rank");
  add_value(command, "--report", options.report, "OUT.html",
            "Write one HTML page: what happened, and the buffers as pictures");
  add_value(command, "--threads", options.threads, "N", "Threads for several files; the result does not depend on it");
  command.add_flag("--digest", options.digest, "Text: a last line with the digest of the whole run");
  add_value(command, "--format", options.format, "FORMAT", "text or json; default text");
  command.add_flag("--verbose", options.verbose, "Text: every step and every finding that was kept");
  command.footer(help_text("replay.help"));
}

}  // namespace

void add_replay(CLI::App& program, CommandLine& line) {
  add_command<ReplayArguments>(program, line, "replay", "Run scenarios on the simulated cluster", add_options,
                               run_replay);
}

}  // namespace a2asim
