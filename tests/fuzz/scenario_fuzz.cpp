// Any bytes give a scenario, which survives writing and reading, or one line that names the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sim/scenario/scenario_reader.h"
#include "sim/scenario/scenario_writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Scenario> scenario = parse_scenario(text, "fuzz.yaml");
  if (!scenario) {
    const std::string& message = scenario.error().message;
    const bool one_line = message.find_first_of("\n\r") == std::string::npos;
    if (!one_line || !message.starts_with("fuzz.yaml:") || scenario.error().kind != ErrorKind::bad_input) std::abort();
    return 0;
  }
  const Result<Scenario> again = parse_scenario(to_yaml(*scenario), "again.yaml");
  if (!again || *again != *scenario) std::abort();
  return 0;
}
