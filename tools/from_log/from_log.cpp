#include "tools/from_log/from_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "model/step/engine.h"
#include "sim/cluster/replay_setup.h"
#include "sim/scenario/scenario_reader.h"
#include "sim/scenario/scenario_writer.h"
#include "tools/from_log/from_log_steps.h"
#include "tools/program/input.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::size_t kCommentWidth = 118;

// Of the option that comes last, as argparse has it.
std::optional<std::string> value_of(const LaunchCommand& launch, std::initializer_list<std::string_view> names) {
  std::optional<std::string> value;
  for (std::size_t i = 0; i < launch.argv.size(); ++i)
    for (const std::string_view name : names) {
      const std::string_view word = launch.argv[i];
      if (word == name && i + 1 < launch.argv.size()) value = launch.argv[i + 1];
      if (word.starts_with(name) && word.substr(name.size()).starts_with('=')) value = word.substr(name.size() + 1);
    }
  return value;
}

std::int64_t number_of(const LaunchCommand& launch, std::string_view name, std::int64_t otherwise) {
  const std::optional<std::string> text = value_of(launch, {name});
  return text ? parse_count(name, *text, 0, kMaxScenarioRanks).value_or(otherwise) : otherwise;
}

Result<void> take_deployment(const LogContents& log, const FromLogOptions& options, FromLog& out) {
  Scenario& scenario = out.scenario;
  for (const auto& [name, value] : options.env.values()) scenario.env[name] = value;
  std::optional<std::string> model_path;
  if (log.args) {
    Result<LoggedDeployment> logged = deployment_from(*log.args);
    if (!logged && !options.launch) return unusable(fmt::format("line {}: {}", log.args_line, logged.error().message));
    if (logged) {
      out.decode_log_interval = logged->decode_log_interval;
      model_path = logged->model_path;
      out.nodes = logged->nodes;
      if (!options.launch) {
        scenario.parallel = std::move(logged->parallel);
        out.notes.push_back(fmt::format("deployment: server_args of line {}", log.args_line));
        for (std::string& note : logged->notes) out.notes.push_back(std::move(note));
      }
    }
  }
  if (options.launch) {
    scenario.launch = print(*options.launch);
    const std::optional<std::string> path = value_of(*options.launch, {"--model-path", "--model"});
    if (path) model_path = path;
    out.nodes = {number_of(*options.launch, "--nnodes", 1), number_of(*options.launch, "--node-rank", 0)};
    out.notes.push_back(log.args ? "deployment: the launch command that was given, not the server_args of the log"
                                 : "deployment: the launch command that was given");
  } else if (!log.args) {
    return unusable(fmt::format("{}; give the launch command with --launch FILE or after `--`",
                                log.args_problem.empty()
                                    ? "the log has no line with server_args=.., and no launch command is given"
                                    : log.args_problem));
  }
  std::optional<ModelShape> shape = options.model;
  if (!shape && model_path) {
    if (const std::optional<ModelPreset> preset = guess_model(*model_path)) {
      shape = preset->shape;
      out.notes.push_back(fmt::format("model: the shape of {}, taken from {}", preset->name,
                                      options.launch ? "the launch's --model-path" : "the log's model_path"));
    }
  }
  if (!shape)
    return unusable(
        "the model's shape is not known: give --model NAME, --model-config FILE, or --num-experts, --top-k "
        "and --hidden-size");
  scenario.model.num_experts = shape->num_experts;
  scenario.model.top_k = shape->top_k;
  scenario.model.hidden_size = shape->hidden_size;
  return {};
}

std::string date_of(std::int64_t time_ms) {
  const std::chrono::sys_days day{std::chrono::floor<std::chrono::days>(
      std::chrono::sys_time<std::chrono::milliseconds>(std::chrono::milliseconds(time_ms)))};
  const std::chrono::year_month_day date{day};
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

void note_version(const LogContents& log, const FromLogOptions& options, FromLog& out) {
  const Engine& engine = options.launch ? find_engine(*options.launch) : *engines().front();
  if (options.version.is_given()) {
    out.scenario.engine = out.scenario.at.version_key = engine.name;
    out.scenario.version = options.version.text;
    return;
  }
  std::string hint;
  const auto dated = std::ranges::find_if(log.batches, [](const BatchLine& line) { return line.time_ms.has_value(); });
  if (dated != log.batches.end())
    hint =
        fmt::format("; the newest of the log's first day is {} {}", version_option(engine), date_of(*dated->time_ms));
  out.notes.push_back(
      fmt::format("version: not in a log, so the newest rules are used ({}){}", engine.versions().back()->name, hint));
}

std::string header(const FromLog& out, const FromLogOptions& options) {
  std::vector<std::string> texts = {fmt::format(
      "Made by a2asim from-log from {}: {} of {} placed in {}.", one_line(options.source, 100), out.placed,
      counted(out.batch_lines, "batch line"), counted(static_cast<std::size_t>(num_steps(out.scenario)), "step"))};
  for (const std::string& note : out.notes) texts.push_back("- " + note);
  for (const NotPlaced& one : out.not_placed)
    texts.push_back(fmt::format("- not placed: {}: {}", line_numbers(one.first_lines, one.count), one.reason));
  std::string text;
  for (const std::string& one : texts)
    for (const std::string& line : wrap(one, kCommentWidth, 2)) text += "# " + line + '\n';
  // What comes from the log or from a file's name may be any bytes.
  std::ranges::replace_if(
      text, [](char c) { return c != '\n' && (c < ' ' || c > '~'); }, '?');
  return text;
}

// The writer gives one line a step; each gets its comment.
std::string with_comments(const std::string& yaml, const std::vector<std::string>& comments) {
  std::string out;
  std::size_t step = 0;
  bool in_steps = false;
  for (std::size_t at = 0; at < yaml.size();) {
    const std::size_t end = std::min(yaml.find('\n', at), yaml.size());
    const std::string_view line = std::string_view(yaml).substr(at, end - at);
    out += line;
    if (in_steps && step < comments.size()) out += "  # " + comments[step++];
    in_steps = in_steps || line == "steps:";
    out += '\n';
    at = end + 1;
  }
  return out;
}

// What was written is read again as replay reads it.
Result<void> write(const std::vector<std::string>& comments, const FromLogOptions& options, FromLog& out) {
  const std::string plain = to_yaml(out.scenario);
  const std::string head = header(out, options);
  out.yaml = head + with_comments(plain, comments);
  if (out.yaml.size() > kMaxScenarioFileBytes) out.yaml = head + plain;
  if (out.yaml.size() > kMaxScenarioFileBytes) return too_many_steps(out);
  const Result<Scenario> read = parse_scenario(out.yaml, "the scenario");
  if (!read) return unusable("replay would not take what the log says: " + read.error().message);
  return {};
}

}  // namespace

Result<FromLog> scenario_from_log(const LogContents& log, const FromLogOptions& options) {
  FromLog out;
  out.scenario.name = "from-log";
  out.batch_lines = log.batches.size() + log.unusable.size();
  if (out.batch_lines == 0)
    return unusable(fmt::format("no batch line among {}: {} writes {}", counted(log.lines, "line"),
                                engines().front()->title, engines().front()->log_lines));
  if (auto taken = take_deployment(log, options, out); !taken) return tl::unexpected(taken.error());
  note_version(log, options, out);
  // The scenario is still without steps, so that nothing about them can be refused.
  Result<ScenarioDeployment> deployed = deploy(out.scenario, "the log's deployment", {});
  if (!deployed) return tl::unexpected(deployed.error());
  if (!deployed->deployment) return unusable("the log's deployment: " + deployed->why);
  if (!deployed->why.empty())
    out.notes.push_back(fmt::format("replay will say {}: {}", name(deployed->verdict), deployed->why));
  if (deployed->deployment->uses_flashinfer && !options.launch && options.env.values().empty())
    out.notes.push_back(fmt::format("environment: not in a log; give what the server had with --env, such as {}",
                                    engine_of(*deployed->generation).cap_variable));
  if (options.replica && deployed->deployment->topology.enable_dp_attention)
    return unusable(fmt::format("--replica {}: with DP attention all DP ranks share one all-to-all; leave it out",
                                *options.replica));
  const Result<std::vector<std::string>> comments = add_steps(log, options, *deployed->deployment, out);
  if (!comments) return tl::unexpected(comments.error());
  if (auto written = write(*comments, options, out); !written) return tl::unexpected(written.error());
  return out;
}

}  // namespace a2asim
