#include "model/launch/launch_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "model/launch/shell_words.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostWords = 20000;
constexpr std::string_view kExample = "python3 -m sglang.launch_server --model-path M --tp 8";

struct Module {
  std::string_view name;
  FrontEnd front_end;
};
constexpr Module kModules[] = {
    {"sglang.launch_server", FrontEnd::sglang_launch_server},
    {"sglang_router.launch_server", FrontEnd::sglang_router},
    {"dynamo.sglang", FrontEnd::dynamo_sglang},
};

std::optional<FrontEnd> front_end_of_module(std::string_view module) {
  for (const Module& known : kModules)
    if (module == known.name) return known.front_end;
  if (module.starts_with("dynamo.sglang.")) return FrontEnd::dynamo_sglang;  // dynamo.sglang.decode_worker, ..
  return std::nullopt;
}

std::string_view basename(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Where the server's arguments begin.
struct Found {
  FrontEnd front_end = FrontEnd::sglang_launch_server;
  std::size_t front = 0;      // first word of the front end: -m, sglang, or the script
  std::size_t arguments = 0;  // first word behind it
};

std::optional<Found> find_front_end(std::span<const std::string> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!assigned_name(words[i]).empty()) continue;
    if (words[i] == "-m" && i + 1 < words.size())
      if (const auto front_end = front_end_of_module(words[i + 1])) return Found{*front_end, i, i + 2};
    if (basename(words[i]) == "sglang" && i + 1 < words.size() && words[i + 1] == "serve")
      return Found{FrontEnd::sglang_serve, i, i + 2};
    if (words[i].ends_with("sglang/launch_server.py")) return Found{FrontEnd::sglang_launch_server, i, i + 1};
  }
  return std::nullopt;
}

// A word that is a whole command of its own, as for bash -c and ssh.
bool is_nested_command(const std::string& word) {
  if (word.find_first_of(" \t\n") == std::string::npos || !assigned_name(word).empty()) return false;
  return word.find("sglang.launch_server") != std::string::npos || word.find("sglang serve") != std::string::npos ||
         word.find("dynamo.sglang") != std::string::npos;
}

bool is_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
}

// Length of the UTF-8 character at the begin of `text`; 0 if it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) >= 0xA0) || (first == 0xF4 && byte(1) >= 0x90);
  return overlong || outside ? 0 : length;
}

std::optional<Error> check_text(std::string_view text) {
  if (text.size() > kMostBytes)
    return Error{ErrorKind::bad_input, fmt::format("the command has {} bytes: give one of at most 1 MiB", text.size())};
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = is_control(byte) ? 0 : utf8_length(text.substr(i, 4));
    if (length == 0)
      return Error{ErrorKind::bad_input, fmt::format("the command is no text: byte {:#04x} at offset {}", byte, i)};
    i += length;
  }
  return std::nullopt;
}

// The first line, short enough to be quoted in a message.
std::string_view headline(std::string_view text) {
  constexpr std::size_t kMostShown = 60;
  std::size_t end = 0;
  while (end < text.size() && end < kMostShown && text[end] != '\n' && text[end] != '\r')
    end += utf8_length(text.substr(end, 4));
  return text.substr(0, end);
}

// FOO=1 before the front end: assignments, arguments of env, of docker -e / --env and of mpirun -x.
void read_environment(std::span<const std::string> words, Environment& env) {
  for (std::string_view word : words) {
    if (word.starts_with("--env=")) word.remove_prefix(6);
    const std::string_view name = assigned_name(word);
    if (!name.empty()) env.set(std::string(name), std::string(word.substr(name.size() + 1)));
  }
}

// `sglang serve MODEL ..` names the model without a flag, and --model-type is the serve command's own.
std::vector<std::string> serve_arguments(std::span<const std::string> words) {
  std::vector<std::string> argv;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--model-type=")) continue;
    if (words[i] == "--model-type")
      ++i;
    else
      argv.push_back(words[i]);
  }
  if (!argv.empty() && !argv.front().empty() && argv.front().front() != '-') argv.insert(argv.begin(), "--model-path");
  return argv;
}

// Line `number` of the text, without blanks around it.
std::string_view line_of(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
}

// Options that begin a line of their own behind the server: the shell ended its command above them.
class LostWords {
 public:
  void add(const ShellCommand& words, std::size_t line) {
    if (words_.empty()) first_line_ = line;
    constexpr std::size_t kMostShown = 12;
    for (const std::string& word : words)
      if (words_.size() < kMostShown)
        words_.push_back(word);
      else
        more_ = true;
  }

  std::optional<Note> note(std::string_view text) const {
    if (words_.empty()) return std::nullopt;
    const std::string_view before = line_of(text, first_line_ - 1);
    const std::string why =
        before.starts_with('#') ? fmt::format("the comment in line {} ends the command: take it out", first_line_ - 1)
        : before.empty()        ? fmt::format("the empty line {} ends the command: take it out", first_line_ - 1)
                                : fmt::format("is a backslash missing at the end of line {}?", first_line_ - 1);
    return Note{fmt::format("line {}: {}{} is not part of the server's command, in a shell as here; {}", first_line_,
                            fmt::join(words_, " "), more_ ? " .." : "", why),
                true};
  }

 private:
  std::vector<std::string> words_;
  std::size_t first_line_ = 0;
  bool more_ = false;
};

using MaybeCommand = Result<std::optional<LaunchCommand>>;

// Looks for the first server that a text starts; nothing when it starts none.
class Search {
 public:
  MaybeCommand in_text(std::string_view text, const ShellVariables& outer) {
    std::optional<LaunchCommand> first;
    std::optional<Error> error;  // of a nested text; it counts only when there is no server elsewhere
    int servers = 0;
    LostWords lost;
    bool directly_behind = false;
    const auto notes =
        read_shell(text, outer, [&](const ShellCommand& words, const ShellVariables& variables, std::size_t line) {
          if (first) {
            directly_behind = directly_behind && words.front().starts_with("--");
            if (directly_behind) lost.add(words, line);
            servers += find_front_end(words) ? 1 : 0;
            return;
          }
          auto command = in_words(words, variables);
          if (!command && !error) error = std::move(command.error());
          if (command && *command) first = std::move(*command);
          directly_behind = first.has_value();
        });
    if (!notes) return tl::unexpected<Error>(notes.error());
    if (!first && error) return tl::unexpected<Error>(std::move(*error));
    if (!first) return std::nullopt;
    first->notes.insert(first->notes.begin(), notes->begin(), notes->end());
    if (auto note = lost.note(text)) first->notes.push_back(std::move(*note));
    if (servers > 0)
      first->notes.push_back({fmt::format("the text starts {} servers: only the first one is looked at", servers + 1)});
    return first;
  }

  MaybeCommand in_words(std::span<const std::string> words, const ShellVariables& outer) {
    const auto found = find_front_end(words);
    const auto before = words.first(found ? found->front : words.size());
    const auto nested = std::find_if(before.begin(), before.end(), is_nested_command);
    if (nested != before.end() && nested_left_ > 0) {
      --nested_left_;
      auto inner =
          in_text(*nested, with_prefix(outer, before.first(static_cast<std::size_t>(nested - before.begin()))));
      if (!found || (inner && *inner)) return inner;
    }
    if (!found) return std::nullopt;
    return command_at(*found, words, with_prefix(outer, before));
  }

 private:
  static ShellVariables with_prefix(const ShellVariables& outer, std::span<const std::string> words) {
    ShellVariables variables = outer;
    Environment prefix;
    read_environment(words, prefix);
    for (const auto& [name, value] : prefix.values()) {
      variables.values.insert_or_assign(name, value);
      variables.exported.insert(name);
    }
    return variables;
  }

  static LaunchCommand command_at(const Found& found, std::span<const std::string> words,
                                  const ShellVariables& variables) {
    LaunchCommand command;
    command.front_end = found.front_end;
    for (const auto& [name, value] : variables.values) {
      if (variables.exported.contains(name)) {
        command.env.set(name, value);
        if (name.starts_with("SGLANG_") && value.find_first_of("$`") != std::string::npos)
          command.notes.push_back(
              {fmt::format("{}={} is not set in the command: what SGLang takes without it counts", name, value), true});
      } else if (name.starts_with("SGLANG_"))
        command.notes.push_back({fmt::format("{} is set without export: the server does not see it", name)});
    }
    const auto arguments = words.subspan(found.arguments);
    command.argv = found.front_end == FrontEnd::sglang_serve
                       ? serve_arguments(arguments)
                       : std::vector<std::string>(arguments.begin(), arguments.end());
    return command;
  }

  int nested_left_ = 64;  // texts inside words, all levels together
};

Result<LaunchCommand> require_server(MaybeCommand command, std::string_view text) {
  if (!command) return tl::unexpected<Error>(std::move(command.error()));
  if (!*command) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos)
      return fail(ErrorKind::bad_input,
                  fmt::format("no command: give the one that starts the server, as in {}", kExample));
    return fail(ErrorKind::bad_input,
                fmt::format("{} starts no SGLang server: expected python -m sglang.launch_server, "
                            "sglang serve or python -m dynamo.sglang",
                            shell_quote(headline(text.substr(begin)))));
  }
  if ((*command)->argv.size() > kMostWords)
    return fail(ErrorKind::bad_input,
                fmt::format("the command has {} words: give one of at most {}", (*command)->argv.size(), kMostWords));
  return std::move(**command);
}

}  // namespace

std::string_view text(FrontEnd front_end) {
  switch (front_end) {
    case FrontEnd::sglang_launch_server:
      return "python3 -m sglang.launch_server";
    case FrontEnd::sglang_serve:
      return "sglang serve";
    case FrontEnd::sglang_router:
      return "python3 -m sglang_router.launch_server";
    case FrontEnd::dynamo_sglang:
      return "python3 -m dynamo.sglang";
  }
  return "";
}

Result<LaunchCommand> parse_launch_command(std::string_view text) {
  if (auto error = check_text(text)) return tl::unexpected<Error>(std::move(*error));
  return require_server(Search().in_text(text, {}), text);
}

Result<LaunchCommand> parse_launch_words(std::span<const std::string> words) {
  if (words.size() == 1 && words.front().find_first_of(" \t\n") != std::string::npos)
    return parse_launch_command(words.front());
  std::string joined;
  for (const std::string& word : words) {
    if (auto error = check_text(word)) return tl::unexpected<Error>(std::move(*error));
    joined += (joined.empty() ? "" : " ") + word;
  }
  if (joined.size() > kMostBytes) return tl::unexpected<Error>(std::move(*check_text(joined)));
  std::vector<Note> notes;
  std::vector<std::string> filled;
  for (const std::string& word : words) filled.push_back(is_nested_command(word) ? word : take_defaults(word, notes));
  auto command = require_server(Search().in_words(filled, {}), joined);
  if (command) command->notes.insert(command->notes.begin(), notes.begin(), notes.end());
  return command;
}

std::string print(const LaunchCommand& command) {
  std::string line;
  for (const auto& [name, value] : command.env.values())
    line += name + "=" + (value.empty() ? "" : shell_quote(value)) + " ";
  line += text(command.front_end);
  for (const std::string& word : command.argv) line += " " + shell_quote(word);
  return line;
}

}  // namespace a2asim
