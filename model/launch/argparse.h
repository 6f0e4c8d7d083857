// Python's argparse (CPython 3.11.7), as far as SGLang's option list uses it: optional arguments only, prefix
// abbreviations, `--flag=value`, nargs None / 0 / ? / * / +, type converters, choices, required. Error texts are
// argparse's own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "model/launch/flag.h"

namespace a2asim {

// A parsed value. JSON values stay text (checked to be JSON); lists hold what nargs + and * collect.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
struct Value {
  Scalar scalar;
  std::vector<Scalar> list;
  bool is_list = false;
  bool operator==(const Value&) const = default;
};

// Why argparse would have stopped with exit code 2.
struct ArgparseProblem {
  enum class What : std::uint8_t {
    ambiguous,         // an abbreviation of several options
    missing_value,     // "expected one argument"
    unexpected_value,  // "ignored explicit argument"
    invalid_value,     // the converter refused it
    too_large,         // ours: an integer outside int64, which Python would take
    invalid_choice,
    required,
    unrecognized,
    help,  // -h: prints and leaves
  };
  What what;
  std::string text;      // "argument --pp-size/--pipeline-parallel-size: expected one argument"
  std::string argument;  // the value that was refused, where there is one
};

// One option of the command line, in order.
struct FlagUse {
  const Flag* flag;
  std::string_view option_string;  // as registered, abbreviations resolved
};

struct ParsedNamespace {
  std::map<std::string_view, Value> values;  // by dest, those that the command line set
  std::vector<FlagUse> uses;
  std::vector<std::string> extras;  // what no option took: "unrecognized arguments"
};

enum class RequiredCheck : std::uint8_t { yes, no };

// The options that a parser knows, in registration order, prepared for many parses. argparse adds -h and --help.
class OptionSet {
 public:
  struct Option {
    std::string_view string;
    const Flag* flag;
  };
  explicit OptionSet(std::vector<const Flag*> flags);

  std::span<const Flag* const> flags() const { return flags_; }
  std::span<const Option> options() const { return options_; }
  const Flag* find(std::string_view string) const;  // the exact name
  // "--dp" of --dp-size: the beginnings of its names that argparse takes for it, because no other option begins so.
  std::vector<std::string> abbreviations_of(const Flag& flag) const;
  // By dest: what a value is before the command line; no entry for argparse.SUPPRESS.
  const std::map<std::string_view, Value>& defaults() const { return defaults_; }

 private:
  std::vector<const Flag*> flags_;
  std::vector<Option> options_;
  std::map<std::string_view, const Flag*> exact_;
  std::map<std::string_view, Value> defaults_;
};

// Asked about a value that argparse refuses: true leaves its option out and goes on, as no argparse would.
using Excuse = std::function<bool(const Flag& flag, const ArgparseProblem& problem)>;

// parse_known_args. Never fails on unknown options: they are `extras`.
tl::expected<ParsedNamespace, ArgparseProblem> parse_known_args(const OptionSet& options,
                                                                std::span<const std::string> argv,
                                                                RequiredCheck required, const Excuse& excuse = {});

// One text through the option's converter and its choices.
tl::expected<Scalar, ArgparseProblem> convert_value(const Flag& flag, const std::string& text);

// "--pp-size/--pipeline-parallel-size", as argparse names an option in its messages.
std::string display_name(const Flag& flag);

// repr() of a str.
std::string python_repr(std::string_view text);

}  // namespace a2asim
