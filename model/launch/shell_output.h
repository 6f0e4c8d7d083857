// Inside ShellExpander: the words of one expansion as they come.
#pragma once

#include <string_view>
#include <vector>

#include "model/launch/shell_expand.h"

namespace a2asim {

struct ShellExpander::Output {
  std::vector<ShellValue> fields;
  ShellValue word;       // that is being put together
  bool in_word = false;  // an empty quoted word is a word too
  bool splits = true;
  bool in_pattern = false;      // what is quoted stands for itself
  bool in_alternative = false;  // of ${V:-a b}, which is split outside quotes
  bool masks = false;           // what is open is one byte 1, for arithmetic
  bool empty_list = false;      // "$@" without arguments stood here
  bool after_blank = false;     // a blank of IFS has ended the last word

  void add(std::string_view text, bool quoted);
  void add_open(std::string_view source, bool quoted);
  void end_word();
};

// What stands between ${ and }: a name, [@] or [2] behind it, and the operation on it.
struct ShellParameter {
  std::string_view name, index, operation;

  bool is_list() const { return name == "@" || name == "*" || index == "@" || index == "*"; }
  bool is_star() const { return name == "*" || index == "*"; }
};

}  // namespace a2asim
