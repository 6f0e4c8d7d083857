// ShellRunner: what the shell does itself.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "model/launch/shell_runner.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

using enum ShellStatus;

bool is_name(std::string_view text) {
  return !text.empty() && is_shell_name_start(text.front()) && std::ranges::all_of(text, is_shell_name_char);
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = !text.empty() && failed == std::errc{} && end == text.data() + text.size();
  return all ? std::optional(value) : std::nullopt;
}

}  // namespace

bool is_declaration(std::string_view verb) {
  return is_one_of(verb, {"export", "unset", "declare", "typeset", "local", "readonly"});
}

std::optional<ShellStatus> ShellRunner::run_builtin(const Words& words, const ShellNode& node) {
  const std::string& verb = words.front().text;
  if (words.front().is_open) return std::nullopt;
  if (verb == "true" || verb == "false") offer(other_than_text(words.front(), "", verb));  // of `if $USE_EP; then`
  if (is_one_of(verb, {"true", ":", "echo"})) return start(words, node), success;
  if (verb == "false") return failure;
  if (verb == "exit" || verb == "return") return leave(words);
  if (verb == "break" || verb == "continue") {
    const auto count = words.size() > 1 ? number_of(words[1].text).value_or(1) : 1;
    if (loops_ > 0) breaks_ = static_cast<int>(std::clamp<std::int64_t>(count, 1, loops_));
    continues_ = loops_ > 0 && verb == "continue";
    return success;
  }
  if (verb == "shift") return shift(words);
  if (verb == "set") return set(words);
  if (verb == "read") return read(words);
  if (verb == "mapfile" || verb == "readarray") return read_lines(words);
  if (verb == "getopts") return getopts(words);
  if (verb == "eval") return eval(words, node);
  if (verb == "source" || verb == ".") return source(words, node);
  if (verb == "let") {
    ShellStatus status = failure;
    for (const ShellValue& word : std::span(words).subspan(1)) status = run_arithmetic(word.text);
    return status;
  }
  if (verb == "printf" && words.size() > 2 && words[1].text.starts_with("-v")) {
    const std::string name = words[1].text.size() > 2 ? words[1].text.substr(2) : words[2].text;
    variables_.open(name.substr(0, name.find('[')));
    return success;
  }
  if (verb == "trap" && words.size() > 2 && !words[1].is_open && !words[1].text.starts_with('-')) {
    const auto is_exit = [](const ShellValue& word) { return word.text == "EXIT" || word.text == "0"; };
    if (std::any_of(words.begin() + 2, words.end(), is_exit)) at_exit_ = words[1].text;
    return success;
  }
  using Path = std::optional<std::string_view>;
  if (verb == "popd") variables_.go_to("-");
  if (verb == "cd" || verb == "pushd")
    variables_.go_to(words.size() > 1 && !words.back().is_open ? Path(words.back().text) : Path());
  if (verb == "shopt")
    for (const ShellValue& word : words)
      if (is_one_of(word.text, {"nocasematch", "expand_aliases", "lastpipe"}))
        refuse(node.line,
               fmt::format("shopt {} changes how the lines below are read, which is not followed: take it out",
                           word.text));
  return std::nullopt;
}

ShellStatus ShellRunner::leave(const Words& words) {
  const bool returns = words.front().text == "return";
  if (returns && calls_ + nested_ == 0) return failure;  // an error of the shell's, which goes on
  const auto code = words.size() > 1 && !words[1].is_open ? number_of(words[1].text) : std::nullopt;
  left_with_ = code ? (*code % 256 == 0 ? success : failure) : open;
  (returns ? returns_ : leaves_) = true;
  return left_with_;
}

// Options in front of the names; the verb itself counts for some of them.
ShellRunner::Declaration ShellRunner::read_declaration(std::span<const std::string> words, std::size_t line) {
  Declaration out;
  out.verb = words.front();
  bool is_global = false;
  for (; out.options < words.size(); ++out.options) {
    const std::string& word = words[out.options];
    const bool adds = word.starts_with('-');
    if (word.size() < 2 || (!adds && !word.starts_with('+'))) break;
    const auto has = [&](char c) { return word.find(c) != std::string::npos; };
    if (word == "--") {
      ++out.options;
      break;
    }
    if (out.verb == "unset") continue;
    out.is_array |= adds && has('a');
    out.is_keyed |= adds && has('A');
    out.is_integer |= adds && has('i');
    out.is_readonly |= adds && has('r');
    out.is_exported |= adds && has('x');
    out.takes_export |= (!adds && has('x')) || (adds && out.verb == "export" && has('n'));
    is_global |= adds && has('g');
    if (adds && has('l')) out.letters = 'l';
    if (adds && has('u')) out.letters = 'u';
    if (out.verb != "export" && adds && has('n'))
      refuse(line, fmt::format("{} -n, a second name of a variable, is not read: use the variable itself", out.verb));
    if (adds && has('f') && out.verb == "export")
      refuse(line, "export -f hands a function to other shells, which is not read: call it in this text");
  }
  out.is_exported |= out.verb == "export" && !out.takes_export;
  out.is_readonly |= out.verb == "readonly";
  out.is_local = !locals_.empty() && !is_global && is_one_of(out.verb, {"local", "declare", "typeset"});
  return out;
}

// `export A=1 B`, `local -i TP=4`, `unset A`: true when the words are such a command.
bool ShellRunner::declare(std::span<const std::string> words, const ShellNode& node) {
  if (words.empty() || !is_declaration(words.front())) return false;
  const Declaration declaration = read_declaration(words, node.line);
  const bool lists =
      words.size() > 1 && words[1].starts_with('-') && words[1].find_first_of("fFp") != std::string::npos;
  if (declaration.verb == "unset") return unset(words), true;
  if (lists) return true;
  for (const std::string& raw : words.subspan(declaration.options)) {
    if (const auto one = read_assignment(raw)) {
      ShellValue value = expander_.word(one->value);  // `local X=$X` reads the X outside
      declare_name(declaration, one->name);
      expander_.assign({one->name, one->index}, std::move(value), one->appends);
      finish_declaration(declaration, one->name);
      continue;
    }
    for (const ShellValue& word : expander_.fields(raw)) {
      const auto one = read_assignment(word.text);
      const std::string_view name = one ? one->name : std::string_view(word.text);
      if (!is_name(name)) {
        start({{std::string(declaration.verb)}, {word.text, true, true}},
              node);  // what it sets is not known: that is said
        continue;
      }
      declare_name(declaration, name);
      if (one) expander_.assign({name, one->index}, {std::string(one->value), word.is_open}, one->appends);
      finish_declaration(declaration, name);
    }
  }
  return true;
}

void ShellRunner::declare_name(const Declaration& declaration, std::string_view name) {
  const std::string own(name);
  if (declaration.is_local) keep_local(own);
  const bool only_exports = declaration.verb == "export" || declaration.verb == "readonly";
  const bool is_new = !variables_.named.contains(own);
  ShellVariable& variable = variables_.named[own];
  variable.is_open |= only_exports && is_new;  // `export A` of a variable from outside
  variable.is_keyed |= declaration.is_keyed;
  variable.is_array |= declaration.is_array;
  variable.is_integer |= declaration.is_integer;
  if (declaration.letters != '\0') variable.letters = declaration.letters;
}

// What counts only behind the assignment.
void ShellRunner::finish_declaration(const Declaration& declaration, std::string_view name) {
  const auto found = variables_.named.find(name);
  if (found == variables_.named.end()) return;
  if (declaration.is_exported || declaration.takes_export) found->second.is_exported = !declaration.takes_export;
  found->second.is_readonly |= declaration.is_readonly;
}

void ShellRunner::keep_local(const std::string& name) {
  const auto found = variables_.named.find(name);
  const bool is_new = locals_.back()
                          .emplace(name, found == variables_.named.end() ? std::nullopt : std::optional(found->second))
                          .second;
  if (is_new) variables_.named[name] = {};
}

void ShellRunner::unset(std::span<const std::string> words) {
  bool functions = false;
  for (const std::string& raw : words.subspan(1)) {
    if (raw.starts_with('-')) {
      functions |= raw == "-f";
      continue;
    }
    const std::string word = expander_.word(raw).text;
    const std::string assigned = word + "=";
    const auto element = read_assignment(assigned);
    if (functions || !element) {
      functions_.erase(word);
      continue;
    }
    const auto found = variables_.named.find(element->name);
    if (element->index.empty()) {
      if (found == variables_.named.end() && functions_.contains(word)) functions_.erase(word);
      variables_.unset(word);
    } else if (found != variables_.named.end() && found->second.is_keyed) {
      found->second.keys.erase(expander_.word(element->index).text);
    } else if (found != variables_.named.end()) {
      const auto at = expander_.number_of_index(element->name, element->index);
      at ? void(found->second.items.erase(*at)) : variables_.open(std::string(element->name));
    }
  }
}

// `eval WORDS`: what only the outside knows stands in the text as it is written, and stays open.
ShellStatus ShellRunner::eval(const Words& words, const ShellNode& node) {
  std::string text;
  for (const ShellValue& word : std::span(words).subspan(1)) text += (text.empty() ? "" : " ") + word.text;
  if (words.size() > 1 && words[1].is_open) start(words, node);  // what it sets is not known: that is said
  return run_text(text, node.line);
}

ShellStatus ShellRunner::source(const Words& words, const ShellNode& node) {
  const bool is_named = words.size() > 1 && !words[1].is_open;
  const auto file = is_named ? read_shell_file(variables_, read_file_, words[1].text) : std::nullopt;
  if (!file) return start(words, node), open;
  expander_.charge(file->text.size());
  const auto before = variables_.arguments;
  if (words.size() > 2) variables_.arguments = Words(words.begin() + 2, words.end());
  const std::string outer = std::exchange(variables_.source_folder, folder_of(file->path));
  const ShellStatus status = run_text(file->text, node.line);
  variables_.source_folder = outer;
  if (words.size() > 2) variables_.arguments = before;
  return std::exchange(returns_, false) ? left_with_ : status;
}

ShellStatus ShellRunner::shift(const Words& words) {
  const auto count = words.size() < 2   ? std::optional<std::int64_t>(1)
                     : words[1].is_open ? std::nullopt
                                        : number_of(words[1].text);
  if (!variables_.arguments) {
    constexpr std::int64_t kFar = 1000;  // which one $1 is then, nobody knows
    variables_.shifted += static_cast<std::size_t>(std::clamp<std::int64_t>(count.value_or(kFar), 0, kFar));
    return success;
  }
  Words& arguments = *variables_.arguments;
  const std::size_t size = arguments.size();
  if (count && *count >= 0 && static_cast<std::size_t>(*count) > size) return failure;
  const std::size_t shifted = count && *count >= 0 ? static_cast<std::size_t>(*count) : size + 1;
  if (shifted > size || std::any_of(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(shifted),
                                    [](const ShellValue& one) { return one.is_many; })) {
    variables_.arguments.reset();
    return open;
  }
  arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(shifted));
  return success;
}

// `set -e`, `set -- a b`
ShellStatus ShellRunner::set(const Words& words) {
  std::size_t at = 1;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at].text;
    if (words[at].is_open || word.size() < 2 || (word[0] != '-' && word[0] != '+') || word == "--") break;
    const bool named = word.ends_with('o') && at + 1 < words.size();
    if (word.find('e') != std::string::npos || (named && words[at + 1].text == "errexit"))
      stops_at_failure_ = word[0] == '-';
    if (named) ++at;
  }
  const bool ends = at < words.size() && (words[at].text == "--" || words[at].text == "-");
  if (ends) ++at;
  if (at < words.size() || (ends && words[at - 1].text == "--"))
    variables_.arguments = Words(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return success;
}

// `read` from a here-document or a here-string; what it takes from elsewhere is open.
ShellStatus ShellRunner::read(const Words& words) {
  std::vector<std::string> names;
  std::string array;
  bool is_raw = false, is_known = input_.has_value();
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (!word.starts_with('-')) {
      names.push_back(word);
      continue;
    }
    is_raw |= word.find('r') != std::string::npos;
    if (word.ends_with('a') && i + 1 < words.size()) array = words[++i].text;
    const std::size_t takes = word.find_first_of("dinNptu");
    is_known &= takes == std::string::npos || word[takes] == 'p';
    if (takes != std::string::npos && takes + 1 == word.size()) ++i;
  }
  const bool to_reply = names.empty() && array.empty();
  if (to_reply) names.emplace_back("REPLY");
  std::string line;
  bool ended = false;
  if (is_known) {
    const std::size_t end = input_->find('\n');
    ended = end == std::string::npos;
    line = input_->substr(0, end);
    input_ = ended ? std::string() : input_->substr(end + 1);
  }
  const bool splits = is_known && (is_raw || line.find('\\') == std::string::npos);
  auto fields = splits ? expander_.split(line, array.empty() ? names.size() : SIZE_MAX) : std::nullopt;
  if (to_reply && fields) fields = Words{{line}};
  if (!fields) {
    if (!is_known) input_.reset();
    for (const std::string& name : names)
      if (is_name(name)) variables_.open(name);
    if (!array.empty()) variables_.open(array), variables_.named[array].is_array = true;
    return is_known && !ended ? success : open;
  }
  if (!array.empty()) {
    variables_.named[array] = {.is_array = true};
    for (std::size_t i = 0; i < fields->size(); ++i)
      variables_.named[array].items[static_cast<std::int64_t>(i)] = (*fields)[i];
    return ended ? failure : success;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string assigned = names[i] + "=";
    if (const auto one = read_assignment(assigned))
      expander_.assign({one->name, one->index}, i < fields->size() ? (*fields)[i] : ShellValue{}, false);
  }
  return ended ? failure : success;
}

// mapfile -t NAME
ShellStatus ShellRunner::read_lines(const Words& words) {
  std::string name = "MAPFILE";
  bool is_plain = true, trims = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].text == "-t")
      trims = true;
    else if (words[i].text.starts_with('-'))
      is_plain = false;
    else
      name = words[i].text;
  }
  if (!is_name(name)) return open;
  variables_.open(name);
  variables_.named[name].is_array = true;
  if (!is_plain || !input_) return open;
  ShellVariable& variable = variables_.named[name] = {.is_array = true};
  for (std::string_view rest = *input_; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    variable.items[static_cast<std::int64_t>(variable.items.size())] = {
        std::string(rest.substr(0, end + (trims && rest[end] == '\n' ? 0 : 1)))};
    rest.remove_prefix(end + 1);
  }
  input_ = std::string();
  return success;
}

ShellStatus ShellRunner::getopts(const Words& words) {
  if (words.size() < 3) return failure;
  const std::string& name = words[2].text;
  if (!is_name(name)) return open;
  const std::optional<Words> arguments =
      words.size() > 3 ? std::optional(Words(words.begin() + 3, words.end())) : variables_.arguments;
  if (arguments) expander_.charge(2 * arguments->size());
  const ShellVariable* const place = variables_.find("OPTIND");
  const auto index = place == nullptr            ? std::optional<std::int64_t>(1)
                     : place->first() == nullptr ? std::nullopt
                                                 : number_of(place->first()->text);
  const bool is_open = !arguments || !index || *index < 1 || words[1].is_open ||
                       std::ranges::any_of(*arguments, [](const ShellValue& one) { return one.is_open; });
  if (is_open) {
    for (const std::string& one : {name, std::string("OPTARG"), std::string("OPTIND")}) variables_.open(one);
    return open;
  }
  auto at = static_cast<std::size_t>(*index) - 1;
  const auto set_index = [&] { variables_.set("OPTIND", {std::to_string(at + 1)}); };
  const std::string word = at < arguments->size() ? (*arguments)[at].text : std::string();
  if (option_at_ == 0 && (word.size() < 2 || word.front() != '-' || word == "--")) {
    at += word == "--" ? 1 : 0;
    set_index();
    found_option(name, "?", std::nullopt);
    return failure;
  }
  option_at_ = option_at_ == 0 || option_at_ >= word.size() ? 1 : option_at_;
  const char letter = word.size() > option_at_ ? word[option_at_++] : '?';
  const std::string& known = words[1].text;
  const bool is_quiet = known.starts_with(':');
  const std::size_t found = letter == ':' ? std::string::npos : known.find(letter, is_quiet ? 1 : 0);
  const bool takes = found != std::string::npos && known.substr(found + 1).starts_with(':');
  std::optional<std::string> argument;
  std::string result(1, letter);
  const std::string rest = word.substr(std::min(option_at_, word.size()));
  if (takes || rest.empty()) {
    option_at_ = 0;
    ++at;
  }
  if (takes && !rest.empty())
    argument = rest;
  else if (takes && at < arguments->size())
    argument = (*arguments)[at++].text;
  else if (takes || found == std::string::npos)
    result = is_quiet && takes ? ":" : "?", argument = is_quiet ? std::optional(std::string(1, letter)) : std::nullopt;
  set_index();
  found_option(name, result, argument);
  return success;
}

void ShellRunner::found_option(const std::string& name, std::string_view found, std::optional<std::string> argument) {
  variables_.set(name, {std::string(found)});
  argument ? variables_.set("OPTARG", {*argument}) : variables_.unset("OPTARG");
}

}  // namespace a2asim
