// Every command-line option of SGLang, version by version, as ServerArgs.add_cli_args registers it on its
// argparse.ArgumentParser (python/sglang/srt/server_args.py). Data only: argparse.h knows what the columns mean.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace a2asim {

// The versions whose option lists differ. `newest` is main_cce0a1244b plus the few options that came with #35758 and
// are known by name; the other five are complete.
enum class ServerArgsVersion : std::uint8_t { jan, june, june29461, july, main, newest };
inline constexpr std::array kServerArgsVersions = {ServerArgsVersion::jan,       ServerArgsVersion::june,
                                                   ServerArgsVersion::june29461, ServerArgsVersion::july,
                                                   ServerArgsVersion::main,      ServerArgsVersion::newest};

std::string_view name(ServerArgsVersion version);         // "jan_2c2c4e446b", ..: month and commit
std::string_view description(ServerArgsVersion version);  // "January 2026 (2c2c4e446b)", for messages
std::optional<ServerArgsVersion> find_server_args_version(std::string_view name);

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
  std::string_view option_strings;  // separated by one blank, in registration order
  std::string_view dest;
  FlagType type;
  FlagAction action;
  FlagNargs nargs;
  std::string_view default_json;
  std::string_view const_json;
  bool required;
  std::string_view choices;           // separated by one blank; empty: anything goes
  std::array<std::int16_t, 6> place;  // by version: rank among its options, 0: the version has no such option
  int place_in(ServerArgsVersion version) const { return place[static_cast<std::size_t>(version)]; }
};

std::span<const Flag> flag_table();

// The options of one version in registration order.
std::vector<const Flag*> flags_of(ServerArgsVersion version);

// SGLang's own spelling of a converter ("int", "loads", ..) and of an action class ("_StoreAction", ..).
std::string_view python_name(FlagType type);
std::string_view python_name(FlagAction action);

// The words of a list that is written with single blanks between them.
std::vector<std::string_view> split_words(std::string_view words);

}  // namespace a2asim
