#include "model/engines/sglang/options/option_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/check_invariant.h"
#include "model/base/words.h"
#include "model/engines/sglang/options/option_texts.h"

namespace a2asim {
namespace {

// The word behind an option's names: how it takes values, and what its default and constant usually are.
struct Kind {
  std::string_view word;
  FlagType type;
  FlagAction action = FlagAction::store;
  FlagNargs nargs = FlagNargs::one;
  std::string_view default_json = "null";
  std::string_view const_json = "null";
};
constexpr Kind kKinds[] = {
    {"str", FlagType::str},
    {"int", FlagType::integer},
    {"float", FlagType::real},
    {"json", FlagType::json},
    {"json_list", FlagType::json_list},
    {"human_int", FlagType::human_int},
    {"nullable_str", FlagType::nullable_str},
    {"graph_config", FlagType::graph_config},
    {"none", FlagType::none},
    {"flag", FlagType::none, FlagAction::store_true, FlagNargs::zero, "false", "true"},
    {"on_off", FlagType::none, FlagAction::boolean_optional, FlagNargs::zero},
    {"deprecated", FlagType::none, FlagAction::deprecated, FlagNargs::zero},
    {"deprecated_flag", FlagType::none, FlagAction::deprecated_store_true, FlagNargs::zero, "false", "true"},
    {"deprecated_const", FlagType::none, FlagAction::deprecated_store_const, FlagNargs::zero},
};

const Kind& kind_of(std::string_view word) {
  const auto* found = std::ranges::find(kKinds, word, &Kind::word);
  A2ASIM_INVARIANT(found != std::end(kKinds), "an option list uses known kinds of options");
  return *found;
}

// One list: where it comes from, and its options once they are asked for.
struct List {
  OptionList list;
  std::string_view date, description, after, lines;
  std::once_flag read, prepared;
  std::deque<std::string> texts;  // what its flags point into
  std::deque<Flag> own;
  std::vector<const Flag*> flags;  // in registration order, those of earlier lists too
  std::unique_ptr<const OptionSet> options;
};

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// "--name --alias str+ alias dest=other =[] const=null required { a b }"
void read_word(std::string_view word, Flag& flag) {
  if (word == "required") {
    flag.required = true;
  } else if (word == "alias" || word == "lora_path") {
    flag.action = word == "alias" ? FlagAction::deprecated_alias : FlagAction::lora_path;
  } else {
    const std::size_t equals = word.find('=');
    A2ASIM_INVARIANT(equals != std::string_view::npos, "an option list holds known words");
    const std::string_view field = word.substr(0, equals);
    A2ASIM_INVARIANT(field.empty() || field == "dest" || field == "const", "an option list sets known fields");
    (field.empty() ? flag.default_json : field == "dest" ? flag.dest : flag.const_json) = word.substr(equals + 1);
  }
}

const Flag* make_flag(List& list, std::string_view line) {
  const std::string_view text = list.texts.emplace_back(line);
  const std::size_t brace = text.find(" { ");
  const std::vector<std::string_view> words = split_words(text.substr(0, brace));
  std::size_t names = 0;
  while (names < words.size() && words[names].starts_with('-')) ++names;
  A2ASIM_INVARIANT(names > 0 && names < words.size(), "an option has names and a kind");
  std::string_view kind_word = words[names];
  constexpr std::string_view kNargs = "+*?";
  const std::size_t nargs = kNargs.find(kind_word.back());
  if (nargs != std::string_view::npos) kind_word.remove_suffix(1);
  const Kind& kind = kind_of(kind_word);

  Flag& flag = list.own.emplace_back();
  const char* const end = words[names - 1].data() + words[names - 1].size();
  flag.option_strings = text.substr(0, static_cast<std::size_t>(end - text.data()));
  const auto named = std::ranges::find_if(words, [](std::string_view word) { return word.starts_with("--"); });
  std::string dest(named->substr(2));
  std::ranges::replace(dest, '-', '_');
  flag.dest = list.texts.emplace_back(std::move(dest));
  flag.type = kind.type;
  flag.action = kind.action;
  constexpr FlagNargs kSeveral[] = {FlagNargs::plus, FlagNargs::star, FlagNargs::optional};
  flag.nargs = nargs == std::string_view::npos ? kind.nargs : kSeveral[nargs];
  flag.default_json = kind.default_json;
  flag.const_json = kind.const_json;
  for (std::size_t i = names + 1; i < words.size(); ++i) read_word(words[i], flag);
  if (brace != std::string_view::npos) flag.choices = text.substr(brace + 3, text.size() - brace - 5);
  A2ASIM_INVARIANT(brace == std::string_view::npos || text.ends_with(" }"), "choices stand in braces");
  return &flag;
}

std::string_view first_name(const Flag& flag) { return flag.option_strings.substr(0, flag.option_strings.find(' ')); }

// The changes of a list, applied in order: `at_` is where the next option goes.
class Changes {
 public:
  explicit Changes(List& list) : list_(list) {}

  void apply(char sign, std::string_view rest) {
    switch (sign) {
      case '@':
        at_ = rest.empty() ? 0 : place_of(rest) + 1;
        return;
      case '+':
        return insert(make_flag(list_, rest));
      case '~': {
        const Flag* changed = make_flag(list_, rest);
        at_ = place_of(first_name(*changed)) + 1;
        list_.flags[at_ - 1] = changed;
        return;
      }
      case '-':
        for (const std::string_view name : split_words(rest)) take_out(name);
        return;
      case '>':
        for (const std::string_view name : split_words(rest)) insert(take_out(name));
        return;
      default:
        A2ASIM_INVARIANT(false, "a change begins with one of @ + ~ - >");
    }
  }

 private:
  std::size_t place_of(std::string_view name) const {
    const auto found = std::ranges::find(list_.flags, name, [](const Flag* flag) { return first_name(*flag); });
    A2ASIM_INVARIANT(found != list_.flags.end(), "a change names an option of the list before");
    return static_cast<std::size_t>(found - list_.flags.begin());
  }
  const Flag* take_out(std::string_view name) {
    const std::size_t place = place_of(name);
    const Flag* flag = list_.flags[place];
    list_.flags.erase(list_.flags.begin() + static_cast<std::ptrdiff_t>(place));
    if (place < at_) --at_;
    return flag;
  }
  void insert(const Flag* flag) {
    list_.flags.insert(list_.flags.begin() + static_cast<std::ptrdiff_t>(at_), flag);
    ++at_;
  }

  List& list_;
  std::size_t at_ = 0;
};

std::deque<List>& lists() {
  static std::deque<List> all = [] {
    std::deque<List> found;
    // Each list stands behind the one that it comes after; the first comes after none.
    for (std::string_view before; found.size() < option_texts().size(); before = found.back().list.name) {
      const std::size_t known = found.size();
      for (const OptionText& file : option_texts()) {
        std::string_view text = file.text;
        std::string_view description = take_line(text);
        const std::string_view date = description.substr(0, description.find(' '));
        description.remove_prefix(date.size() + 1);
        const bool is_first = !text.starts_with("after ");
        const std::string_view after = is_first ? "" : take_line(text).substr(6);
        if (after != before) continue;
        List& list = found.emplace_back();
        list.list = {file.name};
        list.date = date;
        list.description = description;
        list.after = after;
        list.lines = text;
      }
      A2ASIM_INVARIANT(found.size() == known + 1, "option lists come after each other, one after each");
    }
    return found;
  }();
  return all;
}

List& find(std::string_view name) {
  const auto found = std::ranges::find(lists(), name, [](const List& list) { return list.list.name; });
  A2ASIM_INVARIANT(found != lists().end(), "an option list of this name exists");
  return *found;
}

void read(List& list);

const std::vector<const Flag*>& flags_of(List& list) {
  std::call_once(list.read, [&] { read(list); });
  return list.flags;
}

void read(List& list) {
  if (!list.after.empty()) list.flags = flags_of(find(list.after));
  Changes changes(list);
  std::string_view rest = list.lines;
  while (!rest.empty()) {
    std::string line(take_line(rest));
    while (rest.starts_with(' ')) {  // a long line goes on, further in
      const std::string_view more = take_line(rest);
      line += more.substr(more.find_first_not_of(' ') - 1);
    }
    if (line.starts_with('#')) continue;
    const std::string_view whole = line;
    if (list.after.empty()) {
      changes.apply('+', whole);
    } else {
      A2ASIM_INVARIANT(whole.size() == 1 || whole.substr(1).starts_with(' '),
                       "a change is a sign, a blank and its words");
      changes.apply(whole.front(), whole.substr(std::min<std::size_t>(whole.size(), 2)));
    }
  }
}

// The later list's flags, and those of the earlier one that it has no name of.
const OptionSet& options_between(List& earlier, List& later) {
  static std::mutex mutex;
  static std::map<std::pair<const List*, const List*>, std::unique_ptr<const OptionSet>> known;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<const OptionSet>& options = known[{&earlier, &later}];
  if (options) return *options;
  std::vector<const Flag*> flags = flags_of(later);
  std::set<std::string_view> names;
  for (const Flag* flag : flags)
    for (const std::string_view name : split_words(flag->option_strings)) names.insert(name);
  for (const Flag* flag : flags_of(earlier))
    if (std::ranges::none_of(split_words(flag->option_strings), [&](auto name) { return names.contains(name); }))
      flags.push_back(flag);
  options = std::make_unique<const OptionSet>(flags);
  return *options;
}

}  // namespace

std::span<const OptionList> option_lists() {
  static const std::vector<OptionList> all = [] {
    std::vector<OptionList> names;
    for (const List& list : lists()) names.push_back(list.list);
    return names;
  }();
  return all;
}

std::string description(OptionList list) {
  std::string words(find(list.name).description);
  return list.until.empty() ? words : words + " to " + std::string(find(list.until).description);
}

const OptionSet& option_set(OptionList wanted) {
  if (!wanted.until.empty()) return options_between(find(wanted.name), find(wanted.until));
  List& list = find(wanted.name);
  std::call_once(list.prepared, [&] { list.options = std::make_unique<const OptionSet>(flags_of(list)); });
  return *list.options;
}

std::string_view date_of(OptionList list) { return find(list.name).date; }

std::string lists_with(std::string_view option) {
  std::string_view first, last;
  for (const List& list : lists()) {
    if (option_set(list.list).find(option) == nullptr) continue;
    const bool is_release = list.list.name.starts_with('v');
    if (first.empty() || (is_release && !first.starts_with('v'))) first = list.description;
    if (!is_release && last.starts_with('v')) continue;
    last = list.description;
  }
  return first == last ? std::string(first) : fmt::format("{} to {}", first, last);
}

OptionList options_at(OptionList list, std::string_view date) {
  auto at = std::ranges::find(lists(), list.name, [](const List& known) { return known.list.name; });
  A2ASIM_INVARIANT(at != lists().end(), "a version names a list that exists");
  for (auto later = at; later != lists().end(); ++later)
    if (later->date <= date) at = later;  // dates compare as text
  const auto next = std::next(at);
  return {at->list.name, at->date < date && next != lists().end() ? next->list.name : ""};
}

}  // namespace a2asim
