#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tools/explore/explore_formats.h"
#include "tools/program/input.h"
#include "tools/program/io.h"
#include "tools/report/page.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

tl::unexpected<Error> cannot_write(const std::filesystem::path& path) {
  return fail(ErrorKind::bad_input,
              fmt::format("--out: cannot write '{}'; give a folder that can be written", one_line(path.string())));
}

Result<void> write_scenarios(const ExploreReport& report, const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return cannot_write(directory);
  for (const PlacedWitness& placed : witnesses(report)) {
    if (!placed.worst) continue;
    const std::filesystem::path path = directory / file_name(placed);
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (report.rule) file << "# a2asim replay --rule-cmd '" << one_line(*report.rule) << "' FILE\n";
    file << placed.witness->scenario;
    file.close();
    if (!file) return cannot_write(path);
  }
  return {};
}

}  // namespace

std::int64_t ExploreReport::cases() const {
  std::int64_t sum = 0;
  for (const GenerationExploration& generation : generations) sum += generation.cases;
  return sum;
}

bool ExploreReport::has_error() const {
  for (const GenerationExploration& generation : generations)
    if (generation.count(ExploreOutcome::disagrees) + generation.count(ExploreOutcome::overflow) > 0) return true;
  return false;
}

std::vector<PlacedWitness> witnesses(const ExploreReport& report) {
  std::vector<PlacedWitness> all;
  for (const GenerationExploration& generation : report.generations)
    for (std::size_t i = 0; i < kExploreClasses; ++i)
      for (const ExploreCell& cell : generation.classes[i].cells)
        for (std::size_t at = kExploreOutcomes; at-- > 0;) {
          const auto outcome = static_cast<ExploreOutcome>(at);
          if (cell.witness[at]) all.push_back({&generation, i, outcome, cell.outcome() == outcome, &*cell.witness[at]});
        }
  return all;
}

std::string file_name(const PlacedWitness& placed) {
  std::string class_of = class_name(placed.exploring_class);
  std::ranges::replace(class_of, '+', '-');
  return fmt::format("{}-{}-{}-{}.yaml", placed.generation->generation, class_of, name(placed.witness->finding.phase),
                     name(placed.outcome));
}

Result<int> deliver(const ExploreReport& report, const ExploreOutput& output, Io& io) {
  const Result<std::size_t> format = parse_choice("--format", output.format, {"text", "json", "sarif"});
  if (!format) return tl::unexpected(format.error());
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
