// Any bytes as a shard of an exploration give a report that is printed and read back alike, or one line.
#include "tests/fuzz/input.h"
#include "tools/explore/explore_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  const Result<ExploreReport> report = read_explore_json(fuzz::text_of(data, size), "fuzz.json");
  if (!report) {
    fuzz::require_bad_input(report.error());
    return 0;
  }
  const std::string json = explore_as_json(*report);
  const Result<ExploreReport> again = read_explore_json(json, "again.json");
  fuzz::require(again.has_value() && explore_as_json(*again) == json);
  for (const PlacedWitness& placed : witnesses(*report))
    fuzz::require(file_name(placed).find_first_of("/\\") == std::string::npos);
  fuzz::require(!explore_as_text(*report, "").empty());
  return 0;
}
