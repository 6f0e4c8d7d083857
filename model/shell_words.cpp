#include "model/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace a2asim {
namespace {

constexpr std::size_t kMostExpandedBytes = 1 << 20;  // A=$A$A again and again would fill the memory

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

class Reader {
 public:
  Reader(std::string_view text, ShellVariables inherited, const OnShellCommand& on_command)
      : text_(text), variables_(std::move(inherited)), on_command_(on_command) {}

  Result<std::vector<Note>> read() {
    while (pos_ < text_.size() && !error_) step(text_[pos_]);
    if (!error_) end_command();
    if (error_) return tl::unexpected<Error>(std::move(*error_));
    return std::move(notes_);
  }

 private:
  void step(char c) {
    switch (c) {
      case '\\':
        return backslash();
      case '\'':
        return single_quotes();
      case '"':
        return double_quotes();
      case '$':
        return expansion(/*quoted=*/false);
      case '`':
        return copy_through(text_.find('`', pos_ + 1), "backquote");
      case '<':
      case '>':
        return redirection();
      case ' ':
      case '\t':
        ++pos_;
        return end_word();
      case '&':
        if (text_.substr(pos_, 2) == "&>") return redirection();
        [[fallthrough]];
      case '\n':
      case '\r':
      case ';':
      case '|':
      case '(':
      case ')':
        ++pos_;
        return end_command();
      case '#':
        if (in_word_) return add(c);
        pos_ = std::min(text_.find('\n', pos_), text_.size());
        return;
      default:
        return add(c);
    }
  }

  void add(char c) {
    word_ += c;
    in_word_ = true;
    ++pos_;
  }

  void stop(std::string_view what, std::size_t where) {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(where), '\n');
    error_ =
        Error{ErrorKind::bad_input, fmt::format("line {} of the command: the {} that begins at byte {} has no end: "
                                                "close it",
                                                line, what, where)};
  }

  // A backslash before a line's end joins lines; blanks between the two are a common slip of pasted commands.
  void backslash() {
    std::size_t end = pos_ + 1;
    while (end < text_.size() && (is_blank(text_[end]) || text_[end] == '\r')) ++end;
    if (end >= text_.size() || text_[end] == '\n') {
      if (text_.substr(pos_ + 1, end - pos_ - 1).find_first_of(" \t") != std::string_view::npos && end < text_.size())
        notes_.push_back({"a backslash is followed by blanks: read as a line continuation, which a shell would not"});
      pos_ = std::min(end + 1, text_.size());
      return;
    }
    ++pos_;
    add(text_[pos_]);
  }

  void single_quotes() {
    const std::size_t end = text_.find('\'', pos_ + 1);
    if (end == std::string_view::npos) return stop("quote '", pos_);
    word_ += text_.substr(pos_ + 1, end - pos_ - 1);
    in_word_ = true;
    pos_ = end + 1;
  }

  void double_quotes() {
    const std::size_t begin = pos_++;
    in_word_ = true;
    while (pos_ < text_.size() && text_[pos_] != '"' && !error_) {
      const char c = text_[pos_];
      const char next = pos_ + 1 < text_.size() ? text_[pos_ + 1] : '\0';
      if (c == '$') {
        expansion(/*quoted=*/true);
      } else if (c == '\\' && next == '\n') {
        pos_ += 2;
      } else if (c == '\\' && (next == '"' || next == '\\' || next == '$' || next == '`')) {
        ++pos_;
        add(next);
      } else {
        add(c);
      }
    }
    if (error_) return;
    if (pos_ >= text_.size()) return stop("quote \"", begin);
    ++pos_;
  }

  // Command substitutions stay as they are written: nothing is run here.
  void copy_through(std::size_t end, std::string_view what) {
    if (end == std::string_view::npos) return stop(what, pos_);
    word_ += text_.substr(pos_, end - pos_ + 1);
    in_word_ = true;
    pos_ = end + 1;
  }

  std::size_t matching_parenthesis(std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < text_.size(); ++i) {
      if (text_[i] == '(') ++depth;
      if (text_[i] == ')' && --depth == 0) return i;
    }
    return std::string_view::npos;
  }

  void expansion(bool quoted) {
    const std::size_t next = pos_ + 1;
    if (next >= text_.size()) return add('$');
    if (text_[next] == '(') return copy_through(matching_parenthesis(next), "substitution $(");
    const bool braces = text_[next] == '{';
    const std::size_t begin = next + (braces ? 1 : 0);
    std::size_t end = begin;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    if (!braces) {
      if (end == begin || !is_name_start(text_[begin])) return add('$');
      return substitute(text_.substr(begin, end - begin), std::nullopt, end, quoted);
    }
    const std::size_t close = text_.find('}', begin);
    if (close == std::string_view::npos) return stop("expansion ${", pos_);
    const std::string_view name = text_.substr(begin, end - begin);
    const std::string_view modifier = text_.substr(end, close - end);
    if (name.empty() || !(modifier.empty() || modifier.starts_with(":-"))) return copy_through(close, "expansion ${");
    substitute(name, modifier.empty() ? std::nullopt : std::optional(modifier.substr(2)), close + 1, quoted);
  }

  // Puts the variable's value into the word; without quotes its blanks separate words, as in a shell.
  void substitute(std::string_view name, std::optional<std::string_view> fallback, std::size_t end, bool quoted) {
    const auto found = variables_.values.find(name);
    const bool is_set = found != variables_.values.end() && !(fallback && found->second.empty());
    const std::string value(is_set ? std::string_view(found->second)
                                   : fallback.value_or(text_.substr(pos_, end - pos_)));
    const bool splits = !quoted && (is_set || fallback);
    expanded_bytes_ += value.size();
    if (expanded_bytes_ > kMostExpandedBytes) {
      error_ = Error{ErrorKind::bad_input, "the variables of the command expand to more than 1 MiB: write it out"};
      return;
    }
    for (const char c : value) {
      if (splits && (is_blank(c) || c == '\n')) {
        end_word();
      } else {
        word_ += c;
        in_word_ = true;
      }
    }
    pos_ = end;
  }

  // `2>&1`, `> log`, `&> log`, `< file`: operator and target go. `<model>` is a placeholder of a manual, and stays.
  void redirection() {
    if (text_[pos_] == '<') {
      const std::size_t end = text_.find_first_of("<>|&; \t\r\n'\"$`", pos_ + 1);
      if (end != std::string_view::npos && end > pos_ + 1 && text_[end] == '>' && is_name_start(text_[pos_ + 1]))
        return copy_through(end, "placeholder");
    }
    if (word_.find_first_not_of("0123456789") == std::string::npos) {  // the file descriptor
      word_.clear();
      in_word_ = false;
    }
    end_word();
    while (pos_ < text_.size() && std::string_view("<>&|").find(text_[pos_]) != std::string_view::npos) ++pos_;
    skip_next_word_ = true;
  }

  void end_word() {
    if (!in_word_) return;
    if (!skip_next_word_) command_.push_back(std::move(word_));
    skip_next_word_ = false;
    word_.clear();
    in_word_ = false;
  }

  void end_command() {
    end_word();
    skip_next_word_ = false;
    if (command_.empty()) return;
    if (!sets_variables()) on_command_(command_, variables_);
    command_.clear();
  }

  void assign(std::string_view word) {
    const std::string_view name = assigned_name(word);
    variables_.values.insert_or_assign(std::string(name), std::string(word.substr(name.size() + 1)));
  }

  // `A=1 B=2`, `export A=1 B`, `unset A`: true when the command did nothing else.
  bool sets_variables() {
    const auto is_assignment = [](const std::string& word) { return !assigned_name(word).empty(); };
    if (std::all_of(command_.begin(), command_.end(), is_assignment)) {
      for (const std::string& word : command_) assign(word);
      return true;
    }
    if (command_.front() != "export" && command_.front() != "unset") return false;
    for (std::size_t i = 1; i < command_.size(); ++i) {
      const std::string& word = command_[i];
      const std::string name(is_assignment(word) ? assigned_name(word) : word);
      if (command_.front() == "unset") {
        variables_.values.erase(name);
        variables_.exported.erase(name);
        continue;
      }
      if (is_assignment(word)) assign(word);
      if (!name.starts_with('-')) variables_.exported.insert(name);
    }
    return true;
  }

  std::string_view text_;
  std::size_t pos_ = 0;
  std::string word_;
  bool in_word_ = false;         // an empty quoted word is a word too
  bool skip_next_word_ = false;  // the target of a redirection
  std::size_t expanded_bytes_ = 0;
  ShellCommand command_;
  ShellVariables variables_;
  const OnShellCommand& on_command_;
  std::vector<Note> notes_;
  std::optional<Error> error_;
};

}  // namespace

Result<std::vector<Note>> read_shell(std::string_view text, ShellVariables inherited,
                                     const OnShellCommand& on_command) {
  return Reader(text, std::move(inherited), on_command).read();
}

std::string_view assigned_name(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0 || !is_name_start(word.front())) return {};
  const std::string_view name = word.substr(0, equals);
  return std::all_of(name.begin(), name.end(), is_name_char) ? name : std::string_view();
}

std::string shell_quote(std::string_view word) {
  const auto is_plain = [](char c) {
    return is_name_char(c) || std::string_view("@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace a2asim
