#include "model/launch/argparse.h"

#include <algorithm>
#include <optional>

#include "model/base/json_reader.h"
#include "model/base/words.h"

namespace a2asim {
namespace {

using What = ArgparseProblem::What;
using Unexpected = tl::unexpected<ArgparseProblem>;

// argparse adds -h and --help by itself, before every other option.
constexpr Flag kHelp = {.option_strings = "-h --help",
                        .dest = "help",
                        .action = FlagAction::deprecated,
                        .nargs = FlagNargs::zero,
                        .default_json = "\"==SUPPRESS==\""};

// What one word of the command line is.
struct Word {
  bool is_option = false;
  const Flag* flag = nullptr;  // null with is_option: looks like an option, but there is none
  std::string_view option_string;
  std::optional<std::string> explicit_value;
};

Scalar scalar_from_json(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  return std::monostate{};
}

Value value_from_json(std::string_view text) {
  if (text == "null") return {};  // nine of ten defaults are one of these three
  if (text == "true" || text == "false") return {text == "true", {}, false};
  const nlohmann::json parsed = read_json(text).value_or(nlohmann::json());
  Value value;
  value.is_list = parsed.is_array();
  if (!value.is_list) value.scalar = scalar_from_json(parsed);
  if (value.is_list)
    for (const auto& item : parsed) value.list.push_back(scalar_from_json(item));
  return value;
}

bool is_negative_number(std::string_view word) {  // ^-\d+$|^-\d*\.\d+$
  word.remove_prefix(1);
  const std::size_t point = word.find('.');
  const std::string_view whole = word.substr(0, point);
  const auto only_digits = [](std::string_view s) {
    return s.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (point == std::string_view::npos) return !whole.empty() && only_digits(whole);
  const std::string_view fraction = word.substr(point + 1);
  return only_digits(whole) && !fraction.empty() && only_digits(fraction);
}

class Parser {
 public:
  Parser(const OptionSet& options, std::span<const std::string> argv, const Excuse& excuse)
      : options_(options), argv_(argv), excuse_(excuse) {}

  tl::expected<ParsedNamespace, ArgparseProblem> parse(RequiredCheck required) {
    if (auto problem = classify_words()) return Unexpected(std::move(*problem));
    for (std::size_t i = 0; i < argv_.size();) {
      if (!words_[i].is_option || words_[i].flag == nullptr) {
        result_.extras.push_back(argv_[i++]);
      } else if (auto problem = consume_option(i)) {
        return Unexpected(std::move(*problem));
      }
    }
    if (required == RequiredCheck::yes)
      if (auto problem = check_required()) return Unexpected(std::move(*problem));
    return std::move(result_);
  }

 private:
  std::optional<ArgparseProblem> classify_words() {
    words_.resize(argv_.size());
    for (std::size_t i = 0; i < argv_.size(); ++i) {
      if (argv_[i] == "--") {  // everything after it is a plain word
        separator_ = i;
        return std::nullopt;
      }
      if (auto problem = classify(argv_[i], words_[i])) return problem;
    }
    return std::nullopt;
  }

  std::optional<ArgparseProblem> classify(const std::string& text, Word& word) const {
    if (text.empty() || text.front() != '-') return std::nullopt;
    const std::size_t equals = text.find('=');
    const std::string_view name = std::string_view(text).substr(0, equals);
    std::vector<Word> matches;
    if (const Flag* flag = options_.find(text)) {
      matches.push_back({true, flag, text, std::nullopt});
    } else if (text.size() == 1) {
      return std::nullopt;
    } else if (const Flag* before_equals = equals == std::string::npos ? nullptr : options_.find(name)) {
      matches.push_back({true, before_equals, name, text.substr(equals + 1)});
    } else {
      matches = text[1] == '-' ? abbreviations(text, equals) : short_options(text);
    }
    if (matches.size() > 1) return ambiguous(text, matches);
    if (matches.size() == 1) word = matches.front();
    if (matches.size() == 1) return std::nullopt;
    word.is_option = !is_negative_number(text) && text.find(' ') == std::string::npos;
    return std::nullopt;
  }

  std::vector<Word> abbreviations(const std::string& text, std::size_t equals) const {
    std::vector<Word> matches;
    const std::string_view prefix = std::string_view(text).substr(0, equals);
    for (const OptionSet::Option& option : options_.options()) {
      if (!option.string.starts_with(prefix)) continue;
      matches.push_back({true, option.flag, option.string, std::nullopt});
      if (equals != std::string::npos) matches.back().explicit_value = text.substr(equals + 1);
    }
    return matches;
  }

  // `-hX` is -h with the explicit argument X: options of one dash may be written in one word.
  std::vector<Word> short_options(const std::string& text) const {
    std::vector<Word> matches;
    for (const OptionSet::Option& option : options_.options()) {
      if (option.string == std::string_view(text).substr(0, 2))
        matches.push_back({true, option.flag, option.string, text.substr(2)});
      else if (option.string.starts_with(text))
        matches.push_back({true, option.flag, option.string, std::nullopt});
    }
    return matches;
  }

  static ArgparseProblem ambiguous(const std::string& text, const std::vector<Word>& matches) {
    std::string list;
    for (const Word& match : matches) list += (list.empty() ? "" : ", ") + std::string(match.option_string);
    return {What::ambiguous, "ambiguous option: " + text + " could match " + list, text};
  }

  static ArgparseProblem problem(What what, const Flag& flag, std::string_view message, std::string argument = "") {
    return {what, "argument " + display_name(flag) + ": " + std::string(message), std::move(argument)};
  }

  // How many plain words follow word i directly.
  std::size_t plain_words_after(std::size_t i) const {
    std::size_t end = i + 1;
    while (end < argv_.size() && end != separator_ && !words_[end].is_option) ++end;
    return end - i - 1;
  }

  // The option at word i with its values; moves i behind them.
  std::optional<ArgparseProblem> consume_option(std::size_t& i) {
    const Word& word = words_[i];
    const Flag& flag = *word.flag;
    std::vector<std::string> texts;
    if (word.explicit_value) {
      if (&flag == &kHelp && word.option_string == "-h" && !word.explicit_value->empty())
        return problem(What::unexpected_value, flag, "ignored explicit argument " + python_repr(*word.explicit_value));
      if (flag.nargs == FlagNargs::zero)
        return problem(What::unexpected_value, flag, "ignored explicit argument " + python_repr(*word.explicit_value),
                       *word.explicit_value);
      if (*word.explicit_value != "--") texts.push_back(*word.explicit_value);  // argparse drops a "--" here
      ++i;
    } else {
      const std::size_t available = plain_words_after(i);
      const bool takes_many = flag.nargs == FlagNargs::plus || flag.nargs == FlagNargs::star;
      const std::size_t count = takes_many                      ? available
                                : flag.nargs == FlagNargs::zero ? 0
                                                                : std::min<std::size_t>(available, 1);
      if (count == 0 && flag.nargs == FlagNargs::one)
        return problem(What::missing_value, flag, "expected one argument");
      if (count == 0 && flag.nargs == FlagNargs::plus)
        return problem(What::missing_value, flag, "expected at least one argument");
      for (std::size_t k = 1; k <= count; ++k) texts.push_back(argv_[i + k]);
      i += 1 + count;
    }
    return take_action(flag, word.option_string, texts);
  }

  std::optional<ArgparseProblem> take_action(const Flag& flag, std::string_view option_string,
                                             const std::vector<std::string>& texts) {
    if (&flag == &kHelp) return ArgparseProblem{What::help, "help was asked for", std::string(option_string)};
    Value value;
    const bool takes_one = flag.nargs == FlagNargs::one || flag.nargs == FlagNargs::optional;
    value.is_list = !(takes_one && texts.size() == 1);
    for (const std::string& text : texts) {
      auto converted = convert_value(flag, text);
      if (!converted && excuse_ && excuse_(flag, converted.error())) return std::nullopt;
      if (!converted) return std::move(converted.error());
      if (value.is_list)
        value.list.push_back(std::move(*converted));
      else
        value.scalar = std::move(*converted);
    }
    if (flag.nargs == FlagNargs::optional && texts.empty()) value = value_from_json(flag.const_json);
    result_.uses.push_back({&flag, option_string});
    store(flag, option_string, std::move(value));
    return std::nullopt;
  }

  void store(const Flag& flag, std::string_view option_string, Value value) {
    switch (flag.action) {
      case FlagAction::store:
      case FlagAction::deprecated_alias:
      case FlagAction::lora_path:
        result_.values[flag.dest] = std::move(value);
        return;
      case FlagAction::store_true:
      case FlagAction::deprecated_store_true:
        result_.values[flag.dest] = Value{true, {}, false};
        return;
      case FlagAction::boolean_optional:
        result_.values[flag.dest] = Value{!option_string.starts_with("--no-"), {}, false};
        return;
      case FlagAction::deprecated_store_const:
        result_.values[flag.dest] = Value{std::string(stored_const(option_string)), {}, false};
        return;
      case FlagAction::deprecated:
        return;
    }
  }

  // The backend that an old on/off option of the prefill graphs now stands for.
  static std::string_view stored_const(std::string_view option_string) {
    if (option_string == "--enable-breakable-cuda-graph") return "breakable";
    if (option_string == "--enforce-piecewise-cuda-graph") return "tc_piecewise";
    return "disabled";  // --disable-piecewise-cuda-graph
  }

  std::optional<ArgparseProblem> check_required() const {
    std::string missing;
    for (const Flag* flag : options_.flags()) {
      const bool given =
          std::any_of(result_.uses.begin(), result_.uses.end(), [&](const FlagUse& use) { return use.flag == flag; });
      if (flag->required && !given) missing += (missing.empty() ? "" : ", ") + display_name(*flag);
    }
    if (missing.empty()) return std::nullopt;
    return ArgparseProblem{What::required, "the following arguments are required: " + missing, missing};
  }

  const OptionSet& options_;
  std::span<const std::string> argv_;
  const Excuse& excuse_;
  std::vector<Word> words_;
  std::size_t separator_ = static_cast<std::size_t>(-1);  // index of "--"
  ParsedNamespace result_;
};

}  // namespace

OptionSet::OptionSet(std::vector<const Flag*> flags) : flags_(std::move(flags)) {
  std::vector<const Flag*> all = {&kHelp};
  all.insert(all.end(), flags_.begin(), flags_.end());
  for (const Flag* flag : all) {
    for (const std::string_view string : split_words(flag->option_strings)) options_.push_back({string, flag});
    if (flag->default_json != "\"==SUPPRESS==\"") defaults_.emplace(flag->dest, value_from_json(flag->default_json));
  }
  for (const Option& option : options_) exact_.emplace(option.string, option.flag);
}

const Flag* OptionSet::find(std::string_view string) const {
  const auto found = exact_.find(string);
  return found == exact_.end() ? nullptr : found->second;
}

std::vector<std::string> OptionSet::abbreviations_of(const Flag& flag) const {
  std::vector<std::string> out;
  for (const Option& own : options_) {
    if (own.flag != &flag || !own.string.starts_with("--")) continue;
    for (std::size_t size = 3; size < own.string.size(); ++size) {
      const std::string_view beginning = own.string.substr(0, size);
      const auto begins_so = [&](const Option& other) { return other.string.starts_with(beginning); };
      if (std::ranges::count_if(options_, begins_so) == 1) out.emplace_back(beginning);
    }
  }
  return out;
}

tl::expected<ParsedNamespace, ArgparseProblem> parse_known_args(const OptionSet& options,
                                                                std::span<const std::string> argv,
                                                                RequiredCheck required, const Excuse& excuse) {
  return Parser(options, argv, excuse).parse(required);
}

}  // namespace a2asim
