#include "model/step/fix.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "model/base/check_invariant.h"
#include "model/step/fix_steps.h"

namespace a2asim {
namespace {

using Step = FixStep::What;

// Behind an option: what is no option itself. Numbers may be negative.
bool is_value(std::string_view word) {
  return !word.starts_with('-') || (word.size() > 1 && word[1] >= '0' && word[1] <= '9');
}

void remove(LaunchCommand& command, const std::vector<std::string>& spellings) {
  const std::vector<WordRange> found = find_flag(command.argv, spellings);
  for (auto range = found.rbegin(); range != found.rend(); ++range)
    command.argv.erase(command.argv.begin() + static_cast<std::ptrdiff_t>(range->begin),
                       command.argv.begin() + static_cast<std::ptrdiff_t>(range->end));
}

}  // namespace

std::string_view name(Step what) {
  static constexpr std::array<std::string_view, 6> kNames = {"remove_flag",    "set_flag", "set_variable",
                                                             "unset_variable", "upgrade",  "choose"};
  return kNames[static_cast<std::size_t>(what)];
}

std::string in_words(const FixStep& step) {
  const std::string value = step.values.empty() ? "" : fmt::format(" {}", fmt::join(step.values, " "));
  const std::string now = step.now.empty() ? "" : fmt::format(" ({})", step.now);
  switch (step.what) {
    case Step::remove_flag:
      return fmt::format("remove {}{}{}", step.name, value, now);
    case Step::set_flag:
      return fmt::format("{} {}{}{}{}", step.now.empty() ? "add" : "set", step.name, value,
                         step.or_more ? " or more" : "", now);
    case Step::set_variable:
      return fmt::format("set {}={}{}{}", step.name, fmt::join(step.values, " "), step.or_more ? " or more" : "", now);
    case Step::unset_variable:
      return fmt::format("unset {}{}", step.name, now);
    case Step::upgrade:
      return fmt::format("upgrade to {}{}", step.name, now);
    case Step::choose:
      return step.name + now;
  }
  return "";
}

std::string in_words(const Fix& fix) {
  std::string out;
  for (const FixStep& step : fix.steps) out += (out.empty() ? "" : ", and ") + in_words(step);
  return out;
}

Fix remove_flag(std::string flag, std::string value) {
  FixStep step{Step::remove_flag, std::move(flag)};
  if (!value.empty()) step.values.push_back(std::move(value));
  return {{std::move(step)}};
}
Fix set_flag(std::string flag, std::vector<std::string> values, std::string now) {
  return {{{Step::set_flag, std::move(flag), std::move(values), std::move(now)}}};
}
Fix set_variable(std::string variable, std::string value, std::string now) {
  return {{{Step::set_variable, std::move(variable), {std::move(value)}, std::move(now)}}};
}
Fix unset_variable(std::string variable, std::string now) {
  return {{{Step::unset_variable, std::move(variable), {}, std::move(now)}}};
}
Fix upgrade_to(std::string version, std::string note) {
  return {{{Step::upgrade, std::move(version), {}, std::move(note)}}};
}

Fix at_least(Fix fix) {
  for (FixStep& step : fix.steps) step.or_more = true;
  return fix;
}
Fix choose(std::string words) { return {{{Step::choose, std::move(words)}}}; }
Fix all_of(std::initializer_list<Fix> fixes) {
  Fix out;
  for (const Fix& fix : fixes) out.steps.insert(out.steps.end(), fix.steps.begin(), fix.steps.end());
  return out;
}

Advice::Advice(std::vector<Fix> alternatives) : fixes(std::move(alternatives)) {
  for (const Fix& fix : fixes) words += (words.empty() ? "" : ", or ") + in_words(fix);
}

std::vector<WordRange> find_flag(const std::vector<std::string>& argv, const std::vector<std::string>& spellings) {
  std::vector<WordRange> found;
  for (std::size_t at = 0; at < argv.size(); ++at) {
    const std::string_view option = std::string_view(argv[at]).substr(0, argv[at].find('='));
    if (std::ranges::find(spellings, option) == spellings.end()) continue;
    std::size_t end = at + 1;
    if (option.size() == argv[at].size())
      while (end < argv.size() && is_value(argv[end])) ++end;
    found.push_back({at, end});
  }
  return found;
}

bool apply(const Fix& fix, LaunchCommand& command, const Spellings& spellings) {
  for (const FixStep& step : fix.steps) {
    switch (step.what) {
      case Step::remove_flag:
      case Step::set_flag: {
        std::vector<std::string> names = spellings ? spellings(step.name) : std::vector<std::string>{};
        if (names.empty()) names = {step.name};
        const std::vector<WordRange> given = find_flag(command.argv, names);
        const std::string own =
            given.empty() ? step.name : command.argv[given.front().begin];  // as it is spelled there
        remove(command, names);
        if (step.what == Step::remove_flag) break;
        const std::size_t equals = own.find('=');
        if (equals != std::string::npos && step.values.size() == 1) {
          command.argv.push_back(own.substr(0, equals + 1) + step.values.front());
          break;
        }
        command.argv.push_back(own.substr(0, equals));
        command.argv.insert(command.argv.end(), step.values.begin(), step.values.end());
        break;
      }
      case Step::set_variable:
        A2ASIM_INVARIANT(step.values.size() == 1, "a variable is set to one value");
        command.env.set(step.name, step.values.front());
        break;
      case Step::unset_variable:
        command.env.unset(step.name);
        break;
      case Step::upgrade:
      case Step::choose:
        return false;
    }
  }
  return !fix.steps.empty();
}

}  // namespace a2asim
