// a2asim check: from launch commands, files and folders to verdicts.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>

#include "model/base/one_line.h"
#include "model/check/nodes.h"
#include "model/launch/launch_file.h"
#include "model/step/engine.h"
#include "tools/check/acceptance.h"
#include "tools/check/check_formats.h"
#include "tools/check/edit.h"
#include "tools/check/releases.h"
#include "tools/check/server_check.h"
#include "tools/conform/conform.h"
#include "tools/program/commands.h"
#include "tools/program/engine_process.h"
#include "tools/program/input.h"
#include "tools/program/output.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/check_page.h"
#include "tools/report/page.h"

namespace a2asim {
namespace {

struct CheckArguments : ServerOptions {
  std::optional<std::string> rule_cmd, source, report, baseline;
  std::vector<std::string> paths, files;
  std::string format = "text";
  const EngineProcess* outside = nullptr;  // whose rule it is
  bool verbose = false, strict = false, quiet = false, notes = false, diff = false, fix = false, together = false;
};

// One run over all servers of all texts.
struct Run {
  const CheckArguments& options;
  const LaunchPaths& launches;
  SettingsFiles& settings;
  Baseline baseline;
  std::vector<CheckedServer> servers = {};
  std::vector<PreparedServer> prepared = {};  // this and the next: of those that were decided
  std::vector<JudgedServer> judged = {};
  // Between the commands, with --together: a server's place in `servers`, and what it says differently.
  std::optional<std::vector<std::pair<std::size_t, CheckFinding>>> differences = {};
  std::string page = {};
};

// Paths, words or standard input; without any, the paths of a2asim.toml.
Result<LaunchPaths> launch_paths(const CheckArguments& options, const CommandLine& line, const Io& io,
                                 SettingsFiles& files) {
  LaunchPaths out;
  out.paths = options.paths;
  out.paths.insert(out.paths.end(), options.files.begin(), options.files.end());
  if (line.after_dashes && !out.paths.empty())
    return unusable(fmt::format("two launch commands: one after `--`, one in {}; give one of them",
                                one_line(out.paths.front(), 60)));
  if (line.after_dashes) out.words = line.after_dashes;
  if (auto added = add_environment(options.env, out.env); !added) return tl::unexpected(added.error());
  if (line.after_dashes) return out;
  if (out.paths.empty() && io.in_is_terminal) {
    const Result<Settings> here = files.of("");
    if (!here) return tl::unexpected(here.error());
    const std::string folder = here->file.substr(0, here->file.rfind('/') + 1);
    for (const std::string& path : here->paths) out.paths.push_back(path.starts_with('/') ? path : folder + path);
  }
  for (const std::string& path : out.paths) {
    const Result<Settings> settings = files.of(path);
    if (!settings) return tl::unexpected(settings.error());
    for (const std::string& pattern : settings->excluded) {
      out.excluded.push_back(pattern);
      out.excluded.push_back("**/" + pattern);
    }
  }
  return out;
}

std::vector<LaunchedServer> servers_of(const std::string& text, const Environment& env) {
  return find_servers_in_file(text, env).value_or(std::vector<LaunchedServer>{});
}

Spellings spellings_of(const PreparedServer& prepared) {
  const Engine& engine = *prepared.engine;
  const Version& version = prepared.version();
  return [&engine, &version](std::string_view flag) {
    return engine.spellings == nullptr ? std::vector<std::string>{} : engine.spellings(version, flag);
  };
}

FindingPlace place_in(const std::string& text, TextRange range) {
  const LineColumn begin = line_column(text, range.begin), end = line_column(text, range.end);
  return {begin.line, begin.column, end.line, end.column, std::nullopt};
}

// The text with the fix. Read again with the files of options beside it, it must start just that: a key in one of them
// may win over what stands here.
Result<std::string> edited(const LaunchText& text, std::size_t at, const Fix& fix, const Run& run,
                           const PreparedServer& prepared) {
  auto out = edited_text(text, at, fix, spellings_of(prepared), run.launches.env);
  const auto wanted = out ? with_fix(prepared, fix) : std::nullopt;
  if (!wanted) return out;
  LaunchText now = text;
  now.servers = servers_of(*out, run.launches.env);
  const Result<PreparedServer> is = prepare_server(run.options, run.settings, now, now.servers[at]);
  if (is && same_words(is->server.command.argv, wanted->server.command.argv)) return out;
  return unusable(
      fmt::format("'{}' is left to you: a file of options beside the launch says otherwise", in_words(fix)));
}

// Tries the fixes of what is wrong, and looks for their words in the text.
void add_fixes(const LaunchText& text, std::size_t at, const Run& run, const PreparedServer& prepared,
               CheckedServer& out) {
  const Spellings spellings = spellings_of(prepared);
  const std::vector<CheckFinding>& findings = out.report.findings;
  out.fixes.resize(findings.size()), out.words.resize(findings.size());
  for (std::size_t number = 0; number < findings.size(); ++number) {
    if (findings[number].severity == Severity::note) continue;
    out.fixes[number] = try_fixes(prepared, out.report, findings[number]);
    for (TriedFix& tried : out.fixes[number]) {
      for (const FixStep& step : tried.fix.steps)
        if (const auto words = place_of(text, at, step, spellings); words && out.words[number].line == 0)
          out.words[number] = place_in(text.text, *words);
      const auto changed = tried.cures ? edited(text, at, tried.fix, run, prepared) : unusable("");
      if (!changed) continue;
      Replacement change = replacement_of(text.text, *changed);
      tried.edit = place_in(text.text, change.range);
      tried.edit.inserted = std::move(change.text);
    }
  }
}

std::string page_of(const PreparedServer& prepared, const CheckedServer& checked, const JudgedServer& judged) {
  const DeployedCommand& deployed = judged.deployed;
  CheckForPage page{judged.report, print(deployed.launch), deployed.model, std::nullopt, prepared.how.rule};
  page.place = fmt::format("{} · {} {} ({})", place_words(checked), prepared.engine->title,
                           name_of_state(prepared.version()), checked.version_reason);
  for (std::size_t at = 0; at < checked.fixes.size() && page.fixes.empty(); ++at)
    for (const TriedFix& tried : checked.fixes[at]) {
      if (tried.verdict && !tried.cures) continue;
      const auto changed = with_fix(prepared, tried.fix);
      page.fixes.push_back({tried, changed ? print(changed->server.command) : ""});
    }
  page.witness = witness_scenario(judged.report, deployed.launch.argv, deployed.launch.env.values(), deployed.model);
  if (!prepared.how.rule)  // a rule of one's own is that of no release
    page.releases = release_rows(prepared, std::nullopt).value_or(std::vector<ReleaseRow>{});
  return check_page(page);
}

// The verdict on one server, without its fixes.
Result<CheckedServer> decide(const LaunchText& text, std::size_t at, Run& run) {
  const LaunchedServer& server = text.servers[at];
  CheckedServer out{{}, server.name, server.line, server.condition, text.source};
  out.is_alternative = server.is_alternative;
  Result<PreparedServer> prepared = prepare_server(run.options, run.settings, text, server);
  if (!prepared) return tl::unexpected(prepared.error());
  Result<JudgedServer> judged = judge_server(*prepared);
  if (!judged) return tl::unexpected(judged.error());
  out.version_reason = prepared->version_reason;
  run.prepared.push_back(std::move(*prepared));
  run.judged.push_back(std::move(*judged));
  return out;
}

// What the commands say differently; all of them start one deployment.
Result<void> compare_servers(Run& run) {
  if (run.servers.size() < 2)
    return unusable("--together compares the commands of several nodes: give two commands or more");
  std::vector<NodeCommand> nodes;
  for (std::size_t at = 0; at < run.prepared.size(); ++at) {
    const PreparedServer &first = run.prepared.front(), &own = run.prepared[at];
    const auto name_of_node = [](const PreparedServer& one) {
      return fmt::format("{} {}", one.engine->title, one.version().name);
    };
    if (first.engine != own.engine || first.how.version.version != own.how.version.version)
      return unusable(
          fmt::format("--together: the commands start {} and {}; nodes of one deployment run one version: "
                      "name it with --{}",
                      name_of_node(first), name_of_node(own), first.engine->name));
    if (run.judged[at].deployed.deployment)
      nodes.push_back({run.judged[at].deployed.deployment.get(), &run.judged[at].report});
  }
  if (nodes.size() < run.servers.size()) return {};  // some are refused, or not decided: that is the answer
  std::vector<std::vector<CheckFinding>> before;
  for (const NodeCommand& node : nodes) before.push_back(node.report->findings);
  check_nodes(nodes);
  run.differences.emplace();
  for (std::size_t at = 0; at < nodes.size(); ++at)
    for (const CheckFinding& finding : nodes[at].report->findings) {
      const auto same = [&](const CheckFinding& one) { return one.message == finding.message; };
      if (finding.severity != Severity::note && std::ranges::none_of(before[at], same))
        run.differences->emplace_back(at, finding);
    }
  return {};
}

std::string differences_as_text(const Run& run) {
  if (run.differences->empty()) return "Together: the commands describe one deployment.\n";
  std::string out = fmt::format("Together: {} between the commands\n", counted(run.differences->size(), "difference"));
  for (const auto& [at, finding] : *run.differences)
    for (const auto& [label, words] : {std::pair(place_words(run.servers[at]), finding.message),
                                       {"  does", finding.consequence},
                                       {"  fix", finding.fix}})
      for (const std::string& line : wrap(fmt::format("{}: {}", label, words), 98, 4)) out += "  " + line + '\n';
  return out;
}

// What does not count, fixes, and the page of the worst server.
Result<void> finish_server(const LaunchText& text, std::size_t at, std::size_t number, Run& run, CheckedServer& out) {
  const PreparedServer& prepared = run.prepared[number];
  JudgedServer& judged = run.judged[number];
  out.report = judged.report;
  if (prepared.how.rule) {
    CheckFinding note;
    note.kind = FindingKind::rule;
    note.message = answered_by(*run.options.outside, prepared.version().name);
    out.report.findings.push_back(std::move(note));
  }
  if (auto marked = mark_ignored(text, prepared, run.baseline, out); !marked) return marked;
  add_fixes(text, at, run, prepared, out);
  return {};
}

Result<void> check_texts(const std::vector<LaunchText>& texts, Run& run) {
  for (const LaunchText& text : texts) {
    for (std::size_t at = 0; at < text.servers.size(); ++at) {
      const LaunchedServer& server = text.servers[at];
      Result<CheckedServer> checked = decide(text, at, run);
      run.servers.push_back(
          checked ? std::move(*checked)
                  : CheckedServer{{}, server.name, server.line, server.condition, text.source, "", checked.error()});
    }
    if (text.error) run.servers.push_back({{}, "", 0, "", text.source, "", text.error});
  }
  if (run.options.together)
    if (auto compared = compare_servers(run); !compared) return compared;
  std::size_t place = 0, number = 0, worst = 0;
  std::optional<std::size_t> paged;
  for (const LaunchText& text : texts) {
    for (std::size_t at = 0; at < text.servers.size(); ++at, ++place) {
      CheckedServer& server = run.servers[place];
      if (server.undecided) continue;
      if (auto finished = finish_server(text, at, number, run, server); !finished) return finished;
      const auto so_far = std::span(run.servers).first(place + 1);
      if (!paged || worst_verdict(so_far) != worst_verdict(so_far.first(place))) paged = place, worst = number;
      ++number;
    }
    place += text.error ? 1 : 0;
  }
  if (run.options.report && paged) run.page = page_of(run.prepared[worst], run.servers[*paged], run.judged[worst]);
  return {};
}

// Each text with the first fix of each of its servers, as a diff and, with --fix, in its file.
Result<void> print_edits(const std::vector<LaunchText>& texts, const Run& run, bool strict, Io& io) {
  std::size_t decided = 0, server_at = 0;
  for (const LaunchText& text : texts) {
    LaunchText now = text;
    const bool has_text = text.source.kind == CommandSource::Kind::file || !text.text.empty();
    for (std::size_t at = 0; at < text.servers.size(); ++at, ++server_at) {
      const CheckedServer& checked = run.servers[server_at];
      if (checked.undecided) continue;
      const PreparedServer& prepared = run.prepared[decided++];
      std::string why = "no fix is known that cures it";
      bool done = !checked.has_problem(strict);
      for (std::size_t number = 0; number < checked.fixes.size() && !done; ++number) {
        const bool is_wrong = strict || checked.report.findings[number].severity == Severity::error;
        for (const TriedFix& tried : checked.fixes[number]) {
          if (done || !is_wrong || !checked.counts(number) || !tried.cures) continue;
          if (!has_text) {
            LaunchCommand before = prepared.server.command, after = before;
            if (!apply(tried.fix, after, spellings_of(prepared))) continue;
            io.out << unified_diff("command", print(before) + "\n", print(after) + "\n");
            done = true;
            continue;
          }
          auto changed = edited(now, at, tried.fix, run, prepared);
          if (!changed) {
            why = changed.error().message;
            continue;
          }
          done = true;
          now.text = std::move(*changed);
          now.servers = servers_of(now.text, run.launches.env);
        }
      }
      if (!done) io.err << fmt::format("a2asim check: {}: not edited: {}\n", place_words(checked), one_line(why, 300));
    }
    server_at += text.error ? 1 : 0;
    if (!has_text || now.text == text.text) continue;
    io.out << unified_diff(in_words(text.source), text.text, now.text);
    if (!run.options.fix) continue;
    if (text.source.kind != CommandSource::Kind::file) return unusable("--fix edits files: give a path, or use --diff");
    if (auto written = write_output("--fix", text.source.path, now.text); !written) return written;
    io.err << fmt::format("a2asim check: --fix wrote {}; check it again\n", one_line(text.source.path));
  }
  return {};
}

// What stopped servers is said on standard error, too; one alone is the answer.
Result<int> exit_code(const Run& run, bool strict, Io& io) {
  const std::span<const CheckedServer> servers = run.servers;
  bool undecided = false;
  for (const CheckedServer& server : servers)
    if (server.undecided) {
      undecided = true;
      io.err << fmt::format("a2asim check: {}: {}\n", place_words(server), one_line(server.undecided->message, 1000));
    }
  if (undecided) return kUnusableInput;
  const auto is_wrong = [&](const CheckedServer& server) { return server.has_problem(strict); };
  return std::ranges::any_of(servers, is_wrong) ? kErrorFound : kNothingWrong;
}

// A version of an engine that starts nothing here was meant for something else.
Result<void> require_versions_used(const Run& run) {
  for (const auto& [engine, version] : run.options.versions) {
    const auto is_its = [&](const PreparedServer& one) { return one.engine->name == engine; };
    if (version && !run.prepared.empty() && std::ranges::none_of(run.prepared, is_its))
      return unusable(fmt::format("--{} names a version of another engine: the command starts a server of {}", engine,
                                  run.prepared.front().engine->title));
  }
  return {};
}

Result<bool> is_strict(const CheckArguments& options, SettingsFiles& files, const std::vector<LaunchText>& texts) {
  if (options.strict || texts.empty()) return options.strict;
  const Result<Settings> settings = files.of(texts.front().source.path);
  if (!settings) return tl::unexpected(settings.error());
  return settings->strict.value_or(false);
}

Result<int> print_run(const std::vector<LaunchText>& texts, Run& run, bool strict, std::size_t format, Io& io) {
  const CheckArguments& options = run.options;
  const std::span<const CheckedServer> servers = run.servers;
  if (servers.size() == 1 && servers.front().undecided) return tl::unexpected(*servers.front().undecided);
  if (options.report)
    if (auto written = write_page(*options.report, run.page); !written) return tl::unexpected(written.error());
  if (options.diff || options.fix) {
    if (auto printed = print_edits(texts, run, strict, io); !printed) return tl::unexpected(printed.error());
    return exit_code(run, strict, io);
  }
  switch (format) {
    case 0:
      io.out << check_as_text(servers, {options.verbose, io.colour, options.quiet, strict});
      if (run.differences && !options.quiet) io.out << differences_as_text(run);
      break;
    case 1:
      io.out << check_as_json(servers, run.differences ? std::optional(std::ssize(*run.differences)) : std::nullopt);
      break;
    case 2:
      io.out << check_as_sarif(servers, options.notes);
      break;
    case 3:
      io.out << check_as_github(servers, strict);
      break;
    default:
      io.out << check_as_junit(servers, strict);
  }
  return exit_code(run, strict, io);
}

Result<int> run_check(const CheckArguments& given, const CommandLine& line, Io& io) {
  const Result<std::size_t> format =
      parse_choice("--format", given.format, {"text", "json", "sarif", "github", "junit"});
  if (!format) return tl::unexpected(format.error());
  SettingsFiles files;
  const Result<LaunchPaths> launches = launch_paths(given, line, io, files);
  if (!launches) return tl::unexpected(launches.error());
  const Result<std::vector<LaunchText>> texts = read_launches(*launches, io);
  if (!texts) return tl::unexpected(texts.error());
  if (texts->empty()) return unusable("no file of the paths starts a server that is known here");
  std::vector<std::string> inputs = a2asim::given({given.shape.model_config, given.baseline}, given.rule_cmd);
  for (const LaunchText& text : *texts)
    inputs.push_back(text.source.kind == CommandSource::Kind::file ? text.source.path : "-");
  if (auto apart = check_outputs({{"--report", given.report}}, inputs); !apart) return tl::unexpected(apart.error());
  CheckArguments options = given;
  if (given.source && is_range(options))
    return unusable(source_option() + " is one version: name one version beside it, or none");
  const Result<std::unique_ptr<EngineProcess>> rule = start_engine({given.rule_cmd, given.source}, line.caller);
  if (!rule) return tl::unexpected(rule.error());
  if (*rule) {
    options.rule = (*rule)->rule();
    options.outside = rule->get();
  }
  if (given.source) {
    const auto named = options.versions.find(engine_questions().engine);
    const bool is_named = named != options.versions.end() && named->second;
    Result<VersionChoice> beside =
        version_beside(**rule, is_named ? VersionChoice{named->first, *named->second} : VersionChoice{});
    if (!beside) return tl::unexpected(beside.error());
    options.rule_version = std::move(*beside);
  }
  if (options.together && is_range(options))
    return unusable("--together compares commands of one version: name one, not a range");
  if (is_range(options)) return check_releases(options, files, *texts, {options.format, options.report}, io);
  Result<Baseline> baseline = options.baseline ? read_baseline(*options.baseline) : Baseline{};
  if (!baseline) return tl::unexpected(baseline.error());
  Run run{options, *launches, files, std::move(*baseline)};
  if (auto checked = check_texts(*texts, run); !checked) return tl::unexpected(checked.error());
  if (const Result<void> answered = finish_engine(*rule); !answered) return tl::unexpected(answered.error());
  if (auto used = require_versions_used(run); !used) return tl::unexpected(used.error());
  const Result<bool> strict = is_strict(options, files, *texts);
  if (!strict) return tl::unexpected(strict.error());
  return print_run(*texts, run, *strict, *format, io);
}

void add_options(CLI::App& command, CheckArguments& options) {
  add_value(command, "paths", options.paths, "PATH", "Files, folders and patterns; - is standard input");
  add_server_options(command, options);
  add_engine_options(command, options.rule_cmd, options.source);
  add_value(command, "--file", options.files, "FILE", "The same as PATH")->allow_extra_args(false);
  add_value(command, "--report", options.report, "OUT.html",
            "Write one HTML page: the verdict, the fix, the batch that shows it, replayed");
  add_value(command, "--format", options.format, "FORMAT", "text, json, sarif, github or junit; default text");
  command.add_flag("--verbose", options.verbose, "Text: every finding in full, longer than a screen");
  command.add_flag("--quiet", options.quiet, "Text: only what is wrong");
  command.add_flag("--together", options.together,
                   "The commands start one deployment, one on each node: what they say differently is a finding");
  command.add_flag("--strict", options.strict, "Warnings count as errors");
  command.add_flag("--notes", options.notes, "SARIF: notes, too");
  add_value(command, "--baseline", options.baseline, "FILE",
            "Findings of this earlier JSON or SARIF output do not count");
  command.add_flag("--diff", options.diff, "Print the first fix that cures as a unified diff");
  command.add_flag("--fix", options.fix, "Write it into the file, where its words stand exactly once");
  command.footer(help_text("check.help", {{"findings", finding_ids()}}));
}

}  // namespace

void add_check(CLI::App& program, CommandLine& line) {
  add_command<CheckArguments>(program, line, "check", "From launch commands, files and folders to verdicts",
                              add_options, run_check);
}

}  // namespace a2asim
