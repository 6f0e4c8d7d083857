// What several readers of this folder ask of a text.
//   is_one_of(word, {"-c", "-lc"})
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace a2asim {

inline constexpr std::size_t npos = std::string_view::npos;

inline bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

}  // namespace a2asim
