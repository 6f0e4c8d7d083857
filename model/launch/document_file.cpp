// Dockerfiles and Markdown documents as shell text.
#include <algorithm>
#include <map>

#include "model/base/json_reader.h"
#include "model/launch/file_kinds.h"
#include "model/launch/front_end.h"
#include "model/launch/launch_file.h"
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
  std::string document = {};  // behind <<EOF
};

// "EOF" of COPY <<EOF /entry.sh; empty without one.
std::string_view end_of_document(const Instruction& one) {
  const std::string_view rest = one.rest;
  const std::size_t at = is_one_of(one.name, {"RUN", "COPY", "ADD"}) ? rest.find("<<") : npos;
  if (at == npos) return {};
  const std::size_t begin = rest.find_first_not_of("-'\"", at + 2);
  std::size_t end = begin;
  while (end < rest.size() && is_shell_name_char(rest[end])) ++end;
  return end == npos ? std::string_view() : rest.substr(begin, end - begin);
}

// Instructions with their continued lines joined; comments and blank lines gone.
std::vector<Instruction> instructions_of(std::string_view text) {
  std::vector<Instruction> out;
  bool continues = false;
  std::size_t number = 0;
  std::string document;  // its end
  for (const std::string_view whole : lines_of(text)) {
    ++number;
    std::string_view line = trimmed(whole);
    if (!document.empty()) {
      if (line == document)
        document.clear();
      else
        out.back().document.append(whole).push_back('\n');
      continue;
    }
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
    if (!more) document = end_of_document(out.back());
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

// What one FROM begins: its settings and files as shell text, and what the container runs.
struct Stage {
  std::string settings, entry, command, image;
  bool entry_is_shell = false;
};

class Dockerfile {
 public:
  explicit Dockerfile(const Environment& given) : given_(given) {
    for (const auto& [name, value] : given.values()) arguments_.set(name, {value});
  }

  void read(const Instruction& one) {
    if (one.name == "FROM") return from(one.rest);
    if (one.name == "ENV" || one.name == "ARG") return set(one);
    if (one.name == "RUN" || one.name == "COPY" || one.name == "ADD") return keep_file(one);
    if (one.name != "ENTRYPOINT" && one.name != "CMD") return;
    const auto words = exec_form(one.rest);
    const bool is_entry = one.name == "ENTRYPOINT";
    if (is_entry) stage_.command.clear(), stage_.entry_is_shell = !words;
    (is_entry ? stage_.entry : stage_.command) = words.value_or(one.rest);
    line_ = one.line;
  }

  LaunchPiece piece() const {
    const bool has_both = !stage_.entry.empty() && !stage_.entry_is_shell && !stage_.command.empty();
    const std::string all = has_both               ? stage_.entry + " " + stage_.command
                            : stage_.entry.empty() ? stage_.command
                                                   : stage_.entry;
    return {stage_.settings + all + "\n", "", line_, false, {}, stage_.image, "", {stage_.image}};
  }

 private:
  // FROM IMAGE AS NAME; a name of a stage above stands for all that it has.
  void from(std::string_view rest) {
    if (!name_.empty()) stages_[name_] = stage_;
    while (rest.starts_with("--")) rest = trimmed(rest.substr(std::min(rest.find(' '), rest.size())));
    const std::string_view image = rest.substr(0, rest.find_first_of(" \t"));
    const std::string_view name = rest.substr(std::min(rest.find_last_of(" \t") + 1, rest.size()));
    const auto base = stages_.find(std::string(image));
    stage_ = base != stages_.end() ? base->second : Stage{"", "", "", ShellExpander(arguments_).word(image).text};
    name_ = name == image ? std::string() : std::string(name);
  }

  void set(const Instruction& one) {
    const std::string name(assigned_name(one.rest));
    if (one.name == "ARG") {
      if (name.empty()) return;
      if (!given_.is_set(name)) arguments_.set(name, ShellExpander(arguments_).word(one.rest.substr(name.size() + 1)));
      stage_.settings += one.rest + "\n";
      return;
    }
    const std::size_t blank = one.rest.find_first_of(" \t");
    const bool is_old = name.empty() && blank != std::string::npos;  // ENV TP 8
    stage_.settings +=
        "export " +
        (is_old ? one.rest.substr(0, blank) + "=" + shell_quote(trimmed(one.rest.substr(blank))) : one.rest) + "\n";
  }

  // A script that ENTRYPOINT may name: COPY <<EOF /run.sh, RUN echo .. > /run.sh.
  void keep_file(const Instruction& one) {
    constexpr std::string_view kEnd = "END_OF_COPY";
    const bool runs = one.name == "RUN";
    const std::string& text = one.document.empty() ? one.rest : one.document;
    if (!names_a_server(text) || text.find(kEnd) != std::string::npos || (!runs && one.document.empty())) return;
    if (runs && (text.find('>') == std::string::npos || !parse_shell(text))) return;  // it writes nothing
    const std::string target = one.rest.substr(one.rest.find_last_of(" \t") + 1);
    stage_.settings +=
        runs ? "(\n" + text + "\n)\n"
             : "cat > " + shell_quote(target) + " <<'" + std::string(kEnd) + "'\n" + text + std::string(kEnd) + "\n";
  }

  const Environment& given_;
  ShellVariables arguments_;  // of ARG: FROM and ENV see them
  std::map<std::string, Stage> stages_;
  Stage stage_;
  std::string name_;
  std::size_t line_ = 1;
};

}  // namespace

std::optional<LaunchPieces> pieces_of_dockerfile(std::string_view text, const Environment& given) {
  const std::vector<Instruction> instructions = instructions_of(text);
  const auto first = std::ranges::find_if(instructions, [](const Instruction& one) { return one.name != "ARG"; });
  if (first == instructions.end() || first->name != "FROM") return std::nullopt;
  Dockerfile file(given);
  for (const Instruction& one : instructions) file.read(one);
  LaunchPieces out;
  out.pieces.push_back(file.piece());
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

std::string indented_code(std::string_view text) {
  std::string out;
  bool may_begin = true;  // behind an empty line, or in a block
  for (std::string_view line : lines_of(text)) {
    const bool is_blank = trimmed(line).empty();
    const bool is_indented = !is_blank && (line.starts_with("    ") || line.starts_with('\t'));
    if (is_indented && may_begin) {
      line = line.substr(line[0] == '\t' ? 1 : 4);
      if (line.starts_with("$ ")) line.remove_prefix(2);
      out += line;
    } else {
      may_begin = is_blank;
    }
    out += '\n';
  }
  return out;
}

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
