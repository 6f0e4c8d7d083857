// What to change so that a finding goes away: in words for people, as steps for programs that edit a launch.
//
//   Advice advice = {{remove_flag("--enable-dp-lm-head"), set_flag("--ep-size", {"8"}, "now 4")}};
//   advice.words;             // "remove --enable-dp-lm-head, or set --ep-size 8 (now 4)"
//   apply(advice.fixes[0], command, spellings);
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/launch/launch_command.h"

namespace a2asim {

struct FixStep {
  enum class What : std::uint8_t { remove_flag, set_flag, set_variable, unset_variable, upgrade, choose };
  What what = What::choose;
  std::string name;  // of the flag or variable; the version to upgrade to; of choose: the words
  std::vector<std::string> values = {};
  std::string now = {};  // in words; empty: it is not set
  bool or_more = false;  // larger values do, too
  bool operator==(const FixStep&) const = default;
};
std::string_view name(FixStep::What what);  // "remove_flag", ..
std::string in_words(const FixStep& step);

// Steps that are needed together.
struct Fix {
  std::vector<FixStep> steps;
  bool operator==(const Fix&) const = default;
};
std::string in_words(const Fix& fix);

Fix remove_flag(std::string flag, std::string value = "");
Fix set_flag(std::string flag, std::vector<std::string> values = {}, std::string now = "");
Fix set_variable(std::string variable, std::string value, std::string now = "");
Fix unset_variable(std::string variable, std::string now);
Fix upgrade_to(std::string version, std::string note = "");

// Alternatives, the first is the one to try first. From words alone: nothing that a program could do.
struct Advice {
  std::vector<Fix> fixes;
  std::string words;

  Advice() = default;
  Advice(std::string text) : words(std::move(text)) {}
  Advice(const char* text) : words(text) {}
  Advice(std::vector<Fix> alternatives);
};

// Every spelling of an option, its own included.
using Spellings = std::function<std::vector<std::string>(std::string_view flag)>;

// The command with the fix. False: it has a step that is no edit of a command (upgrade, choose).
bool apply(const Fix& fix, LaunchCommand& command, const Spellings& spellings);

// Where `argv` gives the option: the words it takes, from the first on. None: it is not given, or only by an
// abbreviation.
struct WordRange {
  std::size_t begin = 0, end = 0;
};
std::vector<WordRange> find_flag(const std::vector<std::string>& argv, const std::vector<std::string>& spellings);

}  // namespace a2asim
