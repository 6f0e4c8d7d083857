#include "model/launch/launch_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/utf8.h"
#include "model/launch/launch_command.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

bool is_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f;
}

}  // namespace

std::optional<Error> check_launch_text(std::string_view text) {
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

Error no_server(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return {ErrorKind::bad_input, fmt::format("no command: give the one that starts the server, as in {} {}",
                                              launch_syntaxes().front()->front_ends.front().command,
                                              launch_syntaxes().front()->example_arguments)};
  const std::string shown = shell_quote(headline(text.substr(begin)));
  std::string known;
  for (const LaunchSyntax* syntax : launch_syntaxes())
    for (const FrontEnd& front_end : syntax->front_ends)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", front_end.command);
  return {ErrorKind::bad_input, fmt::format("{} starts no server that is known here; known are {}", shown, known)};
}

std::string take_defaults(std::string_view word, std::map<std::string, std::string, std::less<>>& defaults) {
  std::string out;
  for (std::size_t begin = word.find("${"); begin != std::string_view::npos; begin = word.find("${")) {
    const std::size_t close = end_of_expansion(word, begin);
    if (close == std::string_view::npos) break;
    const std::string_view inside = word.substr(begin + 2, close - begin - 2);
    std::size_t end = 0;
    while (end < inside.size() && is_shell_name_char(inside[end])) ++end;
    std::string_view operation = inside.substr(end);
    if (operation.starts_with(':')) operation.remove_prefix(1);
    const bool has_default = end > 0 && (operation.starts_with('-') || operation.starts_with('='));
    out += word.substr(0, begin);
    out += has_default ? operation.substr(1) : word.substr(begin, close + 1 - begin);
    if (has_default) defaults.emplace(inside.substr(0, end), operation.substr(1));
    word.remove_prefix(close + 1);
  }
  return out + std::string(word);
}

bool holds_variable(std::string_view text) {
  for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
    const std::string_view rest = text.substr(at + (text.substr(at + 1).starts_with('{') ? 2 : 1));
    if (!rest.empty() && is_shell_name_start(rest.front())) return true;
  }
  return false;
}

bool is_template(std::string_view word) {
  const auto holds = [word](std::string_view part) { return word.find(part) != std::string_view::npos; };
  return !holds("{%") && (word.ends_with("{{") || holds("{{ .") || holds("{{."));
}

std::string shell_quote(std::string_view word) {
  const auto is_plain = [](char c) {
    return is_shell_name_char(c) || std::string_view("@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace a2asim
