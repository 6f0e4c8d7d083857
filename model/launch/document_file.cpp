// Dockerfiles and Markdown documents as shell text.
#include <algorithm>
#include <map>

#include "model/base/json_reader.h"
#include "model/launch/file_kinds.h"
#include "model/launch/launch_text.h"
#include "model/launch/shell_expand.h"
#include "model/launch/shell_syntax.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == npos ? std::string_view() : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == npos ? text.size() : end + 1);
  }
  return lines;
}

struct Instruction {
  std::string name;  // in upper case
  std::string rest;
  std::size_t line = 1;
};

// Instructions with their continued lines joined; comments and blank lines gone.
std::vector<Instruction> instructions_of(std::string_view text) {
  std::vector<Instruction> out;
  bool continues = false;
  std::size_t number = 0;
  for (std::string_view line : lines_of(text)) {
    ++number;
    line = trimmed(line);
    if (line.empty() || line.starts_with('#')) continue;
    const bool more = line.ends_with('\\');
    if (more) line.remove_suffix(1);
    if (!continues) {
      const std::size_t blank = std::min(line.find_first_of(" \t"), line.size());
      Instruction one{std::string(line.substr(0, blank)), std::string(trimmed(line.substr(blank))), number};
      std::ranges::transform(one.name, one.name.begin(),
                             [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
      out.push_back(std::move(one));
    } else {
      out.back().rest.append(" ").append(line);
    }
    continues = more;
  }
  return out;
}

// ["a", "b"] as quoted words; nothing for the shell form.
std::optional<std::string> exec_form(const std::string& rest) {
  if (!rest.starts_with('[')) return std::nullopt;
  const Result<nlohmann::json> list = read_json(rest);
  if (!list || !list->is_array()) return std::nullopt;
  std::string words;
  for (const auto& word : *list) {
    if (!word.is_string()) return std::nullopt;
    words += (words.empty() ? "" : " ") + shell_quote(word.get<std::string>());
  }
  return words;
}

}  // namespace

std::optional<LaunchPieces> pieces_of_dockerfile(std::string_view text, const Environment& given) {
  const std::vector<Instruction> instructions = instructions_of(text);
  const auto first = std::ranges::find_if(instructions, [](const Instruction& one) { return one.name != "ARG"; });
  if (first == instructions.end() || first->name != "FROM") return std::nullopt;
  std::string settings, entry, command, image;
  ShellVariables arguments;  // of ARG: FROM and ENV see them
  for (const auto& [name, value] : given.values()) arguments.set(name, {value});
  bool entry_is_shell = false;
  LaunchPieces out;
  std::size_t line = 1;
  for (const Instruction& one : instructions) {
    if (one.name == "ARG")
      if (const std::string name(assigned_name(one.rest)); !name.empty() && !given.is_set(name))
        arguments.set(name, ShellExpander(arguments).word(one.rest.substr(name.size() + 1)));
    if (one.name == "FROM") {
      settings.clear(), entry.clear(), command.clear();
      const std::string_view from = std::string_view(one.rest).starts_with("--")
                                        ? trimmed(std::string_view(one.rest).substr(one.rest.find(' ') + 1))
                                        : std::string_view(one.rest);
      image = ShellExpander(arguments).word(from.substr(0, from.find_first_of(" \t"))).text;
    } else if (one.name == "ENV" || one.name == "ARG") {
      const std::size_t blank = one.rest.find_first_of(" \t");
      const bool old_form = one.name == "ENV" && assigned_name(one.rest).empty() && blank != std::string::npos;
      if (old_form)
        settings += "export " + one.rest.substr(0, blank) + "=" + shell_quote(trimmed(one.rest.substr(blank))) + "\n";
      else if (one.name == "ENV")
        settings += "export " + one.rest + "\n";
      else if (!assigned_name(one.rest).empty())
        settings += one.rest + "\n";
    } else if (one.name == "ENTRYPOINT" || one.name == "CMD") {
      const auto words = exec_form(one.rest);
      if (one.name == "ENTRYPOINT") command.clear(), entry_is_shell = !words;
      (one.name == "ENTRYPOINT" ? entry : command) = words.value_or(one.rest);
      line = one.line;
    }
  }
  const std::string all = entry.empty() ? command : entry_is_shell || command.empty() ? entry : entry + " " + command;
  out.pieces.push_back({settings + all + "\n", "", line, false, {}, image, "", {image}});
  return out;
}

namespace {

// The last piece is Python: the servers that it starts stand for it.
void replace_by_servers(std::vector<LaunchPiece>& pieces) {
  const LaunchPiece python = std::move(pieces.back());
  pieces.pop_back();
  std::optional<LaunchPieces> servers = pieces_of_python_servers(python.text, true);
  for (LaunchPiece& server : servers->pieces) {
    server.line += python.line - 1;
    pieces.push_back(std::move(server));
  }
}

}  // namespace

std::optional<LaunchPieces> pieces_of_markdown(std::string_view text) {
  if (text.starts_with("#!")) return std::nullopt;
  LaunchPieces out;
  bool any_fence = false, open = false, is_code = false, is_python = false;
  std::string_view fence;
  std::size_t indent = 0, number = 0;
  static constexpr std::string_view kShells[] = {"",    "bash",      "sh",   "shell",         "console",
                                                 "zsh", "terminal",  "yaml", "shell-session", "bash-session",
                                                 "yml", "dockerfile"};
  for (const std::string_view line : lines_of(text)) {
    ++number;
    const std::string_view inside = trimmed(line);
    const bool is_fence = inside.starts_with("```") || inside.starts_with("~~~");
    if (is_fence && !open) {
      any_fence = open = true;
      fence = inside.substr(0, 3);
      indent = line.find_first_not_of(" \t");
      const std::string_view info = trimmed(inside.substr(std::min(inside.find_first_not_of(fence[0]), inside.size())));
      std::string language(info.substr(0, info.find_first_of(" {,")));
      std::ranges::transform(language, language.begin(),
                             [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      is_python = language == "python" || language == "py";
      is_code = is_python || std::ranges::find(kShells, language) != std::end(kShells);
      if (is_code) out.pieces.push_back({"", "", number + 1, true, {}});
    } else if (open && inside.starts_with(fence) && inside.find_first_not_of(fence[0]) == npos) {
      open = false;
      if (is_code && is_python) replace_by_servers(out.pieces);
    } else if (open && is_code) {
      std::string_view own = line;
      own.remove_prefix(std::min({indent, own.size(), std::min(own.find_first_not_of(" \t"), own.size())}));
      if (own.starts_with("$ ")) own.remove_prefix(2);
      out.pieces.back().text.append(own).push_back('\n');
    }
  }
  if (!any_fence) return std::nullopt;
  return out;
}

}  // namespace a2asim
