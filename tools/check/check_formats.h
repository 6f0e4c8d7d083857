// A CheckReport for people (text), for programs (JSON) and for code-scanning services (SARIF 2.1.0).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "model/check/check.h"

namespace a2asim {

struct TextStyle {
  bool verbose = false;  // every finding in full, every group of ranks, the whole chain
  bool colour = false;
};

// The verdict first. Without `verbose` it fits a screen of 24 lines by 100 columns.
std::string check_as_text(const CheckReport& report, const TextStyle& style);

// One server of a text, and what its check found.
struct CheckedServer {
  CheckReport report;
  std::string name;       // of its service, container or role; may be empty
  std::size_t line = 0;   // of the text, where its command begins; 0: not known
  std::string condition;  // when it is started, where the outside decides; empty: always
};

// The gravest of all: rejected, disagrees, over_capacity, agrees, out_of_scope.
Verdict worst_verdict(std::span<const CheckedServer> servers);

// Several servers: each under a line that names it, and a line that counts the verdicts.
std::string check_as_text(std::span<const CheckedServer> servers, const TextStyle& style);

// Of a verdict, a version and a deployment: shared with the report.
std::string_view verdict_in_words(Verdict verdict);
std::string version_words(const Version& version);

// One object; the keys are in tools/docs/json.md. null where a value is not known. `servers` has one object a server;
// `verdict` is the worst of them, and a server's keys stand at the top, too, where there is one only.
std::string check_as_json(const CheckReport& report);

// Every id of a finding, in lines, for --help.
std::string finding_ids();

// Where the launch command came from.
struct CommandSource {
  enum class Kind { command_line, standard_input, file } kind = Kind::command_line;
  std::string path;  // of a file
};
std::string check_as_sarif(const CheckReport& report, const CommandSource& source);
std::string check_as_json(std::span<const CheckedServer> servers, const CommandSource& source);
std::string check_as_sarif(std::span<const CheckedServer> servers, const CommandSource& source);

}  // namespace a2asim
