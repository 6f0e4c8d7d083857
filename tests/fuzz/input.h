// What every target does with an input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "model/base/one_line.h"
#include "model/base/result.h"

namespace a2asim::fuzz {

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void require(bool condition) {
  if (!condition) std::abort();
}

// A message is one line that is not empty.
inline void require_one_line(std::string_view message) {
  require(!message.empty() && message.find_first_of("\n\r") == std::string_view::npos);
}

inline void require_bad_input(const Error& error) {
  require(error.kind == ErrorKind::bad_input);
  require_one_line(error.message);
}

}  // namespace a2asim::fuzz
