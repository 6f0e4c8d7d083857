// The generation that a row of sizing.jsonl or capacity.jsonl names in its field "generation".
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "model/engines/sglang/generation.h"

namespace a2asim::golden {

inline const Generation& generation_of_row(std::string_view name) {
  if (name == "newest008b79d2") name = "pr35758";  // the tables call it by its commit
  const auto found = std::ranges::find(generations(), name, &Generation::name);
  if (found == generations().end()) throw std::invalid_argument("unknown generation " + std::string(name));
  return *found;
}

}  // namespace a2asim::golden
