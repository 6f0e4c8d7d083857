#include "tools/program/json_document.h"

#include "tools/program/program.h"

namespace a2asim {

nlohmann::ordered_json tool_as_json() { return {{"name", "a2asim"}, {"version", program_version()}}; }

std::string print(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace a2asim
