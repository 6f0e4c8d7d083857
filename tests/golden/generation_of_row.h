// The generation that a row names: in its field "generation", or by month and commit, "jan_2c2c4e446b", in "variant".
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "model/engines/sglang/generation.h"

namespace a2asim::golden {

inline const Generation& generation_of_row(std::string_view name) {
  if (name == "newest008b79d2") name = "pr35758";  // the tables call it by its commit
  const std::size_t commit = name.find('_');
  const auto found = commit == std::string_view::npos
                         ? std::ranges::find(generations(), name, &Generation::name)
                         : std::ranges::find(generations(), name.substr(commit + 1), &Generation::commit);
  if (found == generations().end()) throw std::invalid_argument("unknown generation " + std::string(name));
  return *found;
}

}  // namespace a2asim::golden
