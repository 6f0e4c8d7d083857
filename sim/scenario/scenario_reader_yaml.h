// Inside the scenario reader: a YAML text as a tree with positions. What no scenario needs is refused here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"

namespace a2asim::yaml {

// Thrown inside the reader only; parse_scenario catches it.
struct Refusal {
  Position at;
  std::string what;
};
[[noreturn]] void refuse(Position at, std::string what);

struct Key {
  std::string text;
  Position at;
};

struct Node {
  enum class Kind : std::uint8_t { null, plain, quoted, sequence, mapping };
  Kind kind = Kind::null;  // plain: an unquoted scalar, the only one that can be a number or a boolean
  std::string text;
  std::vector<Key> keys;  // of a mapping, one for each item
  std::vector<Node> items;
  Position at;

  bool is_scalar() const { return kind == Kind::plain || kind == Kind::quoted; }
};

inline constexpr std::size_t kMaxDepth = 16;

// Throws Refusal.
Node parse(std::string_view text);

// For messages: quoted, on one line, shortened.
std::string shown(std::string_view text);

}  // namespace a2asim::yaml
