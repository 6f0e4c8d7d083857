#include "tools/check/edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/launch/launch_file.h"
#include "tools/program/input.h"

namespace a2asim {
namespace {

using What = FixStep::What;
constexpr std::size_t npos = std::string_view::npos;

bool is_option_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '$';
}
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::size_t line_begin(std::string_view text, std::size_t at) { return at == 0 ? 0 : text.rfind('\n', at - 1) + 1; }
std::size_t line_end(std::string_view text, std::size_t at) { return std::min(text.find('\n', at), text.size()); }
std::string_view line_around(std::string_view text, std::size_t at) {
  const std::size_t begin = line_begin(text, at);
  return text.substr(begin, line_end(text, at) - begin);
}
std::size_t line_number(std::string_view text, std::size_t at) {
  return static_cast<std::size_t>(std::ranges::count(text.substr(0, at), '\n')) + 1;
}

bool is_comment(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(line_begin(text, at), at - line_begin(text, at));
  const std::size_t hash = before.find('#');
  return hash != npos && (hash == 0 || is_blank(before[hash - 1]));
}

// All places of a whole word that is no comment.
std::vector<std::size_t> places_of_word(std::string_view text, std::string_view word) {
  std::vector<std::size_t> out;
  for (std::size_t at = text.find(word); at != npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || (!is_option_char(text[at - 1]) && text[at - 1] != '{');
    const std::size_t end = at + word.size();
    if (begins && (end == text.size() || !is_option_char(text[end])) && !is_comment(text, at)) out.push_back(at);
  }
  return out;
}

// The one that is meant: alone behind the server's line, or else alone in the text.
std::optional<std::size_t> only_place(const LaunchText& text, std::size_t server, std::string_view word) {
  const std::vector<std::size_t> all = places_of_word(text.text, word);
  const std::size_t first = text.servers[server].line;
  std::size_t last = npos;
  for (const LaunchedServer& other : text.servers)
    if (other.line > first) last = std::min(last, other.line);
  std::vector<std::size_t> own;
  for (const std::size_t at : all)
    if (const std::size_t line = line_number(text.text, at); line >= first && line < last) own.push_back(at);
  if (own.size() == 1) return own.front();
  if (own.empty() && all.size() == 1) return all.front();
  return std::nullopt;
}

// Past what stands between two words of a command, of a list in brackets, or of list items.
std::size_t skip_between(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const char c = text[at];
    const bool item = c == '-' && at + 1 < text.size() && is_blank(text[at + 1]);
    if (!is_blank(c) && c != '\n' && c != '\\' && c != ',' && c != '"' && c != '\'' && c != '=' && !item) break;
    ++at;
  }
  return at;
}

// The values behind an option, as the command has them; nothing where the text says something else.
std::optional<TextRange> values_behind(std::string_view text, std::size_t at, std::span<const std::string> values) {
  TextRange range{npos, at};
  for (const std::string& value : values) {
    const std::size_t begin = skip_between(text, range.end);
    if (!text.substr(begin).starts_with(value)) return std::nullopt;
    range.end = begin + value.size();
    if (range.end < text.size() && is_option_char(text[range.end])) return std::nullopt;
    range.begin = std::min(range.begin, begin);
  }
  if (range.begin == npos) range.begin = range.end;
  return range;
}

struct WordPlace {
  TextRange whole;  // with the quotes around it
  TextRange values;
};

void take_quotes(std::string_view text, TextRange& range) {
  if (range.begin == 0 || range.end >= text.size()) return;
  const char quote = text[range.begin - 1];
  const bool opens = (quote == '"' || quote == '\'');
  const std::size_t close = text.find(quote, range.begin);
  const bool alone = opens && (close == range.end || text.substr(range.begin, close - range.begin).find(' ') == npos);
  if (!alone) return;
  --range.begin;
  if (text[range.end] == quote) ++range.end;
}

std::vector<std::string> names_of(const std::string& flag, const Spellings& spellings) {
  std::vector<std::string> names = spellings ? spellings(flag) : std::vector<std::string>{};
  return names.empty() ? std::vector{flag} : names;
}

std::optional<WordPlace> place_of_flag(const LaunchText& text, std::size_t server, const std::string& flag,
                                       const Spellings& spellings) {
  const std::vector<std::string>& argv = text.servers[server].command.argv;
  const std::vector<WordRange> given = find_flag(argv, names_of(flag, spellings));
  if (given.size() != 1) return std::nullopt;
  const std::string& word = argv[given[0].begin];
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  std::vector<std::string> values(argv.begin() + static_cast<std::ptrdiff_t>(given[0].begin) + 1,
                                  argv.begin() + static_cast<std::ptrdiff_t>(given[0].end));
  if (equals != std::string::npos) values = {word.substr(equals + 1)};
  const auto at = only_place(text, server, name);
  if (!at) return std::nullopt;
  const auto found = values_behind(text.text, *at + name.size(), values);
  if (!found) return std::nullopt;
  WordPlace place{{*at, found->end}, *found};
  take_quotes(text.text, place.whole);
  if (place.whole.end < text.text.size() && !values.empty() &&
      (text.text[place.whole.end] == '"' || text.text[place.whole.end] == '\'') &&
      text.text[found->begin - 1] == text.text[place.whole.end])
    ++place.whole.end;
  return place;
}

std::optional<WordPlace> place_of_variable(const LaunchText& text, std::size_t server, const std::string& name) {
  const auto value = text.servers[server].command.env.get(name);
  if (!value) return std::nullopt;
  const auto at = only_place(text, server, name);
  if (!at) return std::nullopt;
  std::size_t begin = *at + name.size();
  while (begin < text.text.size() &&
         (is_blank(text.text[begin]) || std::string_view("=:\"'").find(text.text[begin]) != npos))
    ++begin;
  if (text.text.compare(begin, value->size(), *value) != 0) return std::nullopt;
  const TextRange values{begin, begin + value->size()};
  return WordPlace{{*at, values.end}, values};
}

// Takes the words out, and what joined them to the rest.
std::string without(const std::string& text, TextRange range) {
  const std::size_t first = line_begin(text, range.begin), end = line_end(text, range.end);
  std::string_view before = std::string_view(text).substr(first, range.begin - first);
  std::string_view after = std::string_view(text).substr(range.end, end - range.end);
  const std::size_t word = std::min(before.find_first_not_of(" \t"), before.size());
  const bool is_item = before.substr(word) == "- " || before.substr(word) == "-";
  const bool is_setting = before.substr(word) == "export " || before.substr(word) == "ENV ";
  const bool nothing_after = after.find_first_not_of(" \t\r") == npos;
  const bool is_continued = !after.empty() && after.find_last_not_of(" \t\r") != npos &&
                            after[after.find_last_not_of(" \t\r")] == '\\' &&
                            after.find_first_not_of(" \t\r") == after.find_last_not_of(" \t\r");
  const std::size_t next = std::min(end + 1, text.size());
  if ((is_item || is_setting || word == before.size()) && nothing_after) {
    std::string head = text.substr(0, first);
    const std::size_t last = head.find_last_not_of(" \t\r\n");
    if (!is_item && !is_setting && last != std::string::npos && head[last] == '\\')  // it ended a joined line
      head.erase(head.find_last_not_of(" \t", last - 1) + 1, last + 1 - (head.find_last_not_of(" \t", last - 1) + 1));
    return head + text.substr(next);
  }
  if (word == before.size() && is_continued) return text.substr(0, first) + text.substr(next);
  if (const std::size_t comma = after.find_first_not_of(" \t"); comma != npos && after[comma] == ',') {
    std::size_t begin = range.end + comma + 1;
    while (begin < text.size() && is_blank(text[begin])) ++begin;
    return text.substr(0, range.begin) + text.substr(begin);
  }
  std::size_t begin = range.begin;
  while (begin > first && is_blank(text[begin - 1])) --begin;
  if (begin > first && text[begin - 1] == ',') --begin;
  if (begin == first || begin == range.begin) {  // blanks behind it go instead: those of the line stay
    begin = range.begin;
    while (range.end < text.size() && is_blank(text[range.end])) ++range.end;
  }
  return text.substr(0, begin) + text.substr(range.end);
}

// The words in front of an option that stands once, written as that one is.
std::optional<std::string> with_flag(const LaunchText& text, std::size_t server, const FixStep& step) {
  for (const std::string& word : text.servers[server].command.argv) {
    if (!word.starts_with("--")) continue;
    const auto at = only_place(text, server, word.substr(0, word.find('=')));
    if (!at) continue;
    std::size_t begin = *at;
    const char quote =
        begin > 0 && (text.text[begin - 1] == '"' || text.text[begin - 1] == '\'') ? text.text[begin - 1] : ' ';
    if (quote != ' ') --begin;
    const std::size_t first = line_begin(text.text, begin);
    const std::string before = text.text.substr(first, begin - first);
    std::vector<std::string> words = {step.name};
    words.insert(words.end(), step.values.begin(), step.values.end());
    std::string added;
    const bool is_item = before.ends_with("- ") && before.find_first_not_of(" \t") == before.size() - 2;
    const bool in_list = quote != ' ' && (before.ends_with("[") || before.ends_with(", ") || before.ends_with(","));
    for (const std::string& one : words) {
      if (is_item)
        added += fmt::format("{}\n{}", one.starts_with('-') ? one : '"' + one + '"', before);
      else if (in_list)
        added += fmt::format("{0}{1}{0}, ", quote, one);
      else
        added += one + ' ';
    }
    return text.text.substr(0, in_list || is_item || quote == ' ' ? begin : begin + 1) + added +
           text.text.substr(in_list || is_item || quote == ' ' ? begin : begin + 1);
  }
  return std::nullopt;
}

std::optional<std::string> with_step(const LaunchText& text, std::size_t server, const FixStep& step,
                                     const Spellings& spellings, std::string_view export_word) {
  const bool is_flag = step.what == What::remove_flag || step.what == What::set_flag;
  const auto place =
      is_flag ? place_of_flag(text, server, step.name, spellings) : place_of_variable(text, server, step.name);
  if (step.what == What::remove_flag || step.what == What::unset_variable)
    return place ? std::optional(without(text.text, place->whole)) : std::nullopt;
  if (place && place->values.begin < place->values.end) {
    std::string value;
    for (const std::string& one : step.values) value += (value.empty() ? "" : " ") + one;
    return text.text.substr(0, place->values.begin) + value + text.text.substr(place->values.end);
  }
  if (step.what == What::set_flag) {
    const bool is_given = !find_flag(text.servers[server].command.argv, names_of(step.name, spellings)).empty();
    return is_given ? std::nullopt : with_flag(text, server, step);
  }
  if (text.servers[server].command.env.is_set(step.name)) return std::nullopt;
  std::size_t at = 0;
  for (std::size_t line = 1; line < text.servers[server].line && at < text.text.size(); ++line)
    at = line_end(text.text, at) + 1;
  const std::string_view line = line_around(text.text, std::min(at, text.text.size()));
  const std::string_view indent = line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
  return text.text.substr(0, at) + fmt::format("{}{} {}={}\n", indent, export_word, step.name, step.values.front()) +
         text.text.substr(at);
}

// The text reads as it should: this server with the fix, every other one as it was.
bool reads_as(const LaunchText& before, std::size_t server, const LaunchCommand& wanted, const LaunchText& after) {
  if (after.servers.size() != before.servers.size()) return false;
  for (std::size_t at = 0; at < after.servers.size(); ++at) {
    const LaunchCommand& is = after.servers[at].command;
    const LaunchCommand& should = at == server ? wanted : before.servers[at].command;
    if (is.env != should.env || !same_words(is.argv, should.argv)) return false;
  }
  return true;
}

}  // namespace

bool same_words(std::vector<std::string> a, std::vector<std::string> b) {
  std::ranges::sort(a), std::ranges::sort(b);
  return a == b;
}

std::optional<TextRange> place_of(const LaunchText& text, std::size_t server, const FixStep& step,
                                  const Spellings& spellings) {
  const bool is_flag = step.what == What::remove_flag || step.what == What::set_flag;
  const auto place =
      is_flag ? place_of_flag(text, server, step.name, spellings) : place_of_variable(text, server, step.name);
  if (!place) return std::nullopt;
  return place->whole;
}

Result<std::string> edited_text(const LaunchText& text, std::size_t server, const Fix& fix, const Spellings& spellings,
                                const Environment& env) {
  LaunchCommand wanted = text.servers[server].command;
  if (!apply(fix, wanted, spellings)) return unusable("it is no edit of the command");
  for (const std::string_view export_word : {"export", "ENV"}) {
    LaunchText now = text;
    bool found = true;
    for (const FixStep& step : fix.steps) {
      const auto next = with_step(now, server, step, spellings, export_word);
      auto servers = next ? find_servers_in_file(*next, env) : Result<std::vector<LaunchedServer>>();
      if (!next || !servers || servers->size() != text.servers.size()) {
        found = false;
        break;
      }
      now.text = *next;
      now.servers = std::move(*servers);
    }
    if (found && reads_as(text, server, wanted, now)) return now.text;
  }
  return unusable(
      fmt::format("'{}' is left to you: its words do not stand exactly once in the text, or other servers "
                  "share them",
                  in_words(fix)));
}

Replacement replacement_of(std::string_view before, std::string_view after) {
  std::size_t same = 0, end = 0;
  const std::size_t most = std::min(before.size(), after.size());
  while (same < most && before[same] == after[same]) ++same;
  while (end < most - same && before[before.size() - 1 - end] == after[after.size() - 1 - end]) ++end;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };  // UTF-8
  while (same > 0 &&
         ((same < before.size() && continues(before[same])) || (same < after.size() && continues(after[same]))))
    --same;
  while (end > 0 && continues(before[before.size() - end])) --end;
  return {{same, before.size() - end}, std::string(after.substr(same, after.size() - end - same))};
}

LineColumn line_column(std::string_view text, std::size_t byte) {
  const std::size_t begin = line_begin(text, byte);
  const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return {line_number(text, byte),
          static_cast<std::size_t>(std::ranges::count_if(text.substr(begin, byte - begin), starts)) + 1};
}

std::string unified_diff(std::string_view path, std::string_view before, std::string_view after) {
  if (before == after) return "";
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  const auto split = [](std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      lines.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
    return lines;
  };
  constexpr std::size_t kAround = 3;
  const auto old_lines = split(before), new_lines = split(after);
  std::size_t same = 0, tail = 0;
  const std::size_t most = std::min(old_lines.size(), new_lines.size());
  while (same < most && old_lines[same] == new_lines[same]) ++same;
  while (tail < most - same && old_lines[old_lines.size() - 1 - tail] == new_lines[new_lines.size() - 1 - tail]) ++tail;
  const std::size_t first = same - std::min(same, kAround);
  const std::size_t behind = std::min(tail, kAround);
  const std::size_t old_end = old_lines.size() - tail, new_end = new_lines.size() - tail;
  std::string out = fmt::format("--- a/{0}\n+++ b/{0}\n@@ -{1},{2} +{1},{3} @@\n", path, first + 1,
                                old_end + behind - first, new_end + behind - first);
  const auto add = [&](char mark, std::string_view line) {
    out += mark + std::string(line);
    if (!line.ends_with('\n')) out += "\n\\ No newline at end of file\n";
  };
  for (std::size_t at = first; at < same; ++at) add(' ', old_lines[at]);
  for (std::size_t at = same; at < old_end; ++at) add('-', old_lines[at]);
  for (std::size_t at = same; at < new_end; ++at) add('+', new_lines[at]);
  for (std::size_t at = old_end; at < old_end + behind; ++at) add(' ', old_lines[at]);
  return out;
}

}  // namespace a2asim
