// flags.jsonl: one row per option that a version of SGLang registers.
#include "model/base/words.h"
#include "model/engines/sglang/options/option_list.h"
#include "tests/golden/generation_of_row.h"
#include "tests/golden/table.h"

namespace a2asim::golden {
namespace {

json nargs(FlagNargs nargs) {
  switch (nargs) {
    case FlagNargs::one:
      return nullptr;
    case FlagNargs::zero:
      return 0;
    case FlagNargs::plus:
      return "+";
    case FlagNargs::star:
      return "*";
    case FlagNargs::optional:
      return "?";
  }
  return nullptr;
}

json choices(const Flag& flag) {
  if (flag.choices.empty()) return nullptr;
  json list = json::array();
  for (const std::string_view choice : split_words(flag.choices))
    list.push_back(flag.type == FlagType::integer ? json::parse(choice) : json(choice));
  return list;
}

json describe(const Flag& flag) {
  return {{"dest", flag.dest},
          {"default", json::parse(flag.default_json)},
          {"nargs", nargs(flag.nargs)},
          {"type", flag.type == FlagType::none ? json(nullptr) : json(python_name(flag.type))},
          {"choices", choices(flag)},
          {"action", python_name(flag.action)},
          {"const", json::parse(flag.const_json)},
          {"required", flag.required}};
}

}  // namespace

json answer_flags(Fields& in, const json&) {
  const auto variant = in.get<std::string>("variant");
  std::string strings;
  for (const json& string : in.at("flags")) strings += (strings.empty() ? "" : " ") + string.get<std::string>();
  for (const Flag* flag : option_set(generation_of_row(variant).options).flags())
    if (flag->option_strings == strings) return {{"out", describe(*flag)}};
  return {{"error", variant + " has no option " + strings}};
}

}  // namespace a2asim::golden
