// a2asim from-log: from a server's log to a scenario for replay.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tools/from_log/from_log.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/output.h"
#include "tools/program/shape_options.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/program/version_options.h"

namespace a2asim {
namespace {

constexpr double kMostWindow_s = 3600;

struct FromLogArguments {
  ShapeOptions shape;
  VersionChoice version;
  std::optional<std::string> file, launch, window, replica, lines, out;
  std::vector<std::string> env;
  std::string missing = "idle";
};

Result<std::optional<LaunchCommand>> read_launch(const FromLogArguments& options, const CommandLine& line) {
  if (line.after_dashes && options.launch) return unusable("two launch commands: one after `--`, one in --launch");
  if (line.after_dashes) {
    Result<LaunchCommand> launch = parse_launch_words(*line.after_dashes);
    if (!launch) return tl::unexpected(launch.error());
    return std::move(*launch);
  }
  if (!options.launch) return std::nullopt;
  const Result<std::string> text = read_text_file(*options.launch);
  if (!text) return unusable("--launch: " + text.error().message);
  Result<LaunchCommand> launch = parse_launch_command(*text);
  if (!launch) return unusable("--launch: " + launch.error().message);
  return std::move(*launch);
}

struct LineRange {
  std::size_t first = 1;
  std::size_t last = std::numeric_limits<std::size_t>::max();
};

Result<LineRange> read_lines(const std::optional<std::string>& text) {
  LineRange range;
  if (!text) return range;
  const std::size_t colon = text->find(':');
  if (colon == std::string::npos)
    return unusable(fmt::format("--lines takes FIRST:LAST, as 1:20000, not '{}'", one_line(*text, 60)));
  const Result<std::int64_t> first = parse_count("--lines", std::string_view(*text).substr(0, colon), 1, INT64_MAX);
  if (!first) return tl::unexpected(first.error());
  const Result<std::int64_t> last =
      parse_count("--lines", std::string_view(*text).substr(colon + 1), *first, INT64_MAX);
  if (!last) return tl::unexpected(last.error());
  return LineRange{static_cast<std::size_t>(*first), static_cast<std::size_t>(*last)};
}

Result<FromLogOptions> read_options(const FromLogArguments& options, const CommandLine& line) {
  FromLogOptions out;
  out.source = *options.file == "-" ? "standard input" : std::filesystem::path(*options.file).filename().string();
  out.version = options.version;
  Result<std::optional<LaunchCommand>> launch = read_launch(options, line);
  if (!launch) return tl::unexpected(launch.error());
  out.launch = std::move(*launch);
  if (auto added = add_environment(options.env, out.env); !added) return tl::unexpected(added.error());
  const Result<std::optional<ModelShape>> shape = shape_from_options(options.shape);
  if (!shape) return tl::unexpected(shape.error());
  out.model = *shape;
  if (options.window) {
    const Result<double> seconds = parse_positive("--window", *options.window, "seconds", kMostWindow_s);
    if (!seconds) return tl::unexpected(seconds.error());
    out.window_ms = static_cast<std::int64_t>(*seconds * 1000);
  }
  const Result<std::size_t> missing = parse_choice("--missing", options.missing, {"idle", "last", "drop"});
  if (!missing) return tl::unexpected(missing.error());
  out.missing = static_cast<MissingRank>(*missing);
  if (options.replica) {
    const Result<std::int64_t> replica = parse_count("--replica", *options.replica, 0, kMaxScenarioRanks - 1);
    if (!replica) return tl::unexpected(replica.error());
    out.replica = *replica;
  }
  return out;
}

Result<LogContents> read_file(const std::string& path, const LineRange& lines, Io& io) {
  if (path == "-") return read_log(io.in, lines.first, lines.last);
  const std::string what = "file '" + one_line(path) + "'";
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return unusable(what + " is a directory: name a file in it");
  std::ifstream in(path, std::ios::binary);
  if (!in) return unusable(what + " cannot be opened: check the path");
  return read_log(in, lines.first, lines.last);
}

Result<void> write_out(const std::optional<std::string>& path, const std::string& yaml, Io& io) {
  if (!path) {
    io.out << yaml;
    return {};
  }
  return write_output("--out", *path, yaml);
}

void report(const FromLog& made, Io& io) {
  const auto say = [&](const std::string& text) {
    for (const std::string& line : wrap(text, 100, 2)) io.err << line << '\n';
  };
  say(fmt::format("from-log: {} of {} placed in {}", made.placed, counted(made.batch_lines, "batch line"),
                  counted(static_cast<std::size_t>(num_steps(made.scenario)), "step")));
  for (const NotPlaced& one : made.not_placed) {
    std::string numbers;
    for (const std::size_t number : one.first_lines)
      numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", number);
    say(fmt::format("not placed: {} ({}{}): {}", one.count == 1 ? "1 line" : fmt::format("{} lines", one.count),
                    numbers, one.count > one.first_lines.size() ? ", .." : "", one.reason));
  }
  for (const std::string& note : made.notes) say("note: " + note);
}

Result<int> run_from_log(const FromLogArguments& options, const CommandLine& line, Io& io) {
  if (!options.file) return unusable("no log: name a file, or - for standard input");
  const Result<FromLogOptions> with = read_options(options, line);
  if (!with) return tl::unexpected(with.error());
  const Result<LineRange> lines = read_lines(options.lines);
  if (!lines) return tl::unexpected(lines.error());
  const auto inputs = given({options.file, options.launch, options.shape.model_config});
  if (auto apart = check_outputs({{"--out", options.out}}, inputs); !apart) return tl::unexpected(apart.error());
  const Result<LogContents> log = read_file(*options.file, *lines, io);
  if (!log) return tl::unexpected(log.error());
  const Result<FromLog> made = scenario_from_log(*log, *with);
  if (!made) return tl::unexpected(made.error());
  if (auto written = write_out(options.out, made->yaml, io); !written) return tl::unexpected(written.error());
  report(*made, io);
  return kNothingWrong;
}

void add_options(CLI::App& command, FromLogArguments& options) {
  add_value(command, "file", options.file, "FILE", "The log; - is standard input");
  add_version_options(command, options.version, "The server's version (`a2asim versions`); default newest");
  add_value(command, "--launch", options.launch, "FILE", "The launch command, in place of the log's server_args");
  add_value(command, "--env", options.env, "NAME=VALUE", "An environment variable that the server had; may be repeated")
      ->allow_extra_args(false);
  add_shape_options(command, options.shape, "; default: guessed from the log's model_path");
  add_value(command, "--window", options.window, "SECONDS", "Most time between the lines of one step; default 1");
  add_value(command, "--missing", options.missing, "WHAT",
            "idle, last or drop: a rank without a line in a step is taken as idle, as running its last decode batch, "
            "or the step is left out; default idle");
  add_value(command, "--replica", options.replica, "N",
            "Without DP attention: the DP rank whose server it is; default 0");
  add_value(command, "--lines", options.lines, "FIRST:LAST", "Take batches from these lines only");
  add_value(command, "--out", options.out, "FILE", "Write the scenario here instead of to standard output");
  command.footer(help_text("from_log.help"));
}

}  // namespace

void add_from_log(CLI::App& program, CommandLine& line) {
  add_command<FromLogArguments>(program, line, "from-log", "From a server's log to a scenario for replay", add_options,
                                run_from_log);
}

}  // namespace a2asim
