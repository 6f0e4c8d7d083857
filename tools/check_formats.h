// A CheckReport for people (text), for programs (JSON) and for code-scanning services (SARIF 2.1.0).
#pragma once

#include <string>

#include "model/check.h"

namespace a2asim {

struct TextStyle {
  bool verbose = false;  // every finding in full, every group of ranks, the whole chain
  bool colour = false;
};

// The verdict first. Without `verbose` it fits a screen of 24 lines by 100 columns.
std::string check_as_text(const CheckReport& report, const TextStyle& style);

// One object; design of the keys: the promise in tools/README.md.
std::string check_as_json(const CheckReport& report);

// Where the launch command came from.
struct CommandSource {
  enum class Kind { command_line, standard_input, file } kind = Kind::command_line;
  std::string path;  // of a file
};
std::string check_as_sarif(const CheckReport& report, const CommandSource& source);

}  // namespace a2asim
