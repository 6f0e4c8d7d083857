// A CheckReport for people (text), for programs (JSON) and for code-scanning services (SARIF 2.1.0).
#pragma once

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

// Of a verdict, a version and a deployment: shared with the report.
std::string_view verdict_in_words(Verdict verdict);
std::string version_words(const Version& version);

// One object. These keys are a promise, others may be added: tool {name, version}, engine, generation, topology
// {tp_size, dp_size, ep_size, attn_tp_size, attn_cp_size, moe_dense_tp_size}, capacity {max_num_tokens,
// workspace_bytes_per_rank, source}, verdict, findings [{id, about, severity, phase, message, witness {tokens_per_dp_rank,
// runtime_max_tokens_per_rank}, fix}]. null where a value is not known, and topology where the command was refused
// before it was known.
std::string check_as_json(const CheckReport& report);

// Every id of a finding, in lines, for --help.
std::string finding_ids();

// Where the launch command came from.
struct CommandSource {
  enum class Kind { command_line, standard_input, file } kind = Kind::command_line;
  std::string path;  // of a file
};
std::string check_as_sarif(const CheckReport& report, const CommandSource& source);

}  // namespace a2asim
