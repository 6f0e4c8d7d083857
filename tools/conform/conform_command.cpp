// a2asim conform: does code outside answer as one of our versions?
#include <fmt/format.h>

#include "tools/conform/conform.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/output.h"
#include "tools/program/template.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMostQuestions = 1'000'000;
constexpr int kEqual = 0, kDiffers = 1, kNotLoaded = 2;

struct Options {
  std::optional<std::string> source, engine_cmd, against, budget, seed, record;
  std::string format = "text";
};

Result<std::unique_ptr<EngineProcess>> start(const Options& options) {
  if (options.source.has_value() == options.engine_cmd.has_value())
    return unusable(source_option() + " DIR or --engine-cmd \"PROGRAM ARGS\": give one of them");
  return options.source ? EngineProcess::start_source(*options.source)
                        : EngineProcess::start_engine(*options.engine_cmd);
}

Result<ConformOptions> conform_options(const Options& options, const Engine& engine) {
  ConformOptions how;
  if (options.against) {
    const Result<VersionMatch> match = find_version(engine, *options.against);
    if (!match) return unusable("--against: " + match.error().message);
    how.against = match->version != nullptr ? match->version : engine.versions().back();
  }
  if (options.budget) {
    const Result<std::int64_t> questions = parse_count("--budget", *options.budget, 1, kMostQuestions);
    if (!questions) return tl::unexpected(questions.error());
    how.questions = *questions;
  }
  if (options.seed) {
    const Result<std::uint64_t> seed = parse_seed(*options.seed);
    if (!seed) return tl::unexpected(seed.error());
    how.seed = *seed;
  }
  return how;
}

Result<int> run_conform(const Options& options, const CommandLine& line, Io& io) {
  if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
  const Engine& engine = *engines().front();
  const Result<std::size_t> format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  if (auto apart = check_outputs({{"--record", options.record}}, given({}, options.engine_cmd)); !apart)
    return tl::unexpected(apart.error());
  const Result<ConformOptions> how = conform_options(options, engine);
  if (!how) return tl::unexpected(how.error());
  const auto outside = start(options);
  if (!outside) return tl::unexpected(outside.error());
  const Result<ConformReport> report = conform(**outside, engine, *how);
  if (!report) return tl::unexpected(report.error());
  if (options.record) {
    if (auto written = write_output("--record", *options.record, conform_as_golden(*report)); !written)
      return tl::unexpected(written.error());
  }
  io.out << (*format == 1 ? conform_as_json(*report, engine) : conform_as_text(*report, engine));
  if (!report->is_complete()) return kNotLoaded;
  return report->differing(report->against) == 0 ? kEqual : kDiffers;
}

void add_options(CLI::App& command, Options& options) {
  add_value(command, source_option().c_str(), options.source, "DIR", kSourceAbout);
  add_value(command, "--engine-cmd", options.engine_cmd, "\"PROGRAM ARGS\"",
            "Ask this program instead, which speaks the protocol of docs/real_code.md");
  add_value(command, "--against", options.against, "VERSION", "Compare with this version; default the nearest");
  add_value(command, "--budget", options.budget, "N", "Ask at most N questions of each kind; default 2000");
  add_value(command, "--seed", options.seed, "N", "Draw the questions from this seed; default 1");
  add_value(command, "--record", options.record, "OUT.jsonl", "Write what the code answered, for golden_check");
  add_value(command, "--format", options.format, "FORMAT", "text or json; default text");
  command.footer(help_text("conform.help"));
}

}  // namespace

void add_conform(CLI::App& program, CommandLine& line) {
  add_command<Options>(program, line, "conform", "Ask the real code of a checkout and our versions the same questions",
                       add_options, run_conform);
}

}  // namespace a2asim
