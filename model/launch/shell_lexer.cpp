#include "model/launch/shell_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

constexpr int kMostNestedQuotes = 60;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The end of the quote or expansion that begins at `at`: `at` itself when none does, npos without an end or where they
// nest too deep.
std::size_t end_of_special(std::string_view text, std::size_t at, int depth);

std::size_t end_of_bracket(std::string_view text, std::size_t open, int depth) {
  if (depth > kMostNestedQuotes) return npos;
  const char opening = text[open], closing = opening == '(' ? ')' : opening == '[' ? ']' : '}';
  int level = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (c == opening) {
      ++level;
    } else if (c == closing) {
      if (--level == 0) return i;
    } else if (c != '\'' || opening != '{') {  // ${X:-it's}: inside double quotes an apostrophe is a letter
      i = end_of_special(text, i, depth + 1);
      if (i == npos) return npos;
    }
  }
  return npos;
}

std::size_t end_of_quotes(std::string_view text, std::size_t open, int depth) {
  const char quote = text[open];
  const bool escapes = quote != '\'' || (open > 0 && text[open - 1] == '$');
  for (std::size_t i = open + 1; i < text.size(); ++i) {
    if (text[i] == quote) return i;
    if (text[i] == '\\' && escapes) {
      ++i;
    } else if (quote == '"' && text[i] == '$') {
      i = end_of_special(text, i, depth + 1);
      if (i == npos) return npos;
    }
  }
  return npos;
}

std::size_t end_of_special(std::string_view text, std::size_t at, int depth) {
  if (depth > kMostNestedQuotes) return npos;
  const char c = text[at], next = at + 1 < text.size() ? text[at + 1] : '\0';
  if (c == '\'' || c == '"' || c == '`') return end_of_quotes(text, at, depth);
  if (c == '$' && (next == '(' || next == '{' || next == '[')) return end_of_bracket(text, at + 1, depth);
  return at;
}

}  // namespace

std::size_t end_of_quote(std::string_view text, std::size_t open) { return end_of_quotes(text, open, 0); }
std::size_t end_of_expansion(std::string_view text, std::size_t dollar) { return end_of_special(text, dollar, 0); }
std::size_t end_of_index(std::string_view text, std::size_t open) { return end_of_bracket(text, open, 0); }

std::string_view assigned_name(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == npos || equals == 0 || !is_shell_name_start(word.front())) return {};
  const std::string_view name = word.substr(0, equals);
  return std::ranges::all_of(name, is_shell_name_char) ? name : std::string_view();
}

std::size_t ShellLexer::line_at(std::size_t where) {
  // From the last place asked for, be it before or behind: counting from the top each time would be a square.
  const auto between = text_.substr(std::min(where, counted_), std::max(where, counted_) - std::min(where, counted_));
  const auto lines = static_cast<std::size_t>(std::ranges::count(between, '\n'));
  line_ = where < counted_ ? line_ - lines : line_ + lines;
  counted_ = where;
  return line_;
}

void ShellLexer::stop(std::string_view what, std::size_t where) {
  if (error_) return;
  error_ = Error{ErrorKind::bad_input, fmt::format("line {} of the command: the {} that begins at byte {} has no end: "
                                                   "close it",
                                                   line_at(where), what, where)};
  token_ = ShellToken::end;
}

// A backslash before a line's end joins lines; blanks between the two are a common slip of pasted commands.
std::size_t ShellLexer::continuation(std::size_t at) {
  std::size_t end = at + 1;
  while (end < text_.size() && is_blank(text_[end])) ++end;
  if (end < text_.size() && text_[end] != '\n') return at;
  if (text_.substr(at + 1, end - at - 1).find_first_of(" \t") != npos && end < text_.size())
    notes.push_back({"a backslash is followed by blanks: read as a line continuation, which a shell would not"});
  return std::min(end + 1, text_.size());
}

void ShellLexer::skip_blanks() {
  while (pos_ < text_.size()) {
    if (is_blank(text_[pos_])) {
      ++pos_;
    } else if (text_[pos_] == '#') {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else if (text_[pos_] == '\\' && continuation(pos_) != pos_) {
      pos_ = continuation(pos_);
    } else {
      return;
    }
  }
}

void ShellLexer::advance() {
  if (error_) return;
  word_.clear();
  skip_blanks();
  begin_ = pos_;
  if (pos_ >= text_.size()) {
    token_ = ShellToken::end;
    if (!open_.empty()) read_heredocs();
    return;
  }
  const std::string_view next = text_.substr(pos_, 3);
  struct Operator {
    std::string_view text;
    ShellToken token;
  };
  static constexpr Operator kOperators[] = {
      {"\n", ShellToken::newline},   {"&&", ShellToken::and_},     {"||", ShellToken::or_},
      {";;&", ShellToken::end_case}, {";;", ShellToken::end_case}, {";&", ShellToken::end_case},
      {"|&", ShellToken::pipe},      {"|", ShellToken::pipe},      {";", ShellToken::semicolon},
      {"(", ShellToken::open},       {")", ShellToken::close},
  };
  if (next.starts_with('&') && !next.starts_with("&>") && !next.starts_with("&&"))
    return take(ShellToken::background, 1);
  for (const Operator& one : kOperators)
    if (next.starts_with(one.text)) return take(one.token, one.text.size());
  token_ = ShellToken::word;
  read_word();
}

void ShellLexer::take(ShellToken token, std::size_t size) {
  token_ = token;
  pos_ += size;
  if (token == ShellToken::newline && !open_.empty()) read_heredocs();
}

// `<model>` is a placeholder of a manual.
std::size_t ShellLexer::end_of_placeholder(std::size_t at) const {
  const std::size_t end = text_.find_first_of("<>|&; \t\r\n'\"$`", at + 1);
  const bool is_one = end != npos && end > at + 1 && text_[end] == '>' && is_shell_name_start(text_[at + 1]);
  return is_one ? end : npos;
}

void ShellLexer::read_word() {
  while (pos_ < text_.size() && !error_) {
    const char c = text_[pos_];
    if (is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
      return;
    }
    if (c == '<' && end_of_placeholder(pos_) != npos) {
      copy_to(end_of_placeholder(pos_));
      continue;
    }
    if ((c == '<' || c == '>') && text_.substr(pos_ + 1).starts_with('(') && word_.empty()) {  // <(command)
      const std::size_t end = end_of_bracket(text_, pos_ + 1, 0);
      if (end == npos) return stop("substitution", pos_);
      return copy_to(end);
    }
    if (c == '<' || c == '>') return;
    if (c == '\\') {
      const std::size_t next = continuation(pos_);
      if (next != pos_) {
        pos_ = next;
        if (word_.empty()) return;  // the caller asks again
        continue;
      }
      copy_to(std::min(pos_ + 1, text_.size() - 1));
      continue;
    }
    const std::size_t end = end_of_special(text_, pos_, 0);
    if (end == npos) return stop(name_of(pos_), pos_);
    copy_to(end);
  }
}

std::string_view ShellLexer::name_of(std::size_t at) const {
  switch (text_[at]) {
    case '\'':
      return "quote '";
    case '"':
      return "quote \"";
    case '`':
      return "backquote";
    default:
      return text_[at + 1] == '(' ? "substitution $(" : text_[at + 1] == '[' ? "arithmetic $[" : "expansion ${";
  }
}

void ShellLexer::copy_to(std::size_t last) {
  word_ += text_.substr(pos_, last - pos_ + 1);
  pos_ = last + 1;
}

void ShellLexer::read_heredocs() {
  for (const Heredoc& heredoc : std::exchange(open_, {})) {
    std::string body;
    bool ended = false;
    while (pos_ < text_.size() && !ended) {
      const std::size_t end = std::min(text_.find('\n', pos_), text_.size());
      std::string_view line = text_.substr(pos_, end - pos_);
      pos_ = std::min(end + 1, text_.size());
      if (line.ends_with('\r')) line.remove_suffix(1);
      while (heredoc.strips_tabs && line.starts_with('\t')) line.remove_prefix(1);
      ended = line == heredoc.delimiter;
      if (!ended) body.append(line).push_back('\n');
    }
    if (!ended) return stop("here-document", heredoc.where);
    heredocs[heredoc.id].text = std::move(body);
  }
}

bool ShellLexer::at_word(std::initializer_list<std::string_view> words) const {
  return token_ == ShellToken::word && std::ranges::find(words, word_) != words.end();
}

bool ShellLexer::at_redirect() const {
  if (token_ != ShellToken::word || pos_ >= text_.size()) return false;
  const bool is_named = word_.size() > 2 && word_.front() == '{' && word_.back() == '}' &&  // {log}>FILE
                        word_.find_first_of("$,.\"'") == std::string::npos;
  if (!is_named && word_.find_first_not_of("0123456789") != std::string::npos) return false;
  return text_[pos_] == '<' || text_[pos_] == '>' || text_.substr(pos_, 2) == "&>";
}

bool ShellLexer::at_function_head() const {
  if (!next_is('(') || word_.empty()) return false;
  std::size_t at = pos_ + 1;
  while (at < text_.size() && is_blank(text_[at])) ++at;
  return at < text_.size() && text_[at] == ')' &&
         std::ranges::all_of(word_, [](char c) { return is_shell_name_char(c) || c == '-' || c == '.' || c == ':'; });
}

void ShellLexer::skip_newlines() {
  while (token_ == ShellToken::newline || token_ == ShellToken::semicolon) advance();
}

std::optional<std::string> ShellLexer::arithmetic() {
  const std::size_t end = begins_with("((") ? end_of_bracket(text_, begin_, 0) : npos;
  if (end == npos || text_[end - 1] != ')') return std::nullopt;
  std::string inside(text_.substr(begin_ + 2, end - begin_ - 3));
  pos_ = end + 1;
  advance();
  return inside;
}

ShellRedirect ShellLexer::redirect() {
  const std::size_t where = pos_;
  ShellRedirect one;
  one.file = word_;
  while (pos_ < text_.size() && std::string_view("<>&|").find(text_[pos_]) != npos) one.op += text_[pos_++];
  const bool strips = one.op == "<<" && next_is('-');
  if (strips) ++pos_;
  skip_blanks();
  word_.clear();
  read_word();
  one.target = word_;
  if (one.op == "<<") {
    Heredoc heredoc{one.target, strips, where, heredocs.size()};
    std::erase_if(heredoc.delimiter, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    one.heredoc = static_cast<int>(heredocs.size());
    heredocs.push_back({"", heredoc.delimiter == one.target});
    open_.push_back(std::move(heredoc));
  }
  advance();
  return one;
}

std::string ShellLexer::operator_character() { return std::string(1, text_[pos_++]); }

void ShellLexer::refuse(std::string message) {
  if (!error_) error_ = Error{ErrorKind::bad_input, std::move(message)};
  token_ = ShellToken::end;
}

}  // namespace a2asim
