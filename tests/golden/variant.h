// Which rules a row's "variant" (a snapshot of SGLang's source) stands for.
#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace a2asim::golden {

// The value of the first entry whose name begins the variant. Throws for an unknown one: the row is a mismatch then.
template <class T>
T by_variant(const std::string& variant, std::initializer_list<std::pair<std::string_view, T>> table) {
  for (const auto& [prefix, value] : table)
    if (variant.starts_with(prefix)) return value;
  throw std::runtime_error("unknown variant \"" + variant + "\"");
}

}  // namespace a2asim::golden
