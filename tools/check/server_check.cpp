#include "tools/check/server_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/base/nearest.h"
#include "model/base/one_line.h"
#include "model/base/words.h"
#include "model/check/finding_info.h"
#include "model/launch/launch_file.h"
#include "model/step/engine.h"
#include "model/step/gpus.h"
#include "model/step/version_words.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/model_config.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostUnknown = 8;  // options
constexpr double kMostGpuMemory_gib = 1 << 20;

// A verdict on options that nobody read is none.
Result<void> require_all_read(const LaunchedServer& server) {
  if (server.command.unread.empty()) return {};
  if (!server.command.may_set.empty())
    return unusable(fmt::format("{} takes {} from {}", name_of(server), one_line(server.command.unread.front(), 100),
                                one_line(server.command.may_set, 200)));
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

// "v0.5.13" of v0.5.13-cu126, a date of nightly-dev-20260610-0a1b2c, as the engine understands it.
Result<VersionMatch> version_of_tag(const Engine& engine, const std::string& tag) {
  for (std::size_t at = 0; at + 8 <= tag.size(); ++at) {
    const std::string day = tag.substr(at, 8);
    if (!day.starts_with("20") || day.find_first_not_of("0123456789") != std::string::npos) continue;
    Result<VersionMatch> match =
        find_version(engine, day.substr(0, 4) + "-" + day.substr(4, 2) + "-" + day.substr(6, 2));
    if (match) return match;
  }
  for (std::size_t end = tag.size(); end != std::string::npos && end > 0; end = tag.rfind('-', end - 1)) {
    Result<VersionMatch> match = find_version(engine, tag.substr(0, end));
    if (match) return match;
  }
  return unusable(fmt::format("the tag '{}' names no version that is known here", one_line(tag, 60)));
}

struct Choice {
  std::string text, reason;
  bool is_tag = false;
};

// NAME and TAG of NAME:TAG or NAME:TAG@DIGEST; no TAG where it has none.
std::pair<std::string, std::string> split_image(std::string_view image) {
  image = image.substr(0, image.find('@'));
  const std::size_t colon = image.rfind(':');
  if (colon == std::string_view::npos) return {std::string(image), ""};
  return {std::string(image.substr(0, colon)), std::string(image.substr(colon + 1))};
}

std::optional<Choice> version_beside(const PreparedServer& prepared, const LaunchText& text) {
  const std::vector<Annotation> notes = annotations_of(text.text);
  const auto is_version = [](const Annotation& note) { return note.key == "version"; };
  const bool one_for_all = std::ranges::count_if(notes, is_version) == 1;
  for (const Annotation& note : notes)
    if (is_version(note) && (one_for_all || is_about(note, prepared.server, text)))
      return Choice{note.value, fmt::format("comment in line {}", note.line)};
  if (const auto set = prepared.settings.versions.find(prepared.engine->name); set != prepared.settings.versions.end())
    return Choice{set->second, prepared.settings.file.substr(prepared.settings.file.rfind('/') + 1)};
  for (auto image = prepared.server.images.rbegin(); image != prepared.server.images.rend(); ++image) {
    const auto [image_name, tag] = split_image(*image);
    for (const std::string_view known : split_words(prepared.engine->images))
      if (!tag.empty() && image_name.ends_with(known)) return Choice{tag, "image " + image_name + ':' + tag, true};
  }
  const std::string& whole = prepared.server.command.image;  // some engines find more than a tag in it
  if (!whole.empty() && prepared.engine->find_version(whole)) return Choice{whole, "image " + whole};
  return std::nullopt;
}

Result<void> choose_version(const ServerOptions& options, const LaunchText& text, PreparedServer& out) {
  const Engine& engine = *out.engine;
  std::optional<Choice> choice;
  const auto given = options.versions.find(engine.name);
  if (given != options.versions.end() && given->second) {
    const auto [image_name, tag] = split_image(*given->second);
    const bool is_image = !tag.empty() && image_name.find('/') != std::string::npos;
    choice = Choice{is_image ? tag : *given->second, fmt::format("--{}", engine.name), is_image};
  } else if (options.rule_version.engine == engine.name) {
    choice = Choice{options.rule_version.text, "nearest to the checkout"};
  } else {
    choice = version_beside(out, text);
  }
  if (!choice) {
    out.how.version.version = engine.versions().back();
    out.version_reason = fmt::format("the newest known, as no version is named here (name it with --{})", engine.name);
    return {};
  }
  Result<VersionMatch> match =
      choice->is_tag ? version_of_tag(engine, choice->text) : find_version(engine, choice->text);
  if (!match)
    return unusable(choice->is_tag ? fmt::format("{}: {}; name one with --{}", one_line(choice->reason, 120),
                                                 match.error().message, engine.name)
                                   : fmt::format("{}: {}", one_line(choice->reason, 120), match.error().message));
  out.how.version = std::move(*match);
  out.version_reason = one_line(choice->reason, 120);
  return {};
}

// What stands in a2asim.toml counts where the command line is silent.
Result<void> read_surroundings(const ServerOptions& options, PreparedServer& out) {
  const bool has_shape = options.shape.model || options.shape.model_config || options.shape.num_experts ||
                         options.shape.top_k || options.shape.hidden_size;
  const ShapeOptions& shape = has_shape ? options.shape : out.settings.shape;
  const Result<std::optional<ModelShape>> read = shape_from_options(shape);
  if (!read) return tl::unexpected(read.error());
  out.how.model = *read;
  out.how.guesses_model = true;
  if (shape.model_config) {
    const Result<std::string> text = read_text_file(*shape.model_config);
    if (text) out.how.model_quantization = quantization_from_config_json(*text);
  }
  if (const auto& memory = options.gpu_memory ? options.gpu_memory : out.settings.gpu_memory) {
    const Result<double> gib = parse_positive("--gpu-memory", *memory, "GiB of one GPU", kMostGpuMemory_gib);
    if (!gib) return tl::unexpected(gib.error());
    out.how.gpu_memory_gib = *gib;
  }
  if (const auto& name = options.gpu ? options.gpu : out.settings.gpu) {
    out.how.gpu_name = *name;
    const Result<Gpu> gpu = find_gpu(*name);
    if (!gpu && !out.how.gpu_memory_gib) return unusable("--gpu: " + gpu.error().message + " with --gpu-memory");
    if (!out.how.gpu_memory_gib) out.how.gpu_memory_gib = gpu->memory_gib;
  }
  if (const auto& given = options.nvlink_domain ? options.nvlink_domain : out.settings.nvlink_domain) {
    const Result<std::int64_t> domain = parse_count("--nvlink-domain", *given, 1, 1 << 16);
    if (!domain) return tl::unexpected(domain.error());
    out.how.nvlink_domain = *domain;
  }
  std::vector<std::string> env;
  for (const auto& [name, value] : out.settings.env) env.push_back(name + "=" + value);
  env.insert(env.end(), options.env.begin(), options.env.end());
  if (!options.rule_version.is_given() || options.rule_version.engine == out.engine->name) out.how.rule = options.rule;
  return add_environment(env, out.how.env);
}

// The oldest release, newer than the version, that has all these options: "v0.5.20"; "" where none is known.
std::string newer_that_knows(const PreparedServer& prepared, std::span<const std::string> options) {
  const Engine& engine = *prepared.engine;
  const auto knows_all = [&](const Version& version) {
    return std::ranges::none_of(options,
                                [&](const std::string& one) { return engine.spellings(version, one).empty(); });
  };
  for (const Version* version : engine.versions()) {
    if (version->date <= prepared.version().date) continue;
    for (const Release& release : version->releases) {
      const auto own = engine.find_version(release.name);  // it may have more or less than its version
      if (own && own->version != nullptr && knows_all(*own->version)) return std::string(release.name);
    }
  }
  return "";
}

// Options that this version's parser does not know: without them, as they were probably meant, or where they are known.
std::vector<Fix> fixes_of_unknown_options(const PreparedServer& prepared) {
  const Engine& engine = *prepared.engine;
  std::vector<Fix> out;
  if (engine.spellings == nullptr) return out;
  const std::vector<std::string>& argv = prepared.server.command.argv;
  std::vector<std::pair<std::string, std::string>> known;
  if (engine.options != nullptr) known = engine.options(prepared.version());
  const std::vector<std::string_view> names = [&] {
    std::vector<std::string_view> all;
    for (const auto& [option, value] : known) all.push_back(option);
    return all;
  }();
  Fix without, meant;
  std::vector<std::string> unknown;
  for (const std::string& word : argv) {
    const std::string option = word.substr(0, word.find('='));
    const std::string whole = option.substr(0, option.find('.'));  // --compilation-config.cudagraph_mode
    const auto is_short_for = [&](std::string_view name) { return name.starts_with(option); };
    if (!option.starts_with("--") || !engine.spellings(prepared.version(), whole).empty() ||
        std::ranges::any_of(names, is_short_for))
      continue;
    const std::vector<WordRange> given = find_flag(argv, {option});
    if (given.size() != 1 || unknown.size() == kMostUnknown) return out;
    std::vector<std::string> values(argv.begin() + static_cast<std::ptrdiff_t>(given[0].begin) + 1,
                                    argv.begin() + static_cast<std::ptrdiff_t>(given[0].end));
    if (option.size() < word.size()) values = {word.substr(option.size() + 1)};
    unknown.push_back(option);
    without.steps.push_back({FixStep::What::remove_flag, option, values});
    meant.steps.push_back(without.steps.back());
    if (const std::string_view near = nearest(option, names); !near.empty())
      meant.steps.push_back({FixStep::What::set_flag, std::string(near), values});
  }
  if (unknown.empty()) return out;
  if (meant.steps.size() > without.steps.size()) out.push_back(meant);
  out.push_back(without);
  if (const std::string newer = newer_that_knows(prepared, unknown); !newer.empty())
    out.push_back(upgrade_to(newer, fmt::format("which has {}", fmt::join(unknown, ", "))));
  return out;
}

// argparse itself stops the server: no deployment, but an answer.
CheckReport refused_by_argparse(const PreparedServer& prepared, const Error& error) {
  CheckReport report;
  report.verdict = Verdict::rejected;
  report.generation = &prepared.version();
  CheckFinding finding;
  finding.kind = FindingKind::rejected;
  finding.severity = Severity::error;
  finding.message = error.message;
  finding.consequence = finding_info(finding.kind).on_hardware(Situation::usage);
  finding.advise(prepared.engine->fix_for_refused(prepared.version(), prepared.server.command.argv));
  finding.fixes = fixes_of_unknown_options(prepared);
  report.findings.push_back(std::move(finding));
  return report;
}

CheckFinding note(FindingKind kind, std::string message, bool is_warning = false) {
  CheckFinding finding;
  finding.kind = kind;
  finding.message = std::move(message);
  if (is_warning) finding.severity = Severity::warning;
  return finding;
}

// How the input was read.
void add_notes(const PreparedServer& prepared, const DeployedCommand& deployed, CheckReport& report) {
  const auto add = [&](CheckFinding finding) { report.findings.push_back(std::move(finding)); };
  if (!prepared.how.version.note.empty()) add(note(FindingKind::generation, prepared.how.version.note));
  if (deployed.guessed) {
    const ModelShape& shape = deployed.guessed->shape;
    add(note(FindingKind::model,
             fmt::format("shape of {} taken from the model's name: {} experts, top_k {}, hidden_size {}",
                         deployed.guessed->name, shape.num_experts, shape.top_k, shape.hidden_size)));
  }
  for (const Note& read : deployed.launch.notes) add(note(FindingKind::launch_command, read.message, read.is_warning));
  for (const Note& read : deployed.argument_notes)
    add(note(parse_finding_kind(read.id).value_or(FindingKind::server_args), read.message, read.is_warning));
  std::ranges::stable_sort(report.findings, {}, &CheckFinding::severity);
}

}  // namespace

void add_machine_options(CLI::App& command, ServerOptions& options) {
  add_value(command, "--env", options.env, "NAME=VALUE", "Set an environment variable of the launch; may be repeated")
      ->allow_extra_args(false);
  add_shape_options(command, options.shape, "; default: guessed from --model-path");
  add_value(command, "--gpu-memory", options.gpu_memory, "GiB", "Memory of one GPU, which defaults follow");
  add_value(command, "--gpu", options.gpu, "NAME", "The GPU, such as GB200 or H100");
  add_value(command, "--nvlink-domain", options.nvlink_domain, "N",
            "How many GPUs share NVLink, for engines whose rules ask; default: by the GPU's name, else 8");
}

void add_server_options(CLI::App& command, ServerOptions& options) {
  for (const Engine* engine : engines())
    command
        .add_option(fmt::format("--{}", engine->name), options.versions[std::string(engine->name)],
                    "Its version: release (v0.5.13, v0.5.x, latest), main, PR or date; default: see above")
        ->type_name("VERSION");
  add_value(command, "--engine", options.engine, "NAME", "Whose server it is; default: the command says so");
  add_machine_options(command, options);
}

std::string name_of(const LaunchedServer& server) {
  return server.name.empty() ? server.line > 0 ? fmt::format("the server of line {}", server.line) : "the server"
                             : fmt::format("server {} (line {})", server.name, server.line);
}

Result<PreparedServer> prepare_server(const ServerOptions& options, SettingsFiles& files, const LaunchText& text,
                                      const LaunchedServer& server) {
  PreparedServer out;
  out.server = server;
  if (auto ok = require_all_read(server); !ok) return tl::unexpected(ok.error());
  if (auto ok = read_config(out.server, text.source); !ok) return tl::unexpected(ok.error());
  out.engine = &find_engine(server.command);
  if (options.engine) {
    if (const auto named = find_engine(*options.engine); !named) return unusable("--engine: " + named.error().message);
    if (*options.engine != out.engine->name)
      return unusable(
          fmt::format("--engine {}: the command starts a server of {}", *options.engine, out.engine->title));
  }
  Result<Settings> settings = files.of(text.source.path);
  if (!settings) return tl::unexpected(settings.error());
  out.settings = std::move(*settings);
  if (auto ok = choose_version(options, text, out); !ok) return tl::unexpected(ok.error());
  if (auto ok = read_surroundings(options, out); !ok) return tl::unexpected(ok.error());
  return out;
}

Result<JudgedServer> judge_server(const PreparedServer& prepared) {
  Result<DeployedCommand> deployed = prepared.engine->deploy(prepared.server.command, prepared.how);
  if (!deployed) return tl::unexpected(deployed.error());
  CheckReport report =
      deployed->refused ? refused_by_argparse(prepared, *deployed->refused) : check_deployment(*deployed->deployment);
  add_notes(prepared, *deployed, report);
  return JudgedServer{std::move(report), std::move(*deployed)};
}

std::optional<PreparedServer> with_fix(const PreparedServer& prepared, const Fix& fix) {
  PreparedServer changed = prepared;
  const Spellings spellings = [&](std::string_view flag) {
    return prepared.engine->spellings == nullptr ? std::vector<std::string>{}
                                                 : prepared.engine->spellings(prepared.version(), flag);
  };
  if (!apply(fix, changed.server.command, spellings)) return std::nullopt;
  for (const FixStep& step : fix.steps) changed.how.env.unset(step.name);  // the command says it now
  return changed;
}

std::vector<TriedFix> try_fixes(const PreparedServer& prepared, const CheckReport& report,
                                const CheckFinding& finding) {
  std::vector<TriedFix> out;
  for (const Fix& fix : finding.fixes) {
    TriedFix tried{fix, std::nullopt, false};
    std::optional<PreparedServer> changed = with_fix(prepared, fix);
    if (!changed && fix.steps.size() == 1 && fix.steps[0].what == FixStep::What::upgrade)
      if (auto match = find_version(*prepared.engine, fix.steps[0].name)) {
        changed = prepared;
        changed->how.version = std::move(*match);
      }
    if (changed)
      if (const Result<JudgedServer> judged = judge_server(*changed)) {
        tried.verdict = judged->report.verdict;
        const bool stays = std::ranges::any_of(judged->report.findings, [&](const CheckFinding& one) {
          return one.kind == finding.kind && one.severity == finding.severity && one.message == finding.message;
        });
        const bool newly_rejected = judged->report.verdict == Verdict::rejected && report.verdict != Verdict::rejected;
        tried.cures = !stays && !newly_rejected;
      }
    out.push_back(std::move(tried));
  }
  std::ranges::stable_partition(out, &TriedFix::cures);
  return out;
}

}  // namespace a2asim
