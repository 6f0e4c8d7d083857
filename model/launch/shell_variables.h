// The variables of a shell text: plain ones, arrays, arrays with names as keys, and what `declare` says about them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace a2asim {

struct ShellValue {
  std::string text;
  bool is_open = false;  // text is how the value is written, not what it is
  bool is_many = false;  // open outside quotes: any number of words
  // The variable whose written default this is, as of ${ROLE:-decode}: the outside may give another one.
  std::string from = {};
  bool operator==(const ShellValue&) const = default;
};

struct ShellVariable {
  // By index; a plain variable is element 0. Without any, it is known not to be set, as after `unset`.
  std::map<std::int64_t, ShellValue> items = {};
  std::map<std::string, ShellValue, std::less<>> keys = {};  // of declare -A
  bool is_array = false, is_keyed = false, is_exported = false, is_integer = false, is_readonly = false;
  bool is_open = false;  // what it holds, and how much, only the outside knows
  char letters = '\0';   // 'l' or 'u' of declare -l, -u
  bool operator==(const ShellVariable&) const = default;

  const ShellValue* first() const;  // of $NAME; nullptr: not set
  bool is_counted() const;          // how many elements it has is known, and which is where
};

// What the text has set so far, and what the surrounding shell gave. A name that is not here may be set outside.
struct ShellVariables {
  std::map<std::string, ShellVariable, std::less<>> named;
  std::optional<std::vector<ShellValue>> arguments;  // "$@"; nothing: those of the script, which only the outside knows
  std::map<std::string, std::string, std::less<>> defaults;  // of ${TP:-8} that counted because nobody set TP
  std::size_t shifted = 0;  // how many of the script's own arguments `shift` has taken: $1 is another one behind it

  // Folders, as seen from the script that was given: of $0, of BASH_SOURCE, and where `cd` has led (nothing:
  // elsewhere), now and before that.
  std::string folder = ".", source_folder = ".";
  std::optional<std::string> here = ".", before = ".";

  const ShellVariable* find(std::string_view name) const;
  // "3" of $1 behind two shifts, where it is an argument of the script; any other name is itself.
  std::string name_of(std::string_view name) const;
  void set(const std::string& name, ShellValue value);  // a plain value: element 0 of an array
  void set_exported(const std::string& name, ShellValue value);
  void unset(const std::string& name) { named[name] = {}; }
  // What `cd` does: to a path, to what only the outside knows (nothing), or back ("-").
  void go_to(std::optional<std::string_view> path);
  void open(const std::string& name);  // only the outside knows it from here on
};

}  // namespace a2asim
