// A ReplayReport for people (text) and for programs (JSON).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "sim/replay.h"

namespace a2asim {

struct ReplayTextStyle {
  bool verbose = false;  // every step and every kept finding
  bool colour = false;
  bool digest = false;  // a last line with the digest
};

// What a file expects, and whether it was so; nothing: the file says nothing, or --sglang was given.
struct Expectation {
  Expect wanted;
  std::string differs;  // empty: as expected
};

// The verdict first, then the steps that show it, the chain behind the first bad token, and the waste.
std::string replay_as_text(const ReplayReport& report, const std::optional<Expectation>& expectation,
                           const ReplayTextStyle& style);

// One object; the keys are in tools/README.md.
nlohmann::ordered_json replay_as_json(const ReplayReport& report, const std::optional<Expectation>& expectation);

}  // namespace a2asim
