// Any bytes as a log give a scenario that replay reads, or one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "sim/scenario/scenario_reader.h"
#include "tools/from_log/from_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  std::istringstream in(std::string(reinterpret_cast<const char*>(data), size));
  FromLogOptions options;
  options.source = "fuzz.log";
  options.model = ModelShape{8, 2, 64};
  const Result<LogContents> log = read_log(in);
  const Result<FromLog> made = log ? scenario_from_log(*log, options) : tl::unexpected(log.error());
  if (!made) {
    const bool one_line = made.error().message.find_first_of("\n\r") == std::string::npos;
    if (!one_line || made.error().kind != ErrorKind::bad_input) std::abort();
    return 0;
  }
  if (!parse_scenario(made->yaml, "fuzz.yaml") || made->placed > made->batch_lines) std::abort();
  return 0;
}
