#include "sim/scenario_reader_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <sstream>

namespace a2asim::yaml {
namespace {

Position position(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// Bytes of the UTF-8 sequence at the front of `text`, 0 if it is none (RFC 3629: no overlong forms, no surrogates).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first < 0xE0   ? 2
                             : first >= 0xE0 && first < 0xF0 ? 3
                             : first >= 0xF0 && first < 0xF5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool beyond = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
  return overlong || beyond ? 0 : length;
}

// yaml-cpp would guess an encoding or take anything; a scenario is UTF-8 text without control characters.
void check_characters(std::string_view text) {
  Position at{1, 1};
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0)
      refuse(at, fmt::format("byte 0x{:02x} is not UTF-8; a scenario is a text file, save it as UTF-8", c));
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7F) {
      refuse(at, fmt::format("control character 0x{:02x}; a scenario is a text file, remove it", c));
    }
    ++at.column;
    if (c == '\n') at = {at.line + 1, 1};
    text.remove_prefix(length);
  }
}

class TreeBuilder : public YAML::EventHandler {
 public:
  Node root;

  void OnDocumentStart(const YAML::Mark&) override { ++documents_; }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (documents_ > 1 && stack_.empty()) return;  // nothing after a closing --- or ...
    add(mark, "?", anchor).kind = Node::Kind::null;
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(position(mark), "aliases (*name) are not used in scenarios; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (takes_key()) return add_key(mark, tag, anchor, value);
    Node& node = add(mark, tag, anchor);
    node.kind = tag == "!" ? Node::Kind::quoted : Node::Kind::plain;
    node.text = value;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::sequence);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::mapping);
  }
  void OnSequenceEnd() override { stack_.pop_back(); }
  void OnMapEnd() override { stack_.pop_back(); }

 private:
  // A collection that is still open. Its node stays where it is: only the innermost one grows.
  struct Frame {
    Node* node;
    std::set<std::string> keys;
  };

  bool takes_key() const {
    if (stack_.empty()) return false;
    const Node& node = *stack_.back().node;
    return node.kind == Node::Kind::mapping && node.keys.size() == node.items.size();
  }

  static void check_decoration(Position at, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) refuse(at, "anchors (&name) are not used in scenarios; write the value out");
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(at, fmt::format("tag {} is not used in scenarios; remove it", shown(tag)));
    }
  }

  void add_key(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) {
    const Position at = position(mark);
    check_decoration(at, tag, anchor);
    if (!stack_.back().keys.insert(text).second) {
      refuse(at, fmt::format("key {} is given twice; remove one", shown(text)));
    }
    stack_.back().node->keys.push_back({text, at});
  }

  Node& add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    const Position at = position(mark);
    check_decoration(at, tag, anchor);
    if (documents_ > 1) refuse(at, "a second document starts here; one scenario a file");
    if (takes_key()) refuse(at, "a key must be a word; write key: value");
    Node* node = &root;
    if (!stack_.empty()) node = &stack_.back().node->items.emplace_back();
    node->at = at;
    return *node;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    Node& node = add(mark, tag, anchor);
    node.kind = kind;
    if (stack_.size() == kMaxDepth) {
      refuse(node.at, fmt::format("nested deeper than {}; a scenario needs five levels", kMaxDepth));
    }
    stack_.push_back({&node, {}});
  }

  std::vector<Frame> stack_;
  int documents_ = 0;
};

}  // namespace

void refuse(Position at, std::string what) { throw Refusal{at, std::move(what)}; }

Node parse(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  check_characters(text);
  // yaml-cpp takes the end of the text for the end of an open quotation; the end of a document it does not.
  std::string closed(text);
  closed += text.ends_with('\n') ? "...\n" : "\n...\n";
  std::istringstream stream(closed);
  YAML::Parser parser(stream);
  TreeBuilder builder;
  // A second document may be empty, after a closing ---. (Some texts would give yaml-cpp empty ones for ever.)
  int documents = 0;
  while (documents < 3 && parser.HandleNextDocument(builder)) ++documents;
  if (documents == 3) refuse(builder.root.at, "several documents start here; one scenario a file");
  if (builder.root.kind == Node::Kind::null)
    refuse({1, 1}, "the text is empty; a scenario needs name, model and steps");
  return std::move(builder.root);
}

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string out = "\"";
  for (const char c : text.substr(0, longest)) out += c >= ' ' && c < 0x7F ? c : '?';
  return out + (text.size() > longest ? "..\"" : "\"");
}

}  // namespace a2asim::yaml
