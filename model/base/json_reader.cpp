#include "model/base/json_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace a2asim {
namespace {

using nlohmann::json;

struct TooMuch {
  std::string what;
};

std::string place_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : std::min(byte - 1, text.size()));
  const std::size_t line_start = before.find_last_of('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", std::ranges::count(before, '\n') + 1, before.size() - line_start + 1);
}

}  // namespace

Result<json> read_json(std::string_view text, const JsonLimits& limits) {
  const auto refused = [](std::string what) { return fail(ErrorKind::bad_input, std::move(what)); };
  if (text.size() > limits.bytes) return refused(fmt::format("longer than {} bytes", limits.bytes));
  std::size_t keys = 0;
  // The parser itself does not recurse, and stops where this throws.
  using Event = json::parse_event_t;
  const json::parser_callback_t watch = [&](int depth, Event event, json&) {
    if ((event == Event::object_start || event == Event::array_start) && depth >= limits.depth)
      throw TooMuch{fmt::format("nested more than {} deep", limits.depth)};
    if (event == Event::key && ++keys > limits.keys) throw TooMuch{fmt::format("more than {} keys", limits.keys)};
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const TooMuch& much) {
    return refused(much.what);
  } catch (const json::parse_error& error) {
    return refused("no JSON at " + place_of(text, error.byte));
  } catch (const json::exception&) {
    return refused("a number in it is out of range");
  }
}

}  // namespace a2asim
