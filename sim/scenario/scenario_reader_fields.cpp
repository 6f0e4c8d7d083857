#include "sim/scenario/scenario_reader_fields.h"

#include <algorithm>
#include <charconv>

#include "model/base/check_invariant.h"

namespace a2asim::yaml {
namespace {

// What a value is, in a reader's words.
std::string described(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing";
    case Node::Kind::sequence:
      return "a list";
    case Node::Kind::mapping:
      return "a mapping";
    case Node::Kind::plain:
      return shown(node.text);
    case Node::Kind::quoted:
      return "the text " + shown(node.text);
  }
  return "?";
}

bool is_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool digits =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits && (text.size() == 1 || text.front() != '0');  // 010 is eight to some readers of YAML and ten to others
}

template <class T>
T read_number(const Node& node, std::string_view what, T min, T max) {
  A2ASIM_INVARIANT(min <= max, "there is a number to give");
  T value = 0;
  const char* const end = node.text.data() + node.text.size();
  const bool decimal = node.kind == Node::Kind::plain && is_decimal(node.text);
  if (!decimal)
    refuse(node.at, fmt::format("{} is {}; give a whole number of {}..{}", what, described(node), min, max));
  const auto [stop, error] = std::from_chars(node.text.data(), end, value);
  if (error != std::errc{} || stop != end || value < min || value > max) {
    refuse(node.at, fmt::format("{} is {}; it must be in {}..{}", what, shown(node.text), min, max));
  }
  return value;
}

}  // namespace

Record::Record(const Node& node, std::string_view what, std::span<const std::string_view> known_keys)
    : node_(node), what_(what) {
  A2ASIM_INVARIANT(!known_keys.empty(), "a record has fields");
  const std::string_view thing = what.empty() ? "the scenario" : what;
  if (node.kind != Node::Kind::mapping) {
    refuse(node.at,
           fmt::format("{} is {}; give a mapping with {}", thing, described(node), fmt::join(known_keys, ", ")));
  }
  for (const Key& key : node.keys) {
    if (std::find(known_keys.begin(), known_keys.end(), key.text) != known_keys.end()) continue;
    refuse(key.at,
           fmt::format("unknown key {} in {}; known are {}", shown(key.text), thing, fmt::join(known_keys, ", ")));
  }
}

const Node* Record::find(std::string_view key) const {
  A2ASIM_INVARIANT(node_.keys.size() == node_.items.size(), "every key has its item");
  for (std::size_t i = 0; i < node_.keys.size(); ++i) {
    if (node_.keys[i].text != key) continue;
    if (node_.items[i].kind == Node::Kind::null) {
      refuse(node_.keys[i].at, fmt::format("{} has no value; give one, or leave the key out", path(key)));
    }
    return &node_.items[i];
  }
  return nullptr;
}

const Node& Record::require(std::string_view key, std::string_view example) const {
  const Node* const node = find(key);
  if (node == nullptr) refuse(node_.at, fmt::format("{} is missing; add it, for example {}", path(key), example));
  return *node;
}

std::string Record::path(std::string_view key) const {
  A2ASIM_INVARIANT(!key.empty(), "a field has a key");
  return what_.empty() ? std::string(key) : fmt::format("{}.{}", what_, key);
}

std::int64_t read_integer(const Node& node, std::string_view what, std::int64_t min, std::int64_t max) {
  return read_number<std::int64_t>(node, what, min, max);
}

std::uint64_t read_uint64(const Node& node, std::string_view what) {
  return read_number<std::uint64_t>(node, what, 0, ~std::uint64_t{0});
}

std::vector<std::int64_t> read_integers(const Node& node, std::string_view what, std::int64_t min, std::int64_t max) {
  A2ASIM_INVARIANT(min <= max, "there is a number to give");
  const std::span<const Node> items = read_list(node, what, "[4, 4, 2, 0]");
  if (items.empty() || items.size() > static_cast<std::size_t>(kMaxScenarioRanks)) {
    refuse(node.at, fmt::format("{} has {} entries; give 1..{}", what, items.size(), kMaxScenarioRanks));
  }
  std::vector<std::int64_t> values;
  values.reserve(items.size());
  for (const Node& item : items) values.push_back(read_integer(item, what, min, max));
  return values;
}

bool read_boolean(const Node& node, std::string_view what) {
  const bool yes = node.text == "true" || node.text == "True" || node.text == "TRUE";
  const bool no = node.text == "false" || node.text == "False" || node.text == "FALSE";
  if (node.kind != Node::Kind::plain || (!yes && !no)) {
    refuse(node.at, fmt::format("{} is {}; give true or false", what, described(node)));
  }
  return yes;
}

std::string read_text(const Node& node, std::string_view what, bool one_line) {
  if (!node.is_scalar()) refuse(node.at, fmt::format("{} is {}; give a text", what, described(node)));
  for (const char c : node.text) {  // escapes in quoted text can bring them in
    const bool blank = c == '\t' || (!one_line && (c == '\n' || c == '\r'));
    if (static_cast<unsigned char>(c) < 0x20 && !blank) {
      refuse(node.at,
             fmt::format("{} contains {}; remove it", what, c == '\n' ? "a line break" : "a control character"));
    }
  }
  return node.text;
}

std::span<const Node> read_list(const Node& node, std::string_view what, std::string_view example) {
  A2ASIM_INVARIANT(!example.empty(), "a refusal shows how it is done");
  if (node.kind != Node::Kind::sequence) {
    refuse(node.at, fmt::format("{} is {}; give a list, for example {}", what, described(node), example));
  }
  return node.items;
}

std::size_t read_choice(const Node& node, std::string_view what, std::span<const std::string_view> names) {
  A2ASIM_INVARIANT(!names.empty(), "there is a name to give");
  const auto found = std::find(names.begin(), names.end(), node.text);
  if (!node.is_scalar() || found == names.end()) {
    refuse(node.at, fmt::format("{} is {}; give one of {}", what, described(node), fmt::join(names, ", ")));
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace a2asim::yaml
