#include "tools/program/json_document.h"

#include <algorithm>

#include "model/base/one_line.h"
#include "model/base/utf8.h"
#include "tools/program/program.h"

namespace a2asim {

nlohmann::ordered_json tool_as_json() { return {{"name", "a2asim"}, {"version", program_version()}}; }

std::string dumped(const nlohmann::ordered_json& document, int indent) {
  const std::string text = document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const bool line_end = rest[0] == '\n';
    const std::size_t shown = line_end ? 1 : printable_length(rest);
    const std::size_t length = std::max(shown, utf8_length(rest));  // dump() left UTF-8 only
    const std::string in_ascii = shown > 0 ? "" : nlohmann::json(rest.substr(0, length)).dump(-1, ' ', true);
    out += shown > 0 ? rest.substr(0, shown) : std::string_view(in_ascii).substr(1, in_ascii.size() - 2);
    rest.remove_prefix(length);
  }
  return out;
}

std::string print(const nlohmann::ordered_json& document) { return dumped(document, 2) + '\n'; }

}  // namespace a2asim
