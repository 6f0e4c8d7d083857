// a2asim check: from a launch command to a verdict.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "model/check/check.h"
#include "model/check/finding_info.h"
#include "model/launch/launch_file.h"
#include "model/step/engine.h"
#include "tools/check/check_formats.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/model_config.h"
#include "tools/program/rule_process.h"
#include "tools/program/shape_options.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/program/version_options.h"
#include "tools/report/check_page.h"
#include "tools/report/page.h"

namespace a2asim {
namespace {

constexpr double kMostGpuMemory_gib = 1 << 20;

struct Options {
  VersionChoice version;
  std::optional<std::string> engine, gpu_memory, gpu, nvlink_domain, file, rule_cmd, report;
  ShapeOptions shape;
  std::vector<std::string> env;
  std::vector<std::string> stray;  // words without `--` in front
  std::string format = "text";
  bool verbose = false;
};

struct ReadCommand {
  std::vector<LaunchedServer> servers;
  CommandSource source;
};

// Words behind `--`, or one of them that is a whole text.
Result<std::vector<LaunchedServer>> servers_of_words(const std::vector<std::string>& words, const Environment& env) {
  if (words.size() == 1) return find_servers_in_file(words[0], env);
  Result<LaunchCommand> launch = parse_launch_words(words);
  if (!launch) return tl::unexpected(launch.error());
  return std::vector{LaunchedServer{std::move(*launch), 0, "", ""}};
}

Result<ReadCommand> read_command(const Options& options, const CommandLine& line, Io& io) {
  using Kind = CommandSource::Kind;
  if (!options.stray.empty()) {
    return unusable(
        fmt::format("'{}' was not expected: put `--` before the launch command", one_line(options.stray[0], 60)));
  }
  if (line.after_dashes && options.file) {
    return unusable("two launch commands: one after `--`, one in --file; give one of them");
  }
  Environment env;
  if (auto added = add_environment(options.env, env); !added) return tl::unexpected(added.error());
  ReadCommand out;
  Result<std::vector<LaunchedServer>> servers;
  if (line.after_dashes) {
    servers = servers_of_words(*line.after_dashes, env);
  } else {
    const bool from_file = options.file && *options.file != "-";
    out.source = {from_file ? Kind::file : Kind::standard_input, from_file ? *options.file : ""};
    if (!options.file && io.in_is_terminal)
      return unusable("no launch command: give it after `--`, in --file, or on standard input");
    const Result<std::string> text = from_file ? read_text_file(*options.file) : read_standard_input(io);
    if (!text) return tl::unexpected(text.error());
    if (text->find_first_not_of(" \t\r\n") == std::string::npos)
      return unusable(
          fmt::format("no launch command: {} is empty; give the command after `--`, in --file, or on standard input",
                      from_file ? "file '" + one_line(*options.file) + "'" : "standard input"));
    servers = find_servers_in_file(*text, env);
  }
  if (!servers) return tl::unexpected(servers.error());
  out.servers = std::move(*servers);
  return out;
}

std::string name_of(const LaunchedServer& server) {
  return server.name.empty() ? server.line > 0 ? fmt::format("the server of line {}", server.line) : "the server"
                             : fmt::format("server {} (line {})", server.name, server.line);
}

// A verdict on options that nobody read is none.
Result<void> require_all_read(const LaunchedServer& server) {
  if (server.command.unread.empty()) return {};
  return unusable(fmt::format("{} takes options from {}, whose value is not known: set it with --env, or write it out",
                              name_of(server), one_line(server.command.unread.front(), 100)));
}

// Files of options beside the launch.
Result<void> read_config(LaunchedServer& server, const CommandSource& source) {
  constexpr int kMostFiles = 16;
  for (int files = 0; const auto config = find_config(server.command); ++files) {
    const std::size_t slash = source.path.rfind('/');
    const bool is_absolute = config->file.starts_with('/');
    const std::string path =
        is_absolute || slash == std::string::npos ? config->file : source.path.substr(0, slash + 1) + config->file;
    const Result<std::string> text = read_text_file(path);
    if (!text || files == kMostFiles)
      return unusable(fmt::format(
          "{} takes options from {}, which cannot be read here: put the file beside the launch, or give "
          "its options",
          name_of(server), one_line(fmt::format("{} {}", server.command.argv[config->at], config->file), 120)));
    if (auto merged = merge_config(server.command, *config, *text); !merged)
      return unusable(one_line(merged.error().message, 300));
  }
  return {};
}

CheckFinding note(FindingKind kind, std::string message) {
  CheckFinding finding;
  finding.kind = kind;
  finding.message = std::move(message);
  return finding;
}

// argparse itself stops the server: no deployment, but an answer.
CheckReport refused_by_argparse(const Version& version, const LaunchCommand& launch, const Error& error) {
  CheckReport report;
  report.verdict = Verdict::rejected;
  report.generation = &version;
  CheckFinding finding;
  finding.kind = FindingKind::rejected;
  finding.severity = Severity::error;
  finding.message = error.message;
  finding.consequence = finding_info(finding.kind).on_hardware(Situation::usage);
  finding.fix = engine_of(version).fix_for_refused(version, launch.argv);
  report.findings.push_back(std::move(finding));
  return report;
}

CheckFinding as_finding(FindingKind kind, const Note& read) {
  CheckFinding finding = note(kind, read.message);
  if (read.is_warning) finding.severity = Severity::warning;
  return finding;
}

// Everything beside the command: version, environment, shape, memory. The rule is another process, see check().
Result<DeployOptions> deploy_options(const Options& options, const Engine& engine) {
  DeployOptions out;
  const bool is_named = options.version.engine == engine.name;  // else of another server of the text
  Result<VersionMatch> match = find_version(engine, is_named ? options.version : VersionChoice{});
  if (!match) return tl::unexpected(match.error());
  out.version = std::move(*match);
  out.guesses_model = true;
  if (options.gpu) out.gpu_name = *options.gpu;
  if (options.nvlink_domain) {
    const Result<std::int64_t> domain = parse_count("--nvlink-domain", *options.nvlink_domain, 1, 1 << 16);
    if (!domain) return tl::unexpected(domain.error());
    out.nvlink_domain = *domain;
  }
  if (options.gpu_memory) {
    const Result<double> gib =
        parse_positive("--gpu-memory", *options.gpu_memory, "GiB of one GPU", kMostGpuMemory_gib);
    if (!gib) return tl::unexpected(gib.error());
    out.gpu_memory_gib = *gib;
  }
  if (auto added = add_environment(options.env, out.env); !added) return tl::unexpected(added.error());
  const Result<std::optional<ModelShape>> shape = shape_from_options(options.shape);
  if (!shape) return tl::unexpected(shape.error());
  out.model = *shape;
  if (options.shape.model_config) {
    const Result<std::string> text = read_text_file(*options.shape.model_config);
    if (text) out.model_quantization = quantization_from_config_json(*text);
  }
  return out;
}

// How the input was read.
void add_notes(const RuleProcess* rule, const DeployOptions& how, const DeployedCommand& deployed,
               CheckReport& report) {
  const auto add = [&](CheckFinding finding) { report.findings.push_back(std::move(finding)); };
  if (!how.version.note.empty()) add(note(FindingKind::generation, how.version.note));
  if (deployed.guessed) {
    const ModelShape& shape = deployed.guessed->shape;
    add(note(FindingKind::model,
             fmt::format("shape of {} taken from the model's name: {} experts, top_k {}, hidden_size {}",
                         deployed.guessed->name, shape.num_experts, shape.top_k, shape.hidden_size)));
  }
  for (const Note& read : deployed.launch.notes) add(as_finding(FindingKind::launch_command, read));
  for (const Note& read : deployed.argument_notes) add(as_finding(FindingKind::server_args, read));
  if (rule != nullptr)
    add(note(FindingKind::rule,
             fmt::format("the size comes from {}, all else from {}", rule->name(), how.version.version->name)));
  std::ranges::stable_sort(report.findings, {}, &CheckFinding::severity);
}

std::string page_of(const CheckReport& report, const DeployedCommand& deployed, const SizingRule& rule) {
  const std::vector<std::string>& argv = deployed.launch.argv;
  CheckForPage page{report, shell_command(find_engine(deployed.launch), argv), deployed.model, std::nullopt, rule};
  page.witness = witness_scenario(report, argv, deployed.launch.env.values(), deployed.model);
  return check_page(page);
}

// A version that is named must be that of some server's engine.
Result<void> require_engines(const Options& options, const std::vector<LaunchedServer>& servers) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(servers,
                               [&](const LaunchedServer& server) { return find_engine(server.command).name == name; });
  };
  const std::string_view title = find_engine(servers.front().command).title;
  if (options.engine) {
    if (const auto named = find_engine(*options.engine); !named) return unusable("--engine: " + named.error().message);
    if (!has(*options.engine))
      return unusable(fmt::format("--engine {}: the command starts a server of {}", *options.engine, title));
  }
  if (!options.version.text.empty() && !has(options.version.engine))
    return unusable(fmt::format("--{} names a version of another engine: the command starts a server of {}",
                                options.version.engine, title));
  return {};
}

// Where no version is named: that of the container's image.
void take_image(const Options& options, const LaunchedServer& server, const Engine& engine, DeployOptions& how) {
  const std::string& image = server.command.image;
  if (image.empty() || !options.version.text.empty()) return;
  if (auto match = engine.find_version(image)) {
    const std::string_view name = match->version == nullptr ? "newest" : match->version->name;
    match->note = fmt::format("version {} by the image {}{}{}", name, one_line(image, 80),
                              match->note.empty() ? "" : "; ", match->note);
    how.version = std::move(*match);
  }
}

struct Checked {
  std::vector<CheckedServer> servers;
  std::string page;
};

Result<Checked> check(const Options& options, ReadCommand read, const Caller& caller) {
  if (auto ok = require_engines(options, read.servers); !ok) return tl::unexpected(ok.error());
  const Result<std::unique_ptr<RuleProcess>> rule = start_rule(options.rule_cmd, caller);
  if (!rule) return tl::unexpected(rule.error());
  Checked out;
  for (LaunchedServer& server : read.servers) {
    if (auto ok = require_all_read(server); !ok) return tl::unexpected(ok.error());
    if (auto ok = read_config(server, read.source); !ok) return tl::unexpected(ok.error());
    const Engine& engine = find_engine(server.command);
    Result<DeployOptions> how = deploy_options(options, engine);
    if (!how) return tl::unexpected(how.error());
    take_image(options, server, engine, *how);
    if (*rule) how->rule = (*rule)->rule();
    const Result<DeployedCommand> deployed = engine.deploy(server.command, *how);
    if (!deployed)
      return read.servers.size() == 1 ? tl::unexpected(deployed.error())
                                      : unusable(fmt::format("{}: {}", name_of(server), deployed.error().message));
    CheckReport report = deployed->refused
                             ? refused_by_argparse(*how->version.version, server.command, *deployed->refused)
                             : check_deployment(*deployed->deployment);
    add_notes(rule->get(), *how, *deployed, report);
    out.servers.push_back({std::move(report), server.name, server.line, server.condition});
    // The page is the worst server's; making it may ask the rule.
    const Verdict worst = worst_verdict(out.servers);
    if (options.report &&
        (out.page.empty() || (out.servers.back().report.verdict == worst &&
                              worst_verdict(std::span(out.servers).first(out.servers.size() - 1)) != worst)))
      out.page = page_of(out.servers.back().report, *deployed, how->rule);
  }
  if (const Result<void> answered = finish_rule(*rule); !answered) return tl::unexpected(answered.error());
  return out;
}

Result<int> run_check(const Options& options, const CommandLine& line, Io& io) {
  const Result<std::size_t> format = parse_choice("--format", options.format, {"text", "json", "sarif"});
  if (!format) return tl::unexpected(format.error());
  Result<ReadCommand> command = read_command(options, line, io);
  if (!command) return tl::unexpected(command.error());
  const CommandSource source = command->source;
  const Result<Checked> checked = check(options, std::move(*command), line.caller);
  if (!checked) return tl::unexpected(checked.error());
  if (options.report)
    if (auto written = write_page(*options.report, checked->page); !written) return tl::unexpected(written.error());
  const std::span<const CheckedServer> servers = checked->servers;
  io.out << (*format == 0   ? check_as_text(servers, {options.verbose, io.colour})
             : *format == 1 ? check_as_json(servers, source)
                            : check_as_sarif(servers, source));
  const bool error_found =
      std::ranges::any_of(servers, [](const CheckedServer& server) { return server.report.has_error(); });
  return error_found ? kErrorFound : kNothingWrong;
}

void add_options(CLI::App& command, Options& options) {
  add_version_options(command, options.version,
                      "The version: PR, release or date (`a2asim generations`); default: the image's, or the newest");
  add_value(command, "--engine", options.engine, "NAME", "Whose server it is; default: the command says so");
  add_value(command, "--env", options.env, "NAME=VALUE", "Set an environment variable of the launch; may be repeated")
      ->allow_extra_args(false);
  add_shape_options(command, options.shape, "; default: guessed from --model-path");
  add_value(command, "--gpu-memory", options.gpu_memory, "GiB", "Memory of one GPU, which defaults follow");
  add_value(command, "--gpu", options.gpu, "NAME", "The GPU, such as GB200 or H100");
  add_value(command, "--nvlink-domain", options.nvlink_domain, "N",
            "How many GPUs share NVLink; default: by the GPU's name, else 8");
  add_value(command, "--rule-cmd", options.rule_cmd, "\"PROGRAM ARGS\"", kRuleCommandAbout);
  add_value(command, "--file", options.file, "FILE", "Read the launch command from a file; - is standard input");
  add_value(command, "--report", options.report, "OUT.html",
            "Write one HTML page: the finding, the batch that shows it, replayed");
  add_value(command, "--format", options.format, "FORMAT", "text, json or sarif; default text");
  command.add_flag("--verbose", options.verbose, "Text: every finding in full, longer than a screen");
  command.add_option("words", options.stray)->group("");  // for a clear message only
  command.footer(help_text("check.help", {{"findings", finding_ids()}}));
}

}  // namespace

void add_check(CLI::App& program, CommandLine& line) {
  add_command<Options>(program, line, "check", "From a launch command to a verdict", add_options, run_check);
}

}  // namespace a2asim
