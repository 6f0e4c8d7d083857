// Inside the scenario reader: typed values out of a tree. All throw yaml::Refusal with the position of the value.
// `what` names the value in messages: "tokens", "model.top_k", ..
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/scenario/scenario_reader_yaml.h"

namespace a2asim::yaml {

// A mapping all of whose keys are known.
class Record {
 public:
  Record(const Node& node, std::string_view what, std::span<const std::string_view> known_keys);

  const Node* find(std::string_view key) const;  // nullptr: left out
  const Node& require(std::string_view key, std::string_view example) const;
  std::string path(std::string_view key) const;  // "model.top_k"
  Position at() const { return node_.at; }
  const Node& node() const { return node_; }

 private:
  const Node& node_;
  std::string what_;
};

// Decimal digits with an optional minus sign, and nothing else: no 1e3, 0x10, 1_000, 1.0, .nan.
std::int64_t read_integer(const Node& node, std::string_view what, std::int64_t min, std::int64_t max);
std::uint64_t read_uint64(const Node& node, std::string_view what);
std::vector<std::int64_t> read_integers(const Node& node, std::string_view what, std::int64_t min, std::int64_t max);
bool read_boolean(const Node& node, std::string_view what);
// Any scalar, as it is written. max_lines 1 refuses line breaks.
std::string read_text(const Node& node, std::string_view what, bool one_line);
// The items of a list; refuses what is none.
std::span<const Node> read_list(const Node& node, std::string_view what, std::string_view example);

// `node` as a word out of a vocabulary: the position in `names`.
std::size_t read_choice(const Node& node, std::string_view what, std::span<const std::string_view> names);

template <class T>
T read_named(const Node& node, std::string_view what, std::span<const Named<T>> vocabulary) {
  std::vector<std::string_view> names;
  for (const Named<T>& entry : vocabulary) names.push_back(entry.name);
  return vocabulary[read_choice(node, what, names)].value;
}

}  // namespace a2asim::yaml
