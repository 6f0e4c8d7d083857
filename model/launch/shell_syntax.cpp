#include "model/launch/shell_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "model/launch/shell_lexer.h"

namespace a2asim {
namespace {

constexpr int kMostNestedCommands = 60;

// Words that end a list of commands.
constexpr std::string_view kClosers[] = {"then", "elif", "else", "fi", "do", "done", "esac", "}"};

ShellNode make_node(ShellKind kind, std::size_t line) {
  ShellNode node;
  node.kind = kind;
  node.line = line;
  return node;
}

class ShellParser {
 public:
  explicit ShellParser(std::string_view text) : lex_(text) {}

  Result<ShellScript> parse() {
    ShellScript script;
    while (!failed() && !at(ShellToken::end)) {
      list_into(script.root);
      if (failed() || at(ShellToken::end)) break;
      skip_stray();
    }
    if (failed()) return tl::unexpected<Error>(lex_.error());
    script.heredocs = std::move(lex_.heredocs);
    script.notes = std::move(lex_.notes);
    return script;
  }

 private:
  bool at(ShellToken token) const { return lex_.token() == token; }
  const std::string& word() const { return lex_.word(); }
  std::size_t line() { return lex_.line_at(lex_.begin()); }
  bool failed() const { return lex_.failed(); }
  void advance() { lex_.advance(); }

  // A fragment of a script may hold the end of something that begins outside.
  void skip_stray() {
    lex_.notes.push_back({fmt::format("line {}: '{}' closes nothing: passed over", line(),
                                      at(ShellToken::word) ? word() : std::string(lex_.token_text()))});
    advance();
  }

  // Commands up to a closer, `)`, `;;` or the end.
  void list_into(ShellNode& list) {
    for (;;) {
      while (at(ShellToken::newline) || at(ShellToken::semicolon) || at(ShellToken::background)) advance();
      if (failed() || at(ShellToken::end) || at(ShellToken::close) || at(ShellToken::end_case)) return;
      if (at(ShellToken::word) && std::ranges::find(kClosers, word()) != std::end(kClosers)) return;
      if (at(ShellToken::and_) || at(ShellToken::or_) || at(ShellToken::pipe)) {
        skip_stray();
        continue;
      }
      list.children.push_back(and_or());
      if (at(ShellToken::background)) run_apart(list.children.back());
    }
  }

  // `command &` is a shell of its own: what it sets is gone, and its exit ends nothing else.
  static void run_apart(ShellNode& node) {
    ShellNode apart = make_node(ShellKind::subshell, node.line);
    apart.flag = true;
    apart.children.push_back(std::move(node));
    node = std::move(apart);
  }

  ShellNode list() {
    ShellNode node;
    node.line = line();
    if (++depth_ > kMostNestedCommands) {
      lex_.refuse(fmt::format("line {} of the command: commands nest deeper than {}: write them flat", line(),
                              kMostNestedCommands));
    }
    list_into(node);
    --depth_;
    return node;
  }

  void expect(std::string_view word, std::string_view what, std::size_t where) {
    if (lex_.at_word({word})) return advance();
    lex_.stop(what, where);
  }

  ShellNode and_or() {
    ShellNode node = make_node(ShellKind::and_or, line());
    node.children.push_back(pipeline());
    while (!failed() && (at(ShellToken::and_) || at(ShellToken::or_))) {
      node.operators.emplace_back(at(ShellToken::and_) ? "&&" : "||");
      advance();
      while (at(ShellToken::newline)) advance();
      node.children.push_back(pipeline());
    }
    return node.operators.empty() ? std::move(node.children.front()) : node;
  }

  ShellNode pipeline() {
    ShellNode node = make_node(ShellKind::pipeline, line());
    while (lex_.at_word({"!", "time"})) {
      node.flag ^= word() == "!";
      advance();
    }
    node.children.push_back(command());
    while (!failed() && at(ShellToken::pipe)) {
      advance();
      while (at(ShellToken::newline)) advance();
      node.children.push_back(command());
    }
    return node.children.size() == 1 && !node.flag ? std::move(node.children.front()) : node;
  }

  ShellNode command() {
    const std::size_t where = lex_.begin();
    ShellNode node;
    if (at(ShellToken::open)) {
      node = lex_.begins_with("((") ? arithmetic() : subshell();
    } else if (!at(ShellToken::word)) {
      return make_node(ShellKind::simple, lex_.line_at(where));
    } else if (word() == "if") {
      node = if_command();
    } else if (word() == "while" || word() == "until") {
      node = loop();
    } else if (word() == "for" || word() == "select") {
      node = for_command();
    } else if (word() == "case") {
      node = case_command();
    } else if (word() == "{") {
      advance();
      node = list();
      node.kind = ShellKind::group;
      expect("}", "{", where);
    } else if (word() == "[[") {
      node = test();
    } else if (word() == "coproc") {
      advance();
      node = command();
      run_apart(node);
      return node;
    } else if (word() == "function") {
      advance();
      std::string name = word();
      advance();
      if (at(ShellToken::open)) advance(), advance();
      return function(std::move(name), where);
    } else {
      return simple();
    }
    node.line = lex_.line_at(where);
    redirects(node);
    return node;
  }

  void redirects(ShellNode& node) {
    while (!failed() && lex_.at_redirect()) node.redirects.push_back(lex_.redirect());
  }

  ShellNode simple() {
    ShellNode node = make_node(ShellKind::simple, line());
    const std::size_t where = lex_.begin();
    while (!failed() && at(ShellToken::word)) {
      if (lex_.at_redirect()) {
        redirects(node);
        continue;
      }
      if (lex_.next_is('(') && begins_array(word())) return array(std::move(node));
      if (node.words.empty() && lex_.at_function_head()) {
        const std::string name = word();
        advance(), advance(), advance();
        return function(name, where);
      }
      if (!word().empty()) node.words.push_back(word());
      advance();
    }
    if (at(ShellToken::open) && !node.words.empty()) {  // `echo (..)` is no shell: the parenthesis separates
      skip_stray();
    }
    return node;
  }

  static bool begins_array(std::string_view word) {
    if (!word.ends_with('=')) return false;
    word.remove_suffix(word.ends_with("+=") ? 2 : 1);
    return !word.empty() && is_shell_name_start(word.front()) && std::ranges::all_of(word, is_shell_name_char);
  }

  // `ARGS=(` and `ARGS+=(`: the words up to the parenthesis are the array's, over any number of lines. `before` holds
  // what stands in front, as in `declare -a ARGS=(..)`.
  ShellNode array(ShellNode before) {
    ShellNode node = make_node(ShellKind::array, before.line);
    const std::size_t where = lex_.begin() + word().size();
    node.flag = word().ends_with("+=");
    node.text = word().substr(0, word().size() - (node.flag ? 2 : 1));
    advance();  // the parenthesis
    advance();
    while (!failed() && !at(ShellToken::close)) {
      if (at(ShellToken::end)) lex_.stop("array", where);
      if (at(ShellToken::word) && !word().empty()) node.words.push_back(word());
      if (at(ShellToken::word) && lex_.at_redirect()) lex_.operator_character();
      advance();
    }
    advance();
    for (const std::string& word : before.words) node.operators.push_back(word);
    return node;
  }

  ShellNode subshell() {
    const std::size_t where = lex_.begin();
    advance();
    ShellNode node = list();
    node.kind = ShellKind::subshell;
    if (!at(ShellToken::close)) lex_.stop("(", where);
    advance();
    return node;
  }

  ShellNode arithmetic() {
    ShellNode node = make_node(ShellKind::arithmetic, line());
    if (auto inside = lex_.arithmetic()) {
      node.text = std::move(*inside);
      return node;
    }
    return subshell();
  }

  ShellNode test() {
    ShellNode node = make_node(ShellKind::test, line());
    const std::size_t where = lex_.begin();
    advance();
    while (!failed() && !lex_.at_word({"]]"})) {
      if (at(ShellToken::end)) lex_.stop("[[", where);
      if (at(ShellToken::word) && word().empty() && lex_.at_redirect()) {
        node.words.push_back(lex_.operator_character());
      } else if (at(ShellToken::word)) {
        node.words.push_back(word());
      } else if (!at(ShellToken::newline)) {
        node.words.emplace_back(lex_.token_text());
      }
      advance();
    }
    node.text = std::string(lex_.from(where)) + "]]";
    advance();
    return node;
  }

  ShellNode if_command() {
    ShellNode node = make_node(ShellKind::if_, line());
    const std::size_t where = lex_.begin();
    do {
      advance();
      const std::size_t from = lex_.begin();
      node.children.push_back(list());
      node.words.emplace_back(lex_.from(from));
      expect("then", "if", where);
      node.children.push_back(list());
    } while (!failed() && lex_.at_word({"elif"}));
    if (lex_.at_word({"else"})) {
      advance();
      node.flag = true;
      node.children.push_back(list());
    }
    expect("fi", "if", where);
    return node;
  }

  ShellNode loop() {
    ShellNode node = make_node(ShellKind::loop, line());
    const std::size_t where = lex_.begin();
    node.flag = word() == "until";
    advance();
    node.children.push_back(list());
    expect("do", "loop", where);
    node.children.push_back(list());
    expect("done", "loop", where);
    return node;
  }

  ShellNode for_command() {
    ShellNode node = make_node(ShellKind::for_, line());
    const std::size_t where = lex_.begin();
    if (word() == "select") node.operators.push_back(word());
    advance();
    if (at(ShellToken::open) && lex_.begins_with("((")) {
      const ShellNode head = arithmetic();
      node.kind = ShellKind::c_for;
      node.text = head.text;
    } else {
      node.text = word();
      advance();
      while (at(ShellToken::newline)) advance();
      node.flag = lex_.at_word({"in"});
      if (node.flag) advance();
      while (node.flag && !failed() && at(ShellToken::word)) {
        node.words.push_back(word());
        advance();
      }
    }
    lex_.skip_newlines();
    expect("do", "for", where);
    node.children.push_back(list());
    expect("done", "for", where);
    return node;
  }

  ShellNode case_command() {
    ShellNode node = make_node(ShellKind::case_, line());
    const std::size_t where = lex_.begin();
    advance();
    node.words.push_back(word());
    advance();
    lex_.skip_newlines();
    expect("in", "case", where);
    lex_.skip_newlines();
    while (!failed() && !lex_.at_word({"esac"})) {
      if (at(ShellToken::open)) advance();
      std::vector<std::string> patterns;
      while (!failed() && !at(ShellToken::close)) {
        if (at(ShellToken::end) || at(ShellToken::newline)) return lex_.stop("case", where), node;
        if (at(ShellToken::open))
          lex_.refuse(fmt::format("line {} of the command: patterns such as @(a|b) are not read: write a|b", line()));
        if (at(ShellToken::word)) patterns.push_back(word());
        advance();
      }
      advance();
      node.patterns.push_back(std::move(patterns));
      node.children.push_back(list());
      node.operators.emplace_back(at(ShellToken::end_case) ? lex_.token_text() : ";;");
      if (at(ShellToken::end_case)) advance();
      lex_.skip_newlines();
    }
    expect("esac", "case", where);
    return node;
  }

  ShellNode function(std::string name, std::size_t where) {
    ShellNode node = make_node(ShellKind::function, lex_.line_at(where));
    node.text = std::move(name);
    while (at(ShellToken::newline)) advance();
    if (at(ShellToken::end)) lex_.stop("function", where);
    if (++depth_ > kMostNestedCommands) lex_.stop("function", where);
    node.children.push_back(command());
    --depth_;
    return node;
  }

  ShellLexer lex_;
  int depth_ = 0;
};

}  // namespace

Result<ShellScript> parse_shell(std::string_view text) { return ShellParser(text).parse(); }

}  // namespace a2asim
