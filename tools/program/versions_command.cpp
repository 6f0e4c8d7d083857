// a2asim versions: which versions of an engine are known, and what each changed.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/step/engine.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/template.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

// What the releases pin; for rules that no release ended with, what the main branch pinned that day.
std::string flashinfer_of(const Engine& engine, const Version& version) {
  std::vector<std::string_view> tags;
  for (const Release& release : version.releases) {
    const Result<VersionMatch> match = find_version(engine, std::string_view(release.name));
    const std::string_view tag = engine.flashinfer(match && match->version != nullptr ? *match->version : version).tag;
    if (std::ranges::find(tags, tag) == tags.end()) tags.push_back(tag);
  }
  if (tags.empty()) tags.push_back(engine.flashinfer(version).tag);
  return fmt::format("{}", fmt::join(tags, ", "));
}

std::string as_text(const Engine& engine) {
  const auto or_dash = [](std::string_view words) { return std::string(words.empty() ? "-" : words); };
  std::vector<std::vector<std::string>> cells = {{"release", "rules", "merged", "PR", "FlashInfer"}};
  for (const Version* version : engine.versions())
    cells.push_back({or_dash(releases_in_words(*version)), std::string(version->name), std::string(version->date),
                     version->pr == 0 ? "-" : fmt::format("#{}", version->pr),
                     or_dash(flashinfer_of(engine, *version))});
  const std::vector<std::string> lines = table(cells, {});
  std::string out = lines[0] + '\n';
  for (std::size_t at = 1; at < lines.size(); ++at) {
    out += lines[at] + '\n';
    for (const std::string& line : wrap(engine.versions()[at - 1]->changed, kTextWidth - 4))
      out += "    " + line + '\n';
  }
  std::string others;
  for (const Engine* other : engines())
    if (other != &engine) others += fmt::format("{}{}", others.empty() ? "" : ", ", other->name);
  return out + fmt::format(
                   "\n{} takes a release, a name of rules, a PR or a date ({}: what was merged by that day).\n"
                   "Without it the newest is used. --engine lists those of {}.\n",
                   version_option(engine), engine.versions().back()->date, others);
}

std::string as_json(const Engine& engine) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Version* version : engine.versions())
    rows.push_back({{"name", version->name},
                    {"date", version->date},
                    {"pr", version->pr == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(version->pr)},
                    {"url", version->pr == 0 ? "" : fmt::format("{}{}", engine.pull_requests, version->pr)},
                    {"commit", version->commit},
                    {"changed", version->changed},
                    {"flashinfer", flashinfer_of(engine, *version)},
                    {"releases", releases_in_words(*version)}});
  return print(nlohmann::ordered_json{{"tool", tool_as_json()},
                                      {"engine", engine.name},
                                      {"default", engine.versions().back()->name},
                                      {"generations", rows}});
}

std::string engine_names() {
  std::string names;
  for (const Engine* engine : engines()) names += (names.empty() ? "" : ", ") + std::string(engine->name);
  return names;
}

}  // namespace

void add_versions(CLI::App& program, CommandLine& line) {
  CLI::App* command = program.add_subcommand("versions", "List the versions that are known, and what each changed");
  const auto format = std::make_shared<std::string>("text");
  const auto name = std::make_shared<std::string>(engines().front()->name);
  command->add_option("--engine", *name, fmt::format("Whose: {}; default {}", engine_names(), *name))
      ->type_name("NAME");
  command->add_option("--format", *format, "text or json; default text")->type_name("FORMAT");
  command->footer(help_text("versions.help"));
  command->callback([&line, format, name] {
    line.run = [&line, format, name](Io& io) -> Result<int> {
      if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
      const Result<std::size_t> chosen = parse_choice("--format", *format, {"text", "json"});
      if (!chosen) return tl::unexpected(chosen.error());
      const Result<const Engine*> engine = find_engine(*name);
      if (!engine) return unusable("--engine: " + engine.error().message);
      io.out << (*chosen == 0 ? as_text(**engine) : as_json(**engine));
      return kNothingWrong;
    };
  });
}

}  // namespace a2asim
