// One option of a command line as a program registers it on its argparse.ArgumentParser. Data only: argparse.h knows
// what the fields mean.
#pragma once

#include <cstdint>
#include <string_view>

namespace a2asim {

enum class FlagType : std::uint8_t {
  none,  // no converter: the option takes no value
  str,
  integer,
  real,
  json,          // json.loads
  json_list,     // json_list_type
  human_int,     // human_readable_int: 4096, 4k, 4Ki
  nullable_str,  // "" and "None" are None
  graph_config,  // parse_cuda_graph_config_arg
};

enum class FlagAction : std::uint8_t {
  store,
  store_true,
  deprecated_alias,  // stores like store, with a warning
  deprecated_store_true,
  deprecated_store_const,  // stores a fixed value for the option that replaced it
  deprecated,              // does nothing any more
  boolean_optional,        // --x and --no-x
  lora_path,
};

enum class FlagNargs : std::uint8_t { one, zero, plus, star, optional };

struct Flag {
  std::string_view option_strings = {};  // separated by one blank, in registration order
  std::string_view dest = {};
  FlagType type = FlagType::none;
  FlagAction action = FlagAction::store;
  FlagNargs nargs = FlagNargs::one;
  std::string_view default_json = "null";
  std::string_view const_json = "null";
  bool required = false;
  std::string_view choices = {};  // separated by one blank; empty: anything goes
};

// Python's spelling of a converter ("int", "loads", ..) and of an action class ("_StoreAction", ..).
std::string_view python_name(FlagType type);
std::string_view python_name(FlagAction action);

}  // namespace a2asim
