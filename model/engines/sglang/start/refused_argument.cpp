#include "model/engines/sglang/start/refused_argument.h"

#include <fmt/format.h>

#include <optional>

#include "model/launch/argparse.h"
#include "model/base/nearest.h"
#include "model/base/words.h"
#include "model/base/one_line.h"

namespace a2asim {
namespace {

struct Refused {
  const Flag* flag = nullptr;
  std::string value;
};

std::optional<Refused> refused_by(OptionList list, std::span<const std::string> argv) {
  std::optional<Refused> first;
  const Excuse note_choice = [&](const Flag& flag, const ArgparseProblem& problem) {
    if (problem.what == ArgparseProblem::What::invalid_choice && !first) first = Refused{&flag, problem.argument};
    return true;
  };
  (void)parse_known_args(option_set(list), argv, RequiredCheck::no, note_choice);  // what it says is known already
  return first;
}

// "--moe-a2a-backend"
std::string_view option_of(const Flag& flag) { return split_words(flag.option_strings).front(); }

bool accepts(OptionList list, const Refused& refused) {
  const Flag* flag = option_set(list).find(option_of(*refused.flag));
  return flag != nullptr && convert_value(*flag, refused.value).has_value();
}

std::string nearest_choice(const Refused& refused) {
  const std::vector<std::string_view> choices = split_words(refused.flag->choices);
  const std::string_view meant = nearest(refused.value, choices);
  std::string list;
  for (const std::string_view choice : choices) list += fmt::format("{}{}", list.empty() ? "" : ", ", choice);
  return meant.empty()
             ? fmt::format("give {} one of {} (now {})", option_of(*refused.flag), list, one_line(refused.value, 60))
             : fmt::format("give {} {} (now {})", option_of(*refused.flag), meant, one_line(refused.value, 60));
}

}  // namespace

std::string fix_for_refused_argument(const Generation& generation, std::span<const std::string> argv) {
  const auto refused = refused_by(generation.options, argv);
  if (!refused) return "use a flag and value that this version knows, or name the version that you run with --sglang";
  std::string fix = nearest_choice(*refused);
  for (const Generation& other : generations()) {
    if (!accepts(other.options, *refused)) continue;
    return fmt::format("{}; or use SGLang of {} ({}{}), which knows {}", fix, other.date, other.name,
                       other.date > generation.date ? " or newer" : "", one_line(refused->value, 60));
  }
  return fix + fmt::format("; no version that is known here takes {}", one_line(refused->value, 60));
}

}  // namespace a2asim
