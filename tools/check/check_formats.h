// What check found of one server or of many: for people (text), for programs (JSON), for code-scanning services (SARIF
// 2.1.0), for GitHub's workflow annotations, and as JUnit's XML.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/check/check.h"

namespace a2asim {

// Where the launch command came from.
struct CommandSource {
  enum class Kind { command_line, standard_input, file } kind = Kind::command_line;
  std::string path = {};  // of a file
};
std::string in_words(const CommandSource& source);  // the path, "command line", "standard input"

// Where a finding's words stand in a file, or what a fix replaces there. Lines and columns count from 1; 0: no place is
// known.
struct FindingPlace {
  std::size_t line = 0, column = 0, end_line = 0, end_column = 0;
  std::optional<std::string> inserted;  // in place of line, column .. end_line, end_column
};

// A fix, and what check says of the launch with it.
struct TriedFix {
  Fix fix;
  std::optional<Verdict> verdict;  // nothing: it is no edit that can be tried
  bool cures = false;              // this finding is gone, and the launch is not refused instead
  FindingPlace edit = {};          // of the file; without `inserted` it is left to a person
};

inline constexpr std::string_view kInBaseline = "in the baseline";  // why a finding does not count

// One server of a text, and what its check found.
struct CheckedServer {
  CheckReport report;
  std::string name;       // of its service, container or role; may be empty
  std::size_t line = 0;   // of the text, where its command begins; 0: not known
  std::string condition;  // when it is started, where the outside decides; empty: always
  CommandSource source = {};
  std::string version_reason = {};                // why it is judged by this version
  std::optional<Error> undecided = {};            // no verdict: the text, or what it says, cannot be used
  std::vector<std::string> ignored = {};          // by finding: why it does not count; empty: it does
  std::vector<std::vector<TriedFix>> fixes = {};  // by finding
  std::vector<FindingPlace> words = {};           // by finding
  bool is_alternative = false;                    // see LaunchedServer

  bool counts(std::size_t finding) const { return finding >= ignored.size() || ignored[finding].empty(); }
  bool has_problem(bool strict) const;  // an error that counts; strict: or a warning
};

struct TextStyle {
  bool verbose = false;  // every finding in full, every group of ranks, the whole chain
  bool colour = false;
  bool quiet = false;   // only what is wrong
  bool strict = false;  // warnings are wrong, too
};

// The verdict first. Without `verbose` it fits a screen of 24 lines by 100 columns.
std::string check_as_text(const CheckReport& report, const TextStyle& style);
// One server: as above, below the line that says its version, and why that one. Several: a block each, and one line
// that counts files, servers and verdicts.
std::string check_as_text(std::span<const CheckedServer> servers, const TextStyle& style);

// The gravest of all: rejected, disagrees, over_capacity, agrees, out_of_scope.
Verdict worst_verdict(std::span<const CheckedServer> servers);

// Of a verdict, a version and a deployment: shared with the report.
std::string_view verdict_in_words(Verdict verdict);
std::string version_words(const Version& version);
// "file.sh:12 decode, if ROLE=decode"
std::string place_words(const CheckedServer& server);
// "12 files, 17 servers: 14 agree, 2 disagree, 1 not decided"
std::string summary(std::span<const CheckedServer> servers);
// The finding's fix: those alternatives that cure, as they were tried; else its words.
std::string fix_words(const CheckedServer& server, std::size_t finding);

// One object; the keys are in tools/docs/json.md. null where a value is not known. `servers` has one object a server;
// `verdict` is the worst of them, and a server's keys stand at the top, too, where there is one only.
std::string check_as_json(const CheckReport& report);
// differences: between commands of one deployment's nodes, as check_nodes counts them; nothing: not compared.
std::string check_as_json(std::span<const CheckedServer> servers, std::optional<std::int64_t> differences = {});

std::string check_as_sarif(const CheckReport& report, const CommandSource& source);
// notes: also what is no problem.
std::string check_as_sarif(std::span<const CheckedServer> servers, bool notes);

std::string check_as_github(std::span<const CheckedServer> servers, bool strict);
std::string check_as_junit(std::span<const CheckedServer> servers, bool strict);

// The same for the same finding of the same server, whatever lines stand above it: of a baseline, and of SARIF.
std::string fingerprint(const CheckedServer& server, const CheckFinding& finding);

// Every id of a finding, in lines, for --help.
std::string finding_ids();

}  // namespace a2asim
