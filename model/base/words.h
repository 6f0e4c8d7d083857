// Lists written as words with one blank between them.
//   for (const std::string_view runner : split_words("flashinfer_cutlass flashinfer_cutedsl")) ..
#pragma once

#include <string_view>
#include <vector>

namespace a2asim {

inline std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> result;
  while (!words.empty()) {
    const std::size_t end = words.find(' ');
    result.push_back(words.substr(0, end));
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  return result;
}

}  // namespace a2asim
