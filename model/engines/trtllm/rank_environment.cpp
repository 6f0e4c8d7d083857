#include "model/engines/trtllm/rank_environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/base/one_line.h"

namespace a2asim::trtllm {
namespace {

// "0", "0,3", "8..15"; nothing: no such list.
std::optional<bool> holds(std::string_view list, std::int64_t rank) {
  bool inside = false;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view entry = list.substr(0, comma);
    const std::size_t dots = entry.find("..");
    const PythonInt first = python_int(entry.substr(0, dots));
    const PythonInt last = dots == std::string_view::npos ? first : python_int(entry.substr(dots + 2));
    if (first.status != PythonInt::Status::ok || last.status != PythonInt::Status::ok) return std::nullopt;
    inside = inside || (first.value <= rank && rank <= last.value);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return inside;
}

}  // namespace

Result<Environment> environment_of(const Environment& env, std::int64_t rank) {
  Environment out;
  for (const auto& [name, value] : env.values()) {
    std::string_view text = value;
    const std::size_t at = text.find(" on rank");
    if (at == std::string_view::npos || !text.ends_with(" only")) {
      out.set(name, value);
      continue;
    }
    std::string_view ranks = text.substr(at + 8, text.size() - 5 - (at + 8));
    if (ranks.starts_with('s')) ranks.remove_prefix(1);
    const auto inside = holds(ranks, rank);
    if (!inside)
      return fail(ErrorKind::bad_input,
                  fmt::format("{}={}: write the ranks as 0, as 0,3 or as 8..15", name, one_line(value, 60)));
    if (*inside) out.set(name, std::string(text.substr(0, at)));
  }
  return out;
}

}  // namespace a2asim::trtllm
