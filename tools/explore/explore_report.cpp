#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "model/launch/launch_text.h"
#include "model/step/engine.h"
#include "model/step/version_words.h"
#include "tools/explore/explore_formats.h"
#include "tools/program/input.h"
#include "tools/program/io.h"
#include "tools/program/output.h"
#include "tools/program/text.h"
#include "tools/report/page.h"

namespace a2asim {
namespace {

std::string path_of(const std::string& directory, const PlacedWitness& placed) {
  return (std::filesystem::path(directory) / file_name(placed)).string();
}

Result<void> write_scenarios(const ExploreReport& report, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return unusable(fmt::format("--out: cannot make '{}': {}; give a folder that can be written", one_line(directory),
                                error.message()));
  for (const PlacedWitness& placed : witnesses(report)) {
    if (!placed.worst) continue;
    std::string text = report.rule ? fmt::format("# a2asim replay {} FILE\n", rule_as_option(*report.rule)) : "";
    text += placed.witness->scenario;
    if (auto written = write_output("--out", path_of(directory, placed), text); !written) return written;
  }
  return {};
}

}  // namespace

std::string rule_as_option(const std::string& rule) {
  return rule.starts_with("--") ? one_line(rule) : "--rule-cmd " + shell_quote(one_line(rule));
}

std::string version_label(const ExploreReport& report, const GenerationExploration& generation) {
  for (const Engine* engine : engines())
    for (const Version* version : engine->versions())
      if (version->name == generation.generation && (report.engine.empty() || engine->name == report.engine))
        return std::string(release_or_name(*version));
  return generation.generation;
}

bool has_error(const GenerationExploration& generation) {
  return generation.count(ExploreOutcome::disagrees) + generation.count(ExploreOutcome::overflow) > 0;
}

std::string errors_in_words(const ExploreReport& report) {
  std::string without;
  for (const GenerationExploration& one : report.generations)
    if (!has_error(one)) without += (without.empty() ? "" : ", ") + version_label(report, one);
  const auto bad = std::ranges::count_if(report.generations, [](const auto& one) { return has_error(one); });
  if (report.generations.size() == 1)
    return fmt::format("some launches are unsafe in {}", version_label(report, report.generations.front()));
  return fmt::format("an error in {} of {} versions{}", bad, report.generations.size(),
                     without.empty() ? "" : "; none in " + without);
}

std::int64_t ExploreReport::cases() const {
  std::int64_t sum = 0;
  for (const GenerationExploration& generation : generations) sum += generation.cases;
  return sum;
}

bool ExploreReport::has_error() const {
  return std::ranges::any_of(generations, [](const GenerationExploration& one) { return a2asim::has_error(one); });
}

std::vector<PlacedWitness> witnesses(const ExploreReport& report) {
  std::vector<PlacedWitness> all;
  for (const GenerationExploration& generation : report.generations)
    for (const std::size_t i : classes_in_order())
      for (const ExploreCell& cell : generation.classes[i].cells)
        for (std::size_t at = kExploreOutcomes; at-- > 0;) {
          const auto outcome = static_cast<ExploreOutcome>(at);
          if (cell.witness[at]) all.push_back({&generation, i, outcome, cell.outcome() == outcome, &*cell.witness[at]});
        }
  return all;
}

std::vector<std::size_t> classes_in_order() {
  std::vector<std::size_t> order(kExploreClasses);
  for (std::size_t i = 0; i < kExploreClasses; ++i)
    order[i] = i % kExploreLayouts * kExploreExtras + i / kExploreLayouts;
  return order;
}

std::string file_name(const PlacedWitness& placed) {
  return witness_name(placed.generation->generation, placed.exploring_class, placed.witness->finding.phase,
                      placed.outcome) +
         ".yaml";
}

Result<int> deliver(const ExploreReport& report, const ExploreOutput& output, Io& io) {
  const Result<std::size_t> format = parse_choice("--format", output.format, {"text", "json", "sarif"});
  if (!format) return tl::unexpected(format.error());
  std::vector<OutputPath> files = {{"--report", output.page}};
  for (const PlacedWitness& placed : witnesses(report))
    if (output.directory && placed.worst) files.push_back({"--out", path_of(*output.directory, placed)});
  if (auto apart = check_outputs(files, output.inputs); !apart) return tl::unexpected(apart.error());
  if (output.directory) {
    if (auto written = write_scenarios(report, *output.directory); !written) return tl::unexpected(written.error());
  }
  if (output.page) {
    if (auto written = write_page(*output.page, output.html); !written) return tl::unexpected(written.error());
  }
  io.out << (*format == 0   ? explore_as_text(report, output.directory.value_or(""))
             : *format == 1 ? explore_as_json(report)
                            : explore_as_sarif(report));
  return report.has_error() ? kErrorFound : kNothingWrong;
}

}  // namespace a2asim
