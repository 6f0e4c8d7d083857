// Shell text -> simple commands, as far as launch scripts need it: quotes, backslashes, line continuations, comments,
// variables and arrays that the text itself sets, redirections, and the separators ; & && || | and newline. Control
// flow is not interpreted: every simple command counts as run once, in order.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"

namespace a2asim {

using ShellCommand = std::vector<std::string>;

// What the text has set so far.
struct ShellVariables {
  std::map<std::string, std::string, std::less<>> values;  // of an array, its first element
  std::map<std::string, std::vector<std::string>, std::less<>> arrays;
  std::set<std::string, std::less<>> exported;
};

// Called for every command that does more than set variables, with what is set at that moment and the line on which the
// command begins.
using OnShellCommand =
    std::function<void(const ShellCommand& words, const ShellVariables& variables, std::size_t line)>;

// `inherited` is what a surrounding shell has set. Variables that nobody set stay as they are written ("$TP"), or
// become the default of ${TP:-8} with a note. Errors: bad_input for an unterminated quote or substitution, and for text
// that expands without bound.
Result<std::vector<Note>> read_shell(std::string_view text, ShellVariables inherited, const OnShellCommand& on_command);

// The defaults of ${TP:-8} in a word that a shell has split already, where the variable is not known; with a note each.
std::string take_defaults(std::string_view word, std::vector<Note>& notes);

// "FOO" of "FOO=bar"; empty when the word is no assignment.
std::string_view assigned_name(std::string_view word);

// The word as a shell reads it back: plain, or in single quotes.
std::string shell_quote(std::string_view word);

}  // namespace a2asim
