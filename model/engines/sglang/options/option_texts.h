// The option lists of this folder as options.cmake builds them in.
#pragma once

#include <span>
#include <string_view>

namespace a2asim {

struct OptionText {
  std::string_view name;  // the file's name without ".txt"
  std::string_view text;
};
std::span<const OptionText> option_texts();

}  // namespace a2asim
