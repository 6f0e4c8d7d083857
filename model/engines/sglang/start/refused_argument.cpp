#include "model/engines/sglang/start/refused_argument.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/base/nearest.h"
#include "model/base/one_line.h"
#include "model/base/words.h"
#include "model/launch/argparse.h"

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

// The dash in front of the word that a word processor made of two: en dash, em dash or minus sign.
std::string_view typographic_dash(std::string_view word) {
  for (const std::string_view dash : {"\xE2\x80\x93", "\xE2\x80\x94", "\xE2\x88\x92"})
    if (word.starts_with(dash)) return dash;
  return {};
}

}  // namespace

constexpr std::size_t kMostFix = 1000;  // bytes

std::string fix_for_unrecognized(const Generation& generation, std::span<const std::string> words) {
  std::vector<std::string_view> names;
  for (const OptionSet::Option& known : option_set(generation.options).options()) names.push_back(known.string);
  std::string fix;
  bool is_value = false;  // behind an option that was not recognized only for its dash
  for (const std::string& word : words) {
    const std::string option = word.substr(0, word.find('='));
    const std::string_view dash = typographic_dash(option);
    if (is_value && dash.empty() && !option.starts_with('-')) continue;
    if (fix.size() > kMostFix) return fix + "; ..";  // each word is compared with every option
    is_value = !dash.empty();
    // –-tp: the word processor has changed one dash of the two.
    const std::size_t name = is_value ? option.find_first_not_of('-', dash.size()) : 0;
    const std::string meant = !is_value                   ? std::string(nearest(option, names))
                              : name == std::string::npos ? std::string()
                                                          : "--" + option.substr(name);
    fix += fix.empty() ? "" : "; ";
    const std::string others = is_value ? "" : lists_with(option);
    fix += !others.empty() ? fmt::format("leave out {}, or use SGLang of {}, which has it", one_line(word, 60), others)
           : meant.empty() ? fmt::format("leave out {}", one_line(word, 60))
                           : fmt::format("write {} for {}", meant, one_line(word, 60));
  }
  return fix;
}

std::string fix_for_newer_choice(const Generation& generation, std::span<const std::string> argv) {
  if (generation.options_are_complete) return "";
  const auto refused = refused_by(generation.options, argv);
  const auto accepted = [&](OptionList list) { return accepts(list, *refused); };
  if (!refused || std::ranges::any_of(option_lists(), accepted)) return "";  // known, and gone
  return fmt::format(
      "{} {}: no version up to {} ({}), the newest whose rules are known here, takes this value: name the "
      "version that has it, or {}",
      option_of(*refused->flag), one_line(refused->value, 60), newest_generation().name, newest_generation().date,
      nearest_choice(*refused));
}

std::string fix_for_refused_argument(const Generation& generation, std::span<const std::string> argv) {
  const auto refused = refused_by(generation.options, argv);
  if (!refused) {
    const auto parsed = parse_server_args(generation.options, argv, ParseMode::lenient);
    if (parsed && !parsed->unrecognized.empty()) return fix_for_unrecognized(generation, parsed->unrecognized);
    return "use a flag and value that this version knows, or name the version that you run with --sglang";
  }
  std::string fix = nearest_choice(*refused);
  for (const Generation& other : generations()) {
    if (!accepts(other.options, *refused)) continue;
    return fmt::format("{}; or use SGLang of {} ({}{}), which knows {}", fix, other.date, other.name,
                       other.date > generation.date ? " or newer" : "", one_line(refused->value, 60));
  }
  return fix + fmt::format("; no version that is known here takes {}", one_line(refused->value, 60));
}

}  // namespace a2asim
