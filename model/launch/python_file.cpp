// Python files that start a server by LLM(model=.., tensor_parallel_size=8, ..): read as data, never run. Literals,
// names that the file sets once, and calls with keyword arguments are understood; the rest is said to be unread.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/json_reader.h"
#include "model/launch/file_kinds.h"
#include "model/launch/launch_text.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

using nlohmann::json;
constexpr int kMostDeepPython = 32;
constexpr std::string_view kClass = "LLM(";

class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) { read_assignments(); }

  struct Call {
    json keywords = json::object();
    std::vector<std::string> unread;
  };
  // The arguments behind an opening parenthesis.
  Call arguments(std::size_t at) {
    at_ = at;
    Call call;
    bool first = true;
    while (skip(), at_ < text_.size() && text_[at_] != ')') {
      const std::size_t begin = at_;
      const std::string keyword = name_before_equals();
      const bool spreads = text_.substr(at_).starts_with("**");
      if (spreads) at_ += 2;
      const auto value = expression(0);
      if (spreads && value && value->is_object())
        call.keywords.update(*value);
      else if (!value || spreads)
        call.unread.push_back(fmt::format("{} in line {}", keyword.empty() ? "an argument" : keyword, line_of(begin)));
      else if (!keyword.empty())
        call.keywords[keyword] = *value;
      else if (first)
        call.keywords["model"] = *value;
      first = false;
      if (!to_separator()) break;
    }
    return call;
  }
  std::size_t line_of(std::size_t at) const {
    return 1 + static_cast<std::size_t>(std::ranges::count(text_.substr(0, at), '\n'));
  }

 private:
  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\\')
        ++at_;
      else
        return;
    }
  }
  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_shell_name_char(text_[at_]) || (at_ > begin && text_[at_] == '.'))) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string name_before_equals() {
    const std::size_t begin = at_;
    const std::string word = name();
    skip();
    if (!word.empty() && text_.substr(at_).starts_with('=') && !text_.substr(at_).starts_with("==")) {
      ++at_;
      skip();
      return word;
    }
    at_ = begin;
    return {};
  }
  // On to behind the next comma of this level; false at its end.
  bool to_separator() {
    for (int depth = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      } else if (c == '"' || c == '\'') {
        string();
        --at_;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth;
      } else if (c == ')' || c == ']' || c == '}') {
        if (depth-- == 0) return false;
      } else if (c == ',' && depth == 0) {
        ++at_;
        return true;
      }
    }
    return false;
  }
  std::optional<json> string() {
    const char quote = text_[at_];
    const std::string triple(3, quote);
    const bool is_long = text_.substr(at_).starts_with(triple);
    std::string out;
    for (at_ += is_long ? 3 : 1; at_ < text_.size(); ++at_) {
      if (is_long ? text_.substr(at_).starts_with(triple) : text_[at_] == quote) {
        at_ += is_long ? 3 : 1;
        return json(out);
      }
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out += text_[at_];
    }
    return std::nullopt;
  }
  std::optional<json> list(char close, int depth) {
    json out = json::array();
    bool known = true;
    for (++at_; skip(), at_ < text_.size() && text_[at_] != close;) {
      const auto item = expression(depth + 1);
      known = known && item;
      if (item) out.push_back(*item);
      if (!to_separator()) break;
    }
    if (at_ < text_.size()) ++at_;
    return known ? std::optional(out) : std::nullopt;
  }
  std::optional<json> dictionary(int depth) {
    json out = json::object();
    bool known = true;
    for (++at_; skip(), at_ < text_.size() && text_[at_] != '}';) {
      const auto key = expression(depth + 1);
      skip();
      known = known && key && key->is_string() && at_ < text_.size() && text_[at_] == ':';
      if (!known) break;
      ++at_;
      skip();
      const auto value = expression(depth + 1);
      known = known && value;
      if (value) out[key->get<std::string>()] = *value;
      if (!to_separator()) break;
    }
    if (at_ < text_.size()) ++at_;
    return known ? std::optional(out) : std::nullopt;
  }
  std::optional<json> number_or_name() {
    const std::size_t begin = at_;
    if (text_[at_] == '-') ++at_;
    while (at_ < text_.size() && (is_shell_name_char(text_[at_]) || text_[at_] == '.')) ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (word == "True" || word == "False") return json(word == "True");
    if (word == "None") return json(nullptr);
    std::erase(word, '_');
    const json number = read_json(word).value_or(json());
    if (number.is_number()) return number;
    const auto known = names_.find(std::string(text_.substr(begin, at_ - begin)));
    return known == names_.end() ? std::nullopt : known->second;
  }
  std::optional<json> expression(int depth) {
    skip();
    if (at_ >= text_.size() || depth > kMostDeepPython) return std::nullopt;
    const std::optional<json> value = primary(depth);
    // Anything behind it (arithmetic, subscripts, conditions) is no literal any more.
    std::size_t behind = at_;
    while (behind < text_.size() && (text_[behind] == ' ' || text_[behind] == '\t')) ++behind;
    const char next = behind < text_.size() ? text_[behind] : '\n';
    return std::string_view(",)]}:\n\r#").find(next) == std::string_view::npos ? std::nullopt : value;
  }
  std::optional<json> primary(int depth) {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return string();
    if ((c == 'r' || c == 'b' || c == 'f') && at_ + 1 < text_.size() &&
        (text_[at_ + 1] == '"' || text_[at_ + 1] == '\'')) {
      ++at_;
      auto value = string();
      return c == 'f' && value && value->get<std::string>().find('{') != std::string::npos ? std::nullopt : value;
    }
    if (c == '[') return list(']', depth);
    if (c == '(') return list(')', depth);
    if (c == '{') return dictionary(depth);
    const auto value = number_or_name();
    if (at_ >= text_.size() || text_[at_] != '(') return value;
    if (depth > kMostDeepPython / 2) return std::nullopt;
    Call call = arguments(at_ + 1);  // MoeConfig(backend="TRTLLM")
    if (at_ < text_.size()) ++at_;
    return call.unread.empty() ? std::optional(call.keywords) : std::nullopt;
  }
  // NAME = value, at any depth; one that is set twice to different values is open.
  void read_assignments() {
    for (std::size_t line = 0; line < text_.size(); line = std::min(text_.find('\n', line), text_.size() - 1) + 1) {
      at_ = std::min(text_.find_first_not_of(" \t", line), text_.size());
      const std::string word = name_before_equals();
      if (word.empty() || word.find('.') != std::string::npos) continue;
      const auto value = expression(0);
      const auto [known, is_new] = names_.emplace(word, value);
      if (!is_new && known->second != value) known->second = std::nullopt;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::map<std::string, std::optional<json>> names_;
};

bool is_python(std::string_view text, std::string_view module) {
  const bool imports = text.find(fmt::format("from {}", module)) != std::string_view::npos ||
                       text.find(fmt::format("import {}", module)) != std::string_view::npos;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.starts_with("#!") && line.find("python") == std::string_view::npos) return false;
    if (line.empty() || line.starts_with('#')) continue;
    return imports && (line.starts_with("import ") || line.starts_with("from ") || line.starts_with("\"\"\"") ||
                       line.starts_with("'''"));
  }
  return false;
}

void add_words(const json& value, const std::string& name, std::string& words) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items()) add_words(inner, name.empty() ? key : name + "." + key, words);
    return;
  }
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  words += ' ' + shell_quote("--" + name + "=" + text);
}

}  // namespace

std::optional<LaunchPieces> pieces_of_python(std::string_view text) {
  for (const LaunchSyntax* syntax : launch_syntaxes()) {
    if (syntax->python_module.empty() || !is_python(text, syntax->python_module)) continue;
    LaunchPieces out;
    PythonReader reader(text);
    for (std::size_t at = text.find(kClass); at != std::string_view::npos; at = text.find(kClass, at + 1)) {
      if (at > 0 && (is_shell_name_char(text[at - 1]) || text[at - 1] == '.')) continue;
      PythonReader::Call call = reader.arguments(at + kClass.size());
      LaunchPiece piece{std::string(syntax->front_ends.front().command), "", reader.line_of(at), false,
                        std::move(call.unread)};
      add_words(call.keywords, "", piece.text);
      piece.text += '\n';
      out.pieces.push_back(std::move(piece));
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace a2asim
