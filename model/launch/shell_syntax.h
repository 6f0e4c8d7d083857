// Shell text -> a tree of commands, as bash reads it: lists, pipelines, if, for, while, case, functions, [[ ]], (( )),
// here-documents. Words stay as they are written; shell_expand.h expands them when a command is run.
//
//     auto script = parse_shell(text);
//     for (const ShellNode& command : script->root.children) ..
//
// Errors: bad_input for a quote, a substitution, a here-document or a compound command without an end, and for text
// that nests deeper than any script does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"

namespace a2asim {

struct ShellRedirect {
  std::string op;      // ">", ">>", "<", "<<", "<<<", "&>", ..
  std::string file;    // "2" of 2>log; empty: the usual one
  std::string target;  // raw
  int heredoc = -1;    // of "<<": which of ShellScript::heredocs
};

enum class ShellKind : std::uint8_t {
  list,        // children, one after the other
  pipeline,    // children side by side; negated: `! ..`
  and_or,      // children joined by operators[i] in front of child i + 1
  simple,      // words, redirects
  array,       // name=(words) or name+=(words)
  test,        // [[ words ]]
  arithmetic,  // (( text ))
  if_,         // condition, body, condition, body, .. [else body]
  loop,        // while or until: condition, body
  for_,        // name in words: body; operators: {"select"}
  c_for,       // text "init;condition;step": body
  case_,       // words[0] is the subject; child i runs for patterns[i] and ends with operators[i]
  function,    // name; child is its body
  group,       // { children }
  subshell,    // ( children )
};

struct ShellNode {
  ShellKind kind = ShellKind::list;
  std::size_t line = 1;
  std::string text;                // name, or the source of an expression
  std::vector<std::string> words;  // raw
  std::vector<ShellRedirect> redirects;
  std::vector<ShellNode> children;
  std::vector<std::string> operators;              // of and_or, case_; what stands in front of an array
  std::vector<std::vector<std::string>> patterns;  // of case_
  bool flag = false;  // appends (array), until (loop), negated (pipeline), has else (if_), has `in` (for_)
};

struct ShellHeredoc {
  std::string text;
  bool expands = true;  // its delimiter is not quoted
};

struct ShellScript {
  ShellNode root;
  std::vector<ShellHeredoc> heredocs;
  std::vector<Note> notes;  // what a shell would read otherwise
};

Result<ShellScript> parse_shell(std::string_view text);

// "FOO" of "FOO=bar"; empty when the word is no assignment.
std::string_view assigned_name(std::string_view word);

// The last byte of the quote that begins at `open`, or of the $( ) or ${ } whose $ is there (that byte itself when it
// begins none); npos without an end.
std::size_t end_of_quote(std::string_view text, std::size_t open);
std::size_t end_of_expansion(std::string_view text, std::size_t dollar);
std::size_t end_of_index(std::string_view text, std::size_t open);  // the ] of the [ at `open`

inline bool is_shell_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_shell_name_char(char c) { return is_shell_name_start(c) || (c >= '0' && c <= '9'); }

}  // namespace a2asim
