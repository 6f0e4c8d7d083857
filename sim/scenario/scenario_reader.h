// A text -> a scenario, or one line that says what is wrong, where, and how to fix it.
//
// YAML with what a scenario needs of it: one document, mappings with known keys, lists, plain and quoted scalars, block
// text. Anchors, aliases, tags, duplicate keys, nesting beyond 16 and texts beyond 1 MiB are refused, so that reading
// takes time and memory in proportion to the text. JSON is read as the YAML it is.
#pragma once

#include <string>
#include <string_view>

#include "model/base/result.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

inline constexpr std::size_t kMaxScenarioFileBytes = std::size_t{1} << 20;

// `file` only names the text in errors: "FILE:LINE:COL: what; fix", always bad_input and one line.
Result<Scenario> parse_scenario(std::string_view text, std::string_view file);

// Reads the file, then parse_scenario. A missing file, a directory and an unreadable one are bad_input too.
Result<Scenario> load_scenario(const std::string& path);

}  // namespace a2asim
