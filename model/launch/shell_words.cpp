#include "model/launch/shell_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

namespace a2asim {
namespace {

constexpr std::size_t kMostExpandedBytes = 1 << 20;  // A=$A$A again and again would fill the memory

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

// `NAME=value` or `NAME+=value`.
struct Assignment {
  std::string_view name;  // empty: no assignment
  std::string_view value;
  bool appends = false;
};
Assignment read_assignment(std::string_view word) {
  if (const std::string_view name = assigned_name(word); !name.empty()) return {name, word.substr(name.size() + 1)};
  const std::size_t plus = word.find("+=");
  if (plus == std::string_view::npos || plus == 0 || !is_name_start(word.front())) return {};
  const std::string_view name = word.substr(0, plus);
  return std::ranges::all_of(name, is_name_char) ? Assignment{name, word.substr(plus + 2), true} : Assignment{};
}

// The } that belongs to the { at `open`.
std::size_t closing_brace(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

// What stands between ${ and }: a name, [@] or [2] behind it, and what replaces an unset value.
struct Expansion {
  std::string_view name;                     // empty: none of these forms
  std::string_view index;                    // "@", "*" or a number; empty: no array
  std::optional<std::string_view> fallback;  // of :- - := =
  bool empty_counts_as_unset = false;        // the colon
};
Expansion read_expansion(std::string_view inside) {
  Expansion out;
  std::size_t end = 0;
  while (end < inside.size() && is_name_char(inside[end])) ++end;
  if (end == 0 || !is_name_start(inside.front())) return {};
  std::string_view rest = inside.substr(end);
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) return {};
    out.index = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  }
  out.empty_counts_as_unset = rest.starts_with(':');
  if (out.empty_counts_as_unset) rest.remove_prefix(1);
  if (rest.starts_with('-') || rest.starts_with('=')) out.fallback = rest.substr(1);
  const bool must_be_set = rest.starts_with('?');  // ${TP:?give one}
  if (!out.fallback && !must_be_set && (!rest.empty() || out.empty_counts_as_unset)) return {};
  out.name = inside.substr(0, end);
  return out;
}

class Reader {
 public:
  Reader(std::string_view text, ShellVariables inherited, const OnShellCommand& on_command)
      : text_(text), variables_(std::move(inherited)), on_command_(on_command) {}

  Result<std::vector<Note>> read() {
    while (pos_ < text_.size() && !error_) step(text_[pos_]);
    if (!error_) end_command();
    if (!error_ && array_) stop("array", array_->where);
    note_defaults();
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
        return separator(c);
      case '#':
        if (in_word_) return add(c);
        pos_ = std::min(text_.find('\n', pos_), text_.size());
        return;
      default:
        return add(c);
    }
  }

  void separator(char c) {
    if (c == '(' && begins_array()) return;
    ++pos_;
    if (array_ && c == ')') return end_array();
    if (array_) return end_word();
    end_command();
  }

  // `ARGS=(` and `ARGS+=(`: the words up to the parenthesis are the array's, over any number of lines.
  bool begins_array() {
    const Assignment assignment = read_assignment(word_);
    if (array_ || assignment.name.empty() || !assignment.value.empty()) return false;
    array_ = Array{std::string(assignment.name), assignment.appends, pos_, std::move(command_)};
    command_.clear();
    word_.clear();
    in_word_ = false;
    ++pos_;
    return true;
  }

  void end_array() {
    end_word();
    std::vector<std::string>& items = variables_.arrays[array_->name];
    if (!array_->appends) items.clear();
    items.insert(items.end(), command_.begin(), command_.end());
    variables_.values.insert_or_assign(array_->name, items.empty() ? "" : items.front());
    command_ = std::move(array_->command_before);
    array_.reset();
  }

  void add(char c) {
    word_ += c;
    begin_word();
    ++pos_;
  }

  void begin_word() {
    if (!in_word_ && command_.empty()) command_line_ = line_at(pos_);
    in_word_ = true;
  }

  // Counts on from the last call, so that a text of many commands takes no longer than one of many words.
  std::size_t line_at(std::size_t where) {
    if (where < counted_) counted_ = 0, line_ = 1;
    line_ += static_cast<std::size_t>(std::ranges::count(text_.substr(counted_, where - counted_), '\n'));
    counted_ = where;
    return line_;
  }

  void stop(std::string_view what, std::size_t where) {
    error_ =
        Error{ErrorKind::bad_input, fmt::format("line {} of the command: the {} that begins at byte {} has no end: "
                                                "close it",
                                                line_at(where), what, where)};
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
    begin_word();
    pos_ = end + 1;
  }

  void double_quotes() {
    const std::size_t begin = pos_;
    begin_word();
    ++pos_;
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
    begin_word();
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
    if (text_[next] == '{') return braced_expansion(quoted);
    std::size_t end = next;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    if (end == next || !is_name_start(text_[next])) return add('$');
    Expansion expansion;
    expansion.name = text_.substr(next, end - next);
    substitute(expansion, end, quoted);
  }

  void braced_expansion(bool quoted) {
    const std::size_t close = closing_brace(text_, pos_ + 1);
    if (close == std::string_view::npos) return stop("expansion ${", pos_);
    const Expansion expansion = read_expansion(text_.substr(pos_ + 2, close - pos_ - 2));
    if (expansion.name.empty()) return copy_through(close, "expansion ${");
    if (expansion.index.empty()) return substitute(expansion, close + 1, quoted);
    const auto found = variables_.arrays.find(expansion.name);
    const bool all = expansion.index == "@" || expansion.index == "*";
    if (found == variables_.arrays.end() ||
        (!all && expansion.index.find_first_not_of("0123456789") != std::string_view::npos))
      return copy_through(close, "expansion ${");
    substitute_array(found->second, expansion.index, close + 1, quoted);
  }

  // A default with variables of its own, as in ${RANK:-$SLURM_NODEID}.
  std::string expanded(std::string_view text) {
    constexpr int kMostNested = 8;
    if (text.find('$') == std::string_view::npos || nested_ == kMostNested) return std::string(text);
    ++nested_;
    const std::string_view outer_text = std::exchange(text_, text);
    const std::size_t outer_pos = std::exchange(pos_, 0);
    std::string word = std::exchange(word_, "");
    const bool was_in_word = std::exchange(in_word_, true);
    while (pos_ < text_.size() && !error_) text_[pos_] == '$' ? expansion(/*quoted=*/true) : add(text_[pos_]);
    text_ = outer_text;
    pos_ = outer_pos;
    word.swap(word_);
    in_word_ = was_in_word;
    --nested_;
    return word;
  }

  // Puts the variable's value into the word; without quotes its blanks separate words, as in a shell.
  void substitute(const Expansion& expansion, std::size_t end, bool quoted) {
    const auto found = variables_.values.find(expansion.name);
    const bool is_set = found != variables_.values.end() && !(expansion.empty_counts_as_unset && found->second.empty());
    std::string value(is_set ? std::string_view(found->second) : text_.substr(pos_, end - pos_));
    if (!is_set && expansion.fallback) {
      value = expanded(*expansion.fallback);
      defaults_.emplace(expansion.name, value);
    }
    put(value, /*splits=*/!quoted && (is_set || expansion.fallback));
    pos_ = end;
  }

  // "${ARGS[@]}" keeps each element a word, "${ARGS[*]}" makes one word of all, ${ARGS[2]} is one element.
  void substitute_array(const std::vector<std::string>& items, std::string_view index, std::size_t end, bool quoted) {
    const bool all = index == "@" || index == "*";
    if (all && quoted && items.empty() && word_.empty()) in_word_ = false;  // no word at all
    for (std::size_t i = 0; i < items.size() && !error_; ++i) {
      if (!all && index != std::to_string(i)) continue;
      if (all && i > 0 && quoted && index == "*")
        word_ += ' ';
      else if (all && i > 0)
        end_word();
      put(items[i], !quoted);
      if (quoted) begin_word();  // an empty element is a word too
    }
    pos_ = end;
  }

  void put(std::string_view value, bool splits) {
    expanded_bytes_ += value.size() + 1;
    if (expanded_bytes_ > kMostExpandedBytes) {
      error_ = Error{ErrorKind::bad_input, "the variables of the command expand to more than 1 MiB: write it out"};
      return;
    }
    for (const char c : value) {
      if (splits && (is_blank(c) || c == '\n')) {
        end_word();
      } else {
        word_ += c;
        begin_word();
      }
    }
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
    if (!sets_variables()) on_command_(command_, variables_, command_line_);
    command_.clear();
  }

  bool assign(std::string_view word) {
    const Assignment assignment = read_assignment(word);
    if (assignment.name.empty()) return false;
    std::string& value = variables_.values[std::string(assignment.name)];
    if (!assignment.appends) value.clear();
    value += assignment.value;
    variables_.arrays.erase(std::string(assignment.name));
    return true;
  }

  // `A=1 B=2`, `export A=1 B`, `unset A`, `declare A=1`: true when the command did nothing else.
  bool sets_variables() {
    const auto first = std::ranges::find_if(command_, [](const std::string& word) {
      return !is_one_of(word, {"then", "else", "do", "{"});
    });
    const std::span<const std::string> words(first, command_.end());
    const auto is_assignment = [](const std::string& word) { return !read_assignment(word).name.empty(); };
    if (std::ranges::all_of(words, is_assignment)) {
      for (const std::string& word : words) assign(word);
      return true;
    }
    const std::string& verb = words.front();
    if (!is_one_of(verb, {"export", "unset", "declare", "typeset", "local", "readonly"})) return false;
    bool exports = verb == "export";
    for (const std::string& word : words.subspan(1)) {
      if (word.starts_with('-')) {
        exports |= word.find('x') != std::string::npos;
        continue;
      }
      const std::string name(is_assignment(word) ? read_assignment(word).name : word);
      if (verb == "unset") {
        variables_.values.erase(name);
        variables_.arrays.erase(name);
        variables_.exported.erase(name);
        continue;
      }
      assign(word);
      if (exports) variables_.exported.insert(name);
    }
    return true;
  }

  void note_defaults() {
    std::string list;
    for (const auto& [name, value] : defaults_) list += fmt::format("{}{}={}", list.empty() ? "" : ", ", name, value);
    if (!list.empty()) notes_.push_back({"not set in the text, so that the default written there counts: " + list});
  }

  struct Array {
    std::string name;
    bool appends = false;
    std::size_t where = 0;
    ShellCommand command_before;  // the words in front of it, as in `declare -a ARGS=(..)`
  };

  std::string_view text_;
  std::size_t pos_ = 0;
  std::size_t counted_ = 0, line_ = 1;  // see line_at
  std::string word_;
  bool in_word_ = false;         // an empty quoted word is a word too
  bool skip_next_word_ = false;  // the target of a redirection
  std::size_t expanded_bytes_ = 0;
  int nested_ = 0;  // see expanded
  ShellCommand command_;
  std::size_t command_line_ = 1;
  std::optional<Array> array_;  // the one that is being read
  std::map<std::string, std::string, std::less<>> defaults_;
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

std::string take_defaults(std::string_view word, std::vector<Note>& notes) {
  std::string out;
  while (!word.empty()) {
    const std::size_t begin = word.find("${");
    const std::size_t close = begin == std::string_view::npos ? begin : closing_brace(word, begin + 1);
    if (close == std::string_view::npos) break;
    const Expansion expansion = read_expansion(word.substr(begin + 2, close - begin - 2));
    const bool has_default = expansion.index.empty() && expansion.fallback;
    out += word.substr(0, begin);
    out += has_default ? *expansion.fallback : word.substr(begin, close + 1 - begin);
    if (has_default)
      notes.push_back({fmt::format("{} is not set, so that the default written there counts: {}", expansion.name,
                                   *expansion.fallback)});
    word.remove_prefix(close + 1);
  }
  return out + std::string(word);
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
