#include "sim/scenario/scenario_reader_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "model/base/utf8.h"
#include "sim/scenario/scenario_reader_text.h"

namespace a2asim::yaml {
namespace {

Position raw_position(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// yaml-cpp makes one byte each of the escapes \N and \_, which are U+0085 and U+00A0.
std::string as_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) out += '\xC2';
    out += text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Rewritten& text) : text_(text) {}
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
    if (takes_key()) return add_key(mark, tag, anchor, as_utf8(value));
    Node& node = add(mark, tag, anchor);
    node.kind = tag == "!" ? Node::Kind::quoted : Node::Kind::plain;
    node.text = as_utf8(value);
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

  Position position(const YAML::Mark& mark) const { return text_.position(raw_position(mark)); }

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
    if (takes_key()) {
      check_brackets(text_.text, raw_position(mark));
      refuse(at, "a key must be a word; write key: value");
    }
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

  const Rewritten& text_;
  std::vector<Frame> stack_;
  int documents_ = 0;
};

[[noreturn]] void refuse_yaml(const YAML::Exception& error, const Rewritten& text, std::size_t length) {
  const Position at = error.mark.is_null() ? Position{} : text.position(raw_position(error.mark));
  const bool at_end = error.mark.pos >= static_cast<int>(length);
  if (at_end && error.msg == YAML::ErrorMsg::DOC_IN_SCALAR)  // the end that parse() adds
    refuse(at, "the text ends within quotes; close them, or complete the text");
  std::string message = error.msg;  // may quote a character of the text
  std::replace_if(
      message.begin(), message.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  refuse(at, fmt::format("no valid YAML: {}; correct the text here or just before", message));
}

}  // namespace

void refuse(Position at, std::string what) { throw Refusal{at, std::move(what)}; }

Node parse(std::string_view text) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  check_characters(text);
  // yaml-cpp takes the end of the text for the end of an open quotation; the end of a document it does not.
  Rewritten closed = join_surrogates(text);
  const std::size_t length = closed.text.size();
  closed.text += text.ends_with('\n') ? "...\n" : "\n...\n";
  std::istringstream stream(closed.text);
  TreeBuilder builder(closed);
  // A second document may be empty, after a closing ---. (Some texts would give yaml-cpp empty ones forever.)
  int documents = 0;
  try {
    YAML::Parser parser(stream);
    while (documents < 3 && parser.HandleNextDocument(builder)) ++documents;
  } catch (const YAML::Exception& error) {
    refuse_yaml(error, closed, length);
  }
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
