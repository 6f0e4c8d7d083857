#include "model/launch/front_end.h"

#include <algorithm>
#include <initializer_list>

#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

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

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

bool is_shell(std::string_view word) { return is_one_of(basename_of(word), {"bash", "sh", "zsh", "dash", "ksh"}); }

// Commands that run their words, or a text among them, somewhere else.
bool is_carrier(std::string_view word) {
  return is_one_of(basename_of(word), {"ssh",     "eval",        "tmux",      "screen", "pdsh",    "clush",  "su",
                                       "runuser", "parallel",    "srun",      "sbatch", "kubectl", "docker", "podman",
                                       "nerdctl", "singularity", "apptainer", "enroot", "script",  "xargs"});
}

bool names_a_server(std::string_view word) {
  return word.find("sglang.launch_server") != std::string_view::npos ||
         word.find("sglang serve") != std::string_view::npos || word.find("dynamo.sglang") != std::string_view::npos;
}

bool has_blank(std::string_view word) { return word.find_first_of(" \t\n") != std::string_view::npos; }

// The command itself, behind assignments and wrappers that take no words of their own.
std::string_view verb_of(std::span<const ShellValue> words) {
  for (const ShellValue& word : words) {
    if (!assigned_name(word.text).empty() || word.text.starts_with('-')) continue;
    const std::string_view name = basename_of(word.text);
    if (!is_one_of(name, {"sudo", "nohup", "exec", "command", "time", "env", "setsid", "builtin"})) return name;
  }
  return {};
}

}  // namespace

std::string_view basename_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::optional<FoundServer> find_front_end(std::span<const ShellValue> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    if (words[i].is_open || !assigned_name(word).empty()) continue;
    if (word == "-m" && i + 1 < words.size())
      if (const auto front_end = front_end_of_module(words[i + 1].text)) return FoundServer{*front_end, i, i + 2};
    if (basename_of(word) == "sglang" && i + 1 < words.size() && words[i + 1].text == "serve")
      return FoundServer{FrontEnd::sglang_serve, i, i + 2};
    if (word.ends_with("sglang/launch_server.py")) return FoundServer{FrontEnd::sglang_launch_server, i, i + 1};
  }
  return std::nullopt;
}

bool starts_nothing(std::span<const ShellValue> words) {
  return is_one_of(verb_of(words), {"echo", "printf", "pkill", "pgrep", "killall", "kill",  "grep",   "egrep", "fgrep",
                                    "rg",   "ps",     "awk",   "sed",   "cat",     "tee",   "logger", "which", "type",
                                    "git",  "curl",   "wget",  "trap",  "alias",   "cd",    "ls",     "man",   "head",
                                    "tail", "cp",     "mv",    "rm",    "mkdir",   "touch", "chmod",  "jq",    "sleep",
                                    "wait", "pip",    "pip3",  "apt",   "apt-get", "lsof",  "source", "."});
}

std::optional<std::size_t> find_nested_text(std::span<const ShellValue> words) {
  bool shell = false, carried = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const bool behind_c = i > 0 && words[i - 1].text.size() > 1 && words[i - 1].text.starts_with('-') &&
                          !words[i - 1].text.starts_with("--") && words[i - 1].text.ends_with('c');
    if (!words[i].is_open && has_blank(word)) {
      const bool runs_it = i == 0 || carried || behind_c || word.starts_with("--wrap=");
      if ((shell && behind_c) || (runs_it && names_a_server(word) && assigned_name(word).empty())) return i;
    }
    shell |= is_shell(word);
    carried |= is_carrier(word);
  }
  return std::nullopt;
}

bool runs_scripts(std::span<const ShellValue> words) {
  return std::ranges::any_of(words,
                             [](const ShellValue& word) { return is_shell(word.text) || is_carrier(word.text); });
}

}  // namespace a2asim
