// Servers that a Python test or script starts, as shell text. It is read as data, never run: literals, names that
// literals were assigned to, and lists that are put together from them. What is anything else stays open.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/launch/file_kinds.h"
#include "model/launch/front_end.h"
#include "model/launch/launch_text.h"
#include "model/launch/python_tokens.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

using Token = PythonToken;

// A word as the shell is to read it: quoted, or a variable that nothing sets.
struct PythonWord {
  std::string text;
  bool is_open = false;
  std::string shell() const { return is_open ? "$" + text : shell_quote(text); }
};
using PythonWords = std::vector<PythonWord>;

PythonWord open_word(std::string_view expression) {
  std::string name;
  for (const char c : expression) name += is_shell_name_char(c) ? c : '_';
  if (name.empty() || !is_shell_name_start(name.front())) name.insert(0, "value_");
  return {name, true};
}

class Reader {
 public:
  explicit Reader(std::string_view text) : tokens_(python_tokens(text)) {
    match_brackets();
    find_commands();
    find_changes();
  }

  LaunchPieces read() {
    int depth = 0, open = 0;  // a keyword argument is no assignment
    for (std::size_t i = 0; i + 1 < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.is("(") || token.is("{")) ++depth;
      if (token.is(")") || token.is("}")) --depth;
      open += token.is("[") ? 1 : token.is("]") ? -1 : 0;
      if (token.kind == Token::Kind::name && (token.text == "class" || token.text == "def") &&
          tokens_[i + 1].kind == Token::Kind::name)
        (token.text == "class" ? class_ : function_) = tokens_[i + 1].text;
      if (token.is("[") && is_command(i))
        i = add_command(i), --open;
      else if (depth == 0 && token.kind == Token::Kind::name && tokens_[i + 1].is("=") && !tokens_[i + 2].is("="))
        assign(i);
      else if (token.kind == Token::Kind::name && tokens_[i + 1].is("("))
        shell_call(i), call(i);
      else if (token.text == "environ" && tokens_[i + 1].is("["))
        set_environment(i);
    }
    // Lists of options that no call here takes: a base class elsewhere starts the server.
    for (const Assigned& list : lists_)
      if (!used_.contains(list.name) && list.name.ends_with("args") && has_options(list.words))
        add(list.words, list.line, list.owner);
    LaunchPieces out;
    out.pieces = std::move(pieces_);
    if (depth > 0 || open > 0) out.error = Error{ErrorKind::bad_input, "the Python text ends inside a bracket"};
    return out;
  }

 private:
  struct Assigned {
    std::string name;
    PythonWords words;
    std::size_t line;
    std::string owner;
    std::vector<std::string> changes;  // behind it, that are not read
  };

  static bool has_options(const PythonWords& words) {
    return std::ranges::any_of(words,
                               [](const PythonWord& word) { return !word.is_open && word.text.starts_with("--"); });
  }

  // Once for the whole text, so that brackets in brackets take no longer than as many beside each other.
  void match_brackets() {
    behind_.assign(tokens_.size(), tokens_.size() - 1);
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.is("(") || token.is("[") || token.is("{")) open.push_back(i);
      if (open.empty() || (!token.is(")") && !token.is("]") && !token.is("}"))) continue;
      behind_[open.back()] = i + 1;
      open.pop_back();
    }
  }

  // The index behind the bracket that closes the one at `i`.
  std::size_t behind(std::size_t i) const { return behind_[i]; }

  // Where the element, argument or statement that begins at `i` ends: at a comma or bracket of its own depth.
  std::size_t end_of_element(std::size_t i) const {
    while (i + 1 < tokens_.size()) {
      const Token& token = tokens_[i];
      if (token.is(",") || token.is("]") || token.is(")") || token.is("}")) return i;
      i = token.is("(") || token.is("[") || token.is("{") ? behind(i) : i + 1;
    }
    return i;
  }

  std::string words_between(std::size_t begin, std::size_t end) const {
    std::string text;
    for (std::size_t i = begin; i < end && text.size() < 40; ++i) text += tokens_[i].text;
    return text;
  }

  // The value of one element.
  PythonWord scalar(std::size_t begin, std::size_t end) const {
    const auto converts = [&](std::string_view word) { return word == "str" || word == "int"; };
    while (end > begin + 2 && converts(tokens_[begin].text) && tokens_[begin + 1].is("(") && behind(begin + 1) == end)
      begin += 2, --end;
    if (begin == end) return open_word("");
    const Token& first = tokens_[begin];
    if (first.kind == Token::Kind::string) {
      PythonWord word{"", false};
      for (std::size_t i = begin; i < end; ++i) {
        if (tokens_[i].kind != Token::Kind::string || tokens_[i].is_open) return open_word(words_between(begin, end));
        word.text += tokens_[i].text;
      }
      return word;
    }
    if (first.kind == Token::Kind::number && end == begin + 1) return {first.text, false};
    if (first.is("-") && end == begin + 2 && tokens_[begin + 1].kind == Token::Kind::number)
      return {"-" + tokens_[begin + 1].text, false};
    const bool dotted = is_dotted_name(begin, end);
    if (const auto known = scalars_.find(tokens_[end - 1].text); dotted && known != scalars_.end())
      return known->second;
    return open_word(dotted ? tokens_[end - 1].text : words_between(begin, end));
  }

  bool is_dotted_name(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i)
      if ((i - begin) % 2 == 0 ? tokens_[i].kind != Token::Kind::name : !tokens_[i].is(".")) return false;
    return (end - begin) % 2 == 1;
  }

  // A list, or lists added up; what is no list that is known stays open.
  PythonWords list(std::size_t begin, std::size_t end) {
    PythonWords words;
    for (std::size_t i = begin; i < end;) {
      std::size_t next = i;
      while (next < end && !tokens_[next].is("+"))
        next = tokens_[next].is("[") || tokens_[next].is("(") ? behind(next) : next + 1;
      add_term(i, std::min(next, end), words);
      i = next + 1;
    }
    return words;
  }

  void add_term(std::size_t begin, std::size_t end, PythonWords& words) {
    if (begin >= end) return;
    const bool brackets = (tokens_[begin].is("[") || tokens_[begin].is("(")) && behind(begin) == end;
    if (!brackets) {
      const std::string& name = tokens_[end - 1].text;
      const auto known = std::ranges::find(lists_.rbegin(), lists_.rend(), name, &Assigned::name);
      if (!is_dotted_name(begin, end) || known == lists_.rend())
        return words.push_back(open_word(words_between(begin, end)));
      used_.insert(name);
      words.insert(words.end(), known->words.begin(), known->words.end());
      unread_.insert(unread_.end(), known->changes.begin(), known->changes.end());
      return;
    }
    for (std::size_t i = begin + 1; i + 1 < end;) {
      const std::size_t stop = std::min(end_of_element(i), end - 1);
      if (tokens_[i].is("*"))
        add_term(i + 1, stop, words);
      else if (stop > i)
        words.push_back(scalar(i, stop));
      i = stop + 1;
    }
  }

  void assign(std::size_t i) {
    const std::size_t begin = i + 2;
    const Token& value = tokens_[begin];
    const std::size_t name_end = end_of_name(begin);
    const bool adds = value.kind == Token::Kind::name && tokens_[name_end].is("+");
    if (value.is("[") || (adds && is_list(tokens_[name_end - 1].text))) {
      const std::size_t end = end_of_sum(begin);
      const std::string& owner = class_.empty() ? function_ : class_;
      lists_.push_back({tokens_[i].text, list(begin, end), value.line, owner, changes_of(i, end)});
    } else if (value.kind == Token::Kind::string && !value.is_open) {
      std::size_t end = begin + 1;
      while (tokens_[end].kind == Token::Kind::string) ++end;
      scalars_[tokens_[i].text] = scalar(begin, end);
      changes_[tokens_[i].text] = changes_of(i, end);
    } else if (value.kind == Token::Kind::number) {
      scalars_[tokens_[i].text] = scalar(begin, begin + 1);
    }
  }

  bool is_list(std::string_view name) const { return std::ranges::count(lists_, name, &Assigned::name) > 0; }

  std::size_t end_of_name(std::size_t i) const {
    while (tokens_[i + 1].is(".")) i += 2;
    return std::min(i + 1, tokens_.size() - 1);
  }

  // Words that start a server of some engine: MODULE, or PROGRAM before its subcommand.
  void find_commands() {
    const auto starts = [&](const FrontEnd& one, std::size_t at) {
      const std::string& word = tokens_[at].text;
      return (!one.module.empty() && word == one.module) ||
             (!one.program.empty() && word == one.program && tokens_[at + 2].text == one.subcommand);
    };
    for (std::size_t at = 0; at + 2 < tokens_.size(); ++at)
      for (const LaunchSyntax* syntax : launch_syntaxes())
        if (tokens_[at].kind == Token::Kind::string &&
            std::ranges::any_of(syntax->front_ends, [&](const FrontEnd& one) { return starts(one, at); }))
          commands_.push_back(at);
  }

  // ["python3", "-m", MODULE, ..] or [PROGRAM, SUBCOMMAND, ..] of some engine.
  bool is_command(std::size_t i) const {
    const auto first = std::ranges::lower_bound(commands_, i);
    return first != commands_.end() && *first + 1 < behind(i);
  }

  // Behind lists, names and calls that are added up from `i` on.
  std::size_t end_of_sum(std::size_t i) const {
    const auto end_of_term = [&](std::size_t at) {
      if (!tokens_[at].is("[") && !tokens_[at].is("(")) at = end_of_name(at);
      while (tokens_[at].is("[") || tokens_[at].is("(")) at = behind(at);
      return at;
    };
    std::size_t end = end_of_term(i);
    while (tokens_[end].is("+") && end + 2 < tokens_.size()) end = end_of_term(end + 1);
    return end;
  }

  std::size_t add_command(std::size_t i) {
    const std::size_t end = end_of_sum(i);
    std::string text = environment();
    for (const PythonWord& word : list(i, end)) text += word.shell() + ' ';
    LaunchPiece piece{text + "\n", class_.empty() ? function_ : class_, tokens_[i].line, false, {}};
    if (i > 1 && tokens_[i - 1].is("=") && tokens_[i - 2].kind == Token::Kind::name) unread_ = changes_of(i - 2, end);
    add_piece(std::move(piece));
    return end - 1;
  }

  // Where names get a value, and where that is changed: args += [..], args.extend(..), args[0] = ..
  void find_changes() {
    static constexpr std::string_view kChanges[] = {"append", "extend", "insert", "remove", "pop"};
    for (std::size_t i = 0; i + 3 < tokens_.size(); ++i) {
      const Token &token = tokens_[i], &next = tokens_[i + 1];
      if (token.kind != Token::Kind::name) continue;
      if (token.text == "def" || token.text == "class") scopes_.push_back(i);
      const bool assigns = next.is("=") && !tokens_[i + 2].is("=");
      const bool grows = next.is("+") && tokens_[i + 2].is("=");
      const bool calls = next.is(".") && std::ranges::find(kChanges, tokens_[i + 2].text) != std::end(kChanges);
      const std::size_t end = next.is("[") ? behind(i + 1) : i;
      const bool sets = end > i && tokens_[end].is("=") && !tokens_[end + 1].is("=");
      if (assigns || grows || calls || sets) named_[name_at(i)].push_back({i, assigns});
    }
  }

  std::string name_at(std::size_t i) const { return (i > 0 && tokens_[i - 1].is(".") ? "." : "") + tokens_[i].text; }

  // What is done, in the same function, to the value that the name at `name` got before `from`: which of it runs is not
  // known.
  std::vector<std::string> changes_of(std::size_t name, std::size_t from) const {
    const auto found = named_.find(name_at(name));
    const auto scope = std::ranges::lower_bound(scopes_, from);
    const std::size_t end = scope == scopes_.end() ? tokens_.size() : *scope;
    std::vector<std::string> out;
    if (found == named_.end()) return out;
    for (auto one = std::ranges::lower_bound(found->second, from, {}, &Change::at);
         one != found->second.end() && one->at < end && !one->assigns; ++one)
      out.push_back(fmt::format("what line {} does to {}", tokens_[one->at].line, tokens_[name].text));
    return out;
  }

  // os.system("python3 -m .."), subprocess.Popen(command, shell=True), shlex.split("..")
  void shell_call(std::size_t i) {
    static constexpr std::string_view kCalls[] = {"system",     "Popen",        "run",  "call",
                                                  "check_call", "check_output", "split"};
    if (std::ranges::find(kCalls, tokens_[i].text) == std::end(kCalls)) return;
    std::string text;
    bool is_open = false;
    std::size_t at = i + 2;
    for (; tokens_[at].kind == Token::Kind::string || (at > i + 2 && is_sum_of_strings(at)); ++at) {
      if (tokens_[at].is("+")) continue;
      text += tokens_[at].text;
      is_open |= tokens_[at].is_open;
    }
    if (const auto known = scalars_.find(tokens_[at].text); text.empty() && known != scalars_.end())
      text = known->second.text, ++at, unread_ = changes_[known->first];
    if (!names_a_server(text)) return unread_.clear();
    const bool goes_on = !tokens_[at].is(",") && !tokens_[at].is(")");
    LaunchPiece piece{environment() + text + "\n", class_.empty() ? function_ : class_, tokens_[i].line, false, {}};
    if (is_open) piece.unread.push_back(fmt::format("the f-string in line {}", piece.line));
    if (goes_on) piece.unread.push_back(fmt::format("what line {} adds to the text of the command", piece.line));
    add_piece(std::move(piece));
  }

  bool is_sum_of_strings(std::size_t at) const {
    return tokens_[at].is("+") && at + 1 < tokens_.size() && tokens_[at + 1].kind == Token::Kind::string;
  }

  // popen_launch_server(model, url, other_args=[..], env={..}) and sgl.Engine(model_path=.., tp_size=8)
  void call(std::size_t i) {
    const std::string& name = tokens_[i].text;
    const bool is_engine = name == "Engine";
    const bool is_launch =
        name.find("popen_launch") != std::string::npos || name.find("launch_server") != std::string::npos;
    if ((!is_engine && !is_launch) || (i > 0 && tokens_[i - 1].text == "def")) return;
    const std::size_t end = behind(i + 1);
    PythonWords words;
    const auto own_environment = environment_;
    bool takes_options = false;
    std::size_t position = 0;
    for (std::size_t at = i + 2; at + 1 < end; ++position) {
      const std::size_t stop = end_of_element(at);
      const bool is_keyword = tokens_[at].kind == Token::Kind::name && tokens_[at + 1].is("=");
      const std::string key = is_keyword ? tokens_[at].text : "";
      const std::size_t begin = is_keyword ? at + 2 : at;
      if (key == "env") {
        read_environment(begin, stop);
      } else if (key == "other_args" || key == "args" || (key.empty() && tokens_[begin].is("["))) {
        const PythonWords options = list(begin, stop);
        words.insert(words.end(), options.begin(), options.end());
        takes_options = true;
      } else if (is_engine && is_keyword) {
        add_keyword(key, begin, stop, words);
        takes_options = true;
      } else if (is_launch && (position == 0 || key == "model")) {
        words.insert(words.begin(), {{"--model-path", false}, scalar(begin, stop)});
      }
      at = stop + 1;
    }
    if (takes_options) add(words, tokens_[i].line, class_.empty() ? function_ : class_);
    environment_ = own_environment;
  }

  void add_keyword(const std::string& key, std::size_t begin, std::size_t end, PythonWords& words) {
    const std::string& value = tokens_[begin].text;
    if (tokens_[begin].kind == Token::Kind::name && (value == "False" || value == "None")) return;
    std::string flag = key;
    std::ranges::replace(flag, '_', '-');
    words.push_back({"--" + flag, false});
    if (tokens_[begin].kind == Token::Kind::name && value == "True") return;
    if (!tokens_[begin].is("[")) return words.push_back(scalar(begin, end));
    const PythonWords values = list(begin, end);
    words.insert(words.end(), values.begin(), values.end());
  }

  // {**os.environ, "SGLANG_X": "1"}
  void read_environment(std::size_t begin, std::size_t end) {
    if (!tokens_[begin].is("{")) return;
    for (std::size_t i = begin + 1; i + 1 < end;) {
      const std::size_t stop = end_of_element(i);
      if (tokens_[i].kind == Token::Kind::string && tokens_[i + 1].is(":"))
        environment_[tokens_[i].text] = scalar(i + 2, stop);
      i = stop + 1;
    }
  }

  // os.environ["SGLANG_X"] = "1"
  void set_environment(std::size_t i) {
    if (tokens_[i + 2].kind != Token::Kind::string || !tokens_[i + 3].is("]") || !tokens_[i + 4].is("=")) return;
    std::size_t end = i + 6;
    if (tokens_[i + 5].kind == Token::Kind::name && tokens_[end].is("(")) end = behind(end);
    environment_[tokens_[i + 2].text] = scalar(i + 5, std::min(end, tokens_.size() - 1));
  }

  std::string environment() const {
    std::string text;
    for (const auto& [name, value] : environment_)
      if (!assigned_name(name + "=").empty()) text += name + '=' + value.shell() + ' ';
    return text;
  }

  // With what was found not to be read since the last one.
  void add_piece(LaunchPiece piece) {
    piece.unread.insert(piece.unread.end(), unread_.begin(), unread_.end());
    unread_.clear();
    pieces_.push_back(std::move(piece));
  }

  void add(const PythonWords& words, std::size_t line, const std::string& name) {
    std::string text = environment() + std::string(launch_syntaxes().front()->front_ends.front().command);
    for (const PythonWord& word : words) text += ' ' + word.shell();
    add_piece({text + "\n", name, line, false, {}});
  }

  struct Change {
    std::size_t at;
    bool assigns;
  };

  std::vector<Token> tokens_;
  std::vector<std::size_t> behind_, commands_, scopes_;  // of brackets; where a server's words, and functions, begin
  std::map<std::string, std::vector<Change>, std::less<>> named_;
  std::string class_, function_;
  std::map<std::string, PythonWord, std::less<>> scalars_;
  std::map<std::string, std::vector<std::string>, std::less<>> changes_;  // of these
  std::vector<std::string> unread_;                                       // by the piece that is being read
  std::vector<Assigned> lists_;
  std::set<std::string, std::less<>> used_;
  std::map<std::string, PythonWord> environment_;
  std::vector<LaunchPiece> pieces_;
};

// The first line of code is one that only Python has.
bool looks_like_python(std::string_view text) {
  if (text.starts_with("#!")) return text.substr(0, text.find('\n')).find("python") != std::string_view::npos;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty() || line.front() == '#') continue;
    if (line.starts_with("from ")) return line.find(" import ") != std::string_view::npos;
    return std::ranges::any_of(
        std::initializer_list<std::string_view>{"import ", "class ", "def ", "@", "\"\"\"", "'''", "if __name__"},
        [&](std::string_view begin) { return line.starts_with(begin); });
  }
  return false;
}

}  // namespace

std::optional<LaunchPieces> pieces_of_python_servers(std::string_view text, bool is_python) {
  if (!is_python && !looks_like_python(text)) return std::nullopt;
  return Reader(text).read();
}

}  // namespace a2asim
