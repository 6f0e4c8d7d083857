// What a version of an engine has that the one before it lacks, field by field. A value that is set elsewhere, not set
// or set wrongly is found by its name.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

namespace a2asim::test {

using Fields = std::map<std::string, std::string>;  // "start.megamoe_cap": "1024"

template <class T>
std::string written(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "yes" : "no";
  else if constexpr (std::is_enum_v<T>)
    return std::to_string(static_cast<int>(value));
  else if constexpr (std::is_arithmetic_v<T>)
    return std::to_string(value);
  else
    return std::string(std::string_view(value));
}

using Changes = std::set<std::string>;  // "start.megamoe_cap=1024"

inline std::string lines(const Changes& changes) {
  std::string out;
  for (const std::string& one : changes) out += one + '\n';
  return out;
}

// What is another value in `after`.
inline std::string changed(const Fields& before, const Fields& after) {
  Changes out;
  for (const auto& [name, value] : after)
    if (before.at(name) != value) out.insert(name + '=' + value);
  return lines(out);
}

}  // namespace a2asim::test
