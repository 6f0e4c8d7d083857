#include "model/engines/sglang/options/flag_table.h"

#include <algorithm>

namespace a2asim {
namespace {

constexpr auto none = FlagType::none;
constexpr auto str = FlagType::str;
constexpr auto integer = FlagType::integer;
constexpr auto real = FlagType::real;
constexpr auto json = FlagType::json;
constexpr auto json_list = FlagType::json_list;
constexpr auto human_int = FlagType::human_int;
constexpr auto nullable_str = FlagType::nullable_str;
constexpr auto graph_config = FlagType::graph_config;

using enum FlagAction;
using enum FlagNargs;

constexpr Flag kFlags[] = {
#define FLAG(options, dest, type, action, nargs, default_json, const_json, required, choices, ...) \
  {options, dest, type, action, nargs, default_json, const_json, required, choices, {__VA_ARGS__}},
#include "model/engines/sglang/options/flag_table.inc"
#undef FLAG
};

struct VersionName {
  std::string_view name;
  std::string_view description;
};
constexpr VersionName kVersionNames[] = {
    {"jan_2c2c4e446b", "January 2026 (2c2c4e446b)"},       {"june_f23f48df98", "12 June 2026 (f23f48df98)"},
    {"june29461_828411e6f1", "28 June 2026 (828411e6f1)"}, {"july_ca8f15cd70", "July 2026 (ca8f15cd70)"},
    {"main_cce0a1244b", "23 August 2026 (cce0a1244b)"},    {"newest", "the end of August 2026 (#35758)"},
};

}  // namespace

std::string_view name(ServerArgsVersion version) { return kVersionNames[static_cast<std::size_t>(version)].name; }

std::string_view description(ServerArgsVersion version) {
  return kVersionNames[static_cast<std::size_t>(version)].description;
}

std::optional<ServerArgsVersion> find_server_args_version(std::string_view wanted) {
  for (const ServerArgsVersion version : kServerArgsVersions)
    if (name(version) == wanted) return version;
  return std::nullopt;
}

std::span<const Flag> flag_table() { return kFlags; }

std::vector<const Flag*> flags_of(ServerArgsVersion version) {
  std::vector<const Flag*> flags;
  for (const Flag& flag : kFlags)
    if (flag.place_in(version) > 0) flags.push_back(&flag);
  std::sort(flags.begin(), flags.end(),
            [version](const Flag* a, const Flag* b) { return a->place_in(version) < b->place_in(version); });
  return flags;
}

std::string_view python_name(FlagType type) {
  switch (type) {
    case FlagType::none:
      return "None";
    case FlagType::str:
      return "str";
    case FlagType::integer:
      return "int";
    case FlagType::real:
      return "float";
    case FlagType::json:
      return "loads";
    case FlagType::json_list:
      return "json_list_type";
    case FlagType::human_int:
      return "human_readable_int";
    case FlagType::nullable_str:
      return "nullable_str";
    case FlagType::graph_config:
      return "parse_cuda_graph_config_arg";
  }
  return "";
}

std::string_view python_name(FlagAction action) {
  switch (action) {
    case FlagAction::store:
      return "_StoreAction";
    case FlagAction::store_true:
      return "_StoreTrueAction";
    case FlagAction::deprecated_alias:
      return "DeprecatedAliasStoreAction";
    case FlagAction::deprecated_store_true:
      return "DeprecatedStoreTrueAction";
    case FlagAction::deprecated_store_const:
      return "DeprecatedStoreConstAction";
    case FlagAction::deprecated:
      return "DeprecatedAction";
    case FlagAction::boolean_optional:
      return "BooleanOptionalAction";
    case FlagAction::lora_path:
      return "LoRAPathAction";
  }
  return "";
}

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> result;
  while (!words.empty()) {
    const std::size_t end = words.find(' ');
    result.push_back(words.substr(0, end));
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  return result;
}

}  // namespace a2asim
