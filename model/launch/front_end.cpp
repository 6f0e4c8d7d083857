#include "model/launch/front_end.h"

#include <algorithm>
#include <initializer_list>

#include "model/launch/launch_text.h"
#include "model/launch/shell_syntax.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

bool is_shell(std::string_view word) { return is_one_of(basename_of(word), {"bash", "sh", "zsh", "dash", "ksh"}); }

// Commands that run their words, or a text among them, somewhere else.
bool is_carrier(std::string_view word) {
  return is_one_of(basename_of(word), {"ssh",     "eval",        "tmux",      "screen", "pdsh",    "clush",  "su",
                                       "runuser", "parallel",    "srun",      "sbatch", "kubectl", "docker", "podman",
                                       "nerdctl", "singularity", "apptainer", "enroot", "script",  "xargs"});
}

// Calls visit(front end) until it answers true.
template <class Visit>
const FrontEnd* find_front_end_if(Visit visit) {
  for (const LaunchSyntax* syntax : launch_syntaxes())
    for (const FrontEnd& front_end : syntax->front_ends)
      if (visit(front_end)) return &front_end;
  return nullptr;
}

// How many of the words name this front end; 0: they do not.
std::size_t words_of_front_end(const FrontEnd& known, std::span<const ShellValue> words) {
  const std::string_view first = words.front().text;
  const std::string_view second = words.size() > 1 ? std::string_view(words[1].text) : std::string_view();
  const std::string_view module = first == "-m" ? second : first.starts_with("-m") ? first.substr(2) : "";
  if (!known.module.empty() && module.starts_with(known.module)) {
    const std::string_view rest = module.substr(known.module.size());
    if (rest.empty() || (known.has_submodules && rest.front() == '.')) return first == "-m" ? 2 : 1;
  }
  if (!known.program.empty() && basename_of(first) == known.program) {
    if (known.subcommand.empty()) return 1;
    if (second == known.subcommand) return 2;
  }
  return !known.script.empty() && first.ends_with(known.script) ? 1 : 0;
}

bool has_blank(std::string_view word) { return word.find_first_of(" \t\n") != std::string_view::npos; }

// Of these, no word starts anything.
bool is_quiet(std::string_view verb) {
  return is_one_of(verb, {"echo", "printf", "pkill",      "pgrep",    "killall", "kill",   "grep",   "egrep", "fgrep",
                          "rg",   "ps",     "awk",        "sed",      "cat",     "tee",    "logger", "which", "type",
                          "git",  "curl",   "wget",       "trap",     "alias",   "cd",     "ls",     "man",   "head",
                          "tail", "cp",     "mv",         "rm",       "mkdir",   "touch",  "chmod",  "jq",    "sleep",
                          "wait", "pip",    "pip3",       "apt",      "apt-get", "lsof",   "source", ".",     "a2asim",
                          "scp",  "rsync",  "shellcheck", "dos2unix", "tar",     "pushd",  "ln",     "chown", "install",
                          "diff", "stat",   "popd",       "less",     "vim",     "md5sum", "wc"});
}

// Programs that run the words behind their own options and values.
bool is_runner(std::string_view name) {
  return is_carrier(name) ||
         is_one_of(name,
                   {"sudo",    "nohup",   "exec", "command", "time",   "env",     "setsid",  "builtin", "timeout",
                    "numactl", "taskset", "nice", "ionice",  "stdbuf", "mpirun",  "mpiexec", "nsys",    "chrt",
                    "orterun", "strace",  "ncu",  "flock",   "chroot", "unshare", "gosu",    "tini",    "dumb-init"});
}

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

bool names_a_server(std::string_view text) {
  return find_front_end_if([&](const FrontEnd& known) {
           const std::string words = !known.program.empty()
                                         ? std::string(known.program) + " " + std::string(known.subcommand)
                                         : std::string(known.module.empty() ? known.script : known.module);
           if (words.empty()) return false;
           return text.find(known.subcommand.empty() ? words.substr(0, words.find(' ')) : words) !=
                  std::string_view::npos;
         }) != nullptr;
}

std::string_view basename_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

const FrontEnd* front_end_of_image(std::string_view word) {
  const std::string_view name = word.substr(0, word.find_first_of(":@", word.rfind('/') + 1));
  return find_front_end_if([&](const FrontEnd& known) {
    if (known.image.empty() || !name.ends_with(known.image)) return false;
    return name.size() == known.image.size() || name[name.size() - known.image.size() - 1] == '/';
  });
}

std::optional<FoundServer> find_front_end(std::span<const ShellValue> words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].is_open || !assigned_name(words[i].text).empty()) continue;
    std::size_t size = 0;
    const FrontEnd* const front_end = find_front_end_if(
        [&](const FrontEnd& known) { return (size = words_of_front_end(known, words.subspan(i))) > 0; });
    if (front_end != nullptr) return FoundServer{front_end, i, i + size};
  }
  // An image's own command, where nothing else is run in it.
  const auto image = std::ranges::find_if(
      words, [](const ShellValue& word) { return !word.is_open && front_end_of_image(word.text) != nullptr; });
  if (image == words.end() || find_nested_text(words)) return std::nullopt;
  const auto at = static_cast<std::size_t>(image - words.begin());
  return FoundServer{front_end_of_image(image->text), at, at + 1};
}

bool starts_nothing(std::span<const ShellValue> words) { return is_quiet(verb_of(words)); }

std::optional<std::size_t> find_nested_text(std::span<const ShellValue> words) {
  bool shell = false, carried = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].text;
    const bool behind_c = i > 0 && words[i - 1].text.size() > 1 && words[i - 1].text.starts_with('-') &&
                          !words[i - 1].text.starts_with("--") && words[i - 1].text.ends_with('c');
    if (!words[i].is_open && has_blank(word)) {
      const bool runs_it = i == 0 || carried || behind_c || word.starts_with("--wrap=");
      const bool may_start = names_a_server(word) || word.find(".sh") != npos;
      if ((shell && behind_c) || (runs_it && may_start && assigned_name(word).empty())) return i;
    }
    shell |= is_shell(word);
    carried |= is_carrier(word);
  }
  return std::nullopt;
}

std::optional<std::size_t> reads_script(std::span<const ShellValue> words) {
  std::size_t at = 0;
  while (at < words.size() && !is_shell(words[at].text)) ++at;
  if (at == words.size()) return std::nullopt;
  for (++at; at < words.size(); ++at) {
    const std::string_view word = words[at].text;
    const bool is_short = word.size() > 1 && word[0] == '-' && word[1] != '-';
    if (is_short && word.find('c') != npos) return std::nullopt;
    if (is_short && word.find('s') != npos) return at + (at + 1 < words.size() && words[at + 1].text == "--" ? 2 : 1);
    if (word == "-" || word == "/dev/stdin") return at + 1;
    if (!word.starts_with('-')) return std::nullopt;
    if (word == "-o") ++at;
  }
  return at;
}

// `serve MODEL ..` names the model without a flag, and some options are the front end's own.
std::vector<std::string> server_arguments(const FrontEnd& front_end, std::span<const std::string> words) {
  std::vector<std::string> argv;
  const std::string_view dropped = front_end.dropped_option;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!dropped.empty() && word == dropped)
      ++i;
    else if (dropped.empty() || !(word.starts_with(dropped) && word.substr(dropped.size()).starts_with('=')))
      argv.emplace_back(word);
  }
  if (!front_end.model_option.empty() && !argv.empty() && !argv.front().empty() && argv.front().front() != '-')
    argv.emplace(argv.begin(), front_end.model_option);
  return argv;
}

bool is_variable_of_engines(std::string_view name) {
  return std::ranges::any_of(launch_syntaxes(), [&](const LaunchSyntax* syntax) {
    return std::ranges::any_of(syntax->variable_prefixes,
                               [&](std::string_view prefix) { return name.starts_with(prefix); });
  });
}

std::optional<std::size_t> python_source(std::span<const ShellValue> words) {
  std::size_t at = 0;
  while (at < words.size() && (words[at].is_open || !basename_of(words[at].text).starts_with("python"))) ++at;
  if (at == words.size()) return std::nullopt;
  for (++at; at < words.size(); ++at) {
    const ShellValue& word = words[at];
    if (word.text == "-") return words.size();
    if (!word.text.starts_with('-'))
      return !word.is_open && word.text.ends_with(".py") ? std::optional(at) : std::nullopt;
    if (word.text.find_first_of("cm") != npos) return std::nullopt;
  }
  return at;
}

bool sets_up_a_shell(std::string_view file) {
  return is_one_of(file,
                   {"activate", "conda.sh", "mamba.sh", "nvm.sh", "modules.sh", "profile", ".bashrc", ".bash_profile",
                    ".profile", ".zshrc", "set_env.sh", "set_env.bash", "setenv.sh", "setenv.bash", "setvars.sh"});
}

bool is_named_as_script(std::string_view word) {
  static constexpr std::string_view kEndings[] = {".sh", ".bash", ".slurm", ".sbatch"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return word.ends_with(ending); });
}

bool is_shell_script(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  return !check_launch_text(text) && (!first.starts_with("#!") || first.find("sh") != npos);
}

std::optional<std::size_t> find_script(std::span<const ShellValue> words) {
  bool behind_shell = false, behind_runner = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i].text, name = basename_of(word);
    const bool is_path = !words[i].is_open && word.find_first_of(" \t\n:=,<") == npos;
    if (word.starts_with('-') || word.starts_with('+')) {
      if (behind_shell && word.find('n') != npos && !word.starts_with("--")) return std::nullopt;  // runs nothing
      if (behind_shell && word.ends_with('c')) behind_shell = false, behind_runner = true;
      const bool takes_name = !word.starts_with("--") && (word.ends_with('o') || word.ends_with('O'));
      if (behind_shell && (takes_name || word == "--rcfile" || word == "--init-file")) ++i;
    } else if (!assigned_name(word).empty()) {
      continue;
    } else if (is_shell(word)) {
      behind_shell = true;
    } else if (behind_shell) {
      return is_path || words[i].is_open ? std::optional(i) : std::nullopt;
    } else if (is_runner(name)) {
      behind_runner = true;
    } else if (!behind_runner) {
      return is_path && word.find('/') != npos ? std::optional(i) : std::nullopt;
    } else if (is_one_of(name, {"cp", "mv", "rm", "cat", "chmod", "rsync", "scp", "install", "build", "push"})) {
      return std::nullopt;
    } else if (is_path && is_named_as_script(word)) {
      return i;
    }
  }
  return std::nullopt;
}

bool runs_scripts(std::span<const ShellValue> words) {
  return std::ranges::any_of(words,
                             [](const ShellValue& word) { return is_shell(word.text) || is_carrier(word.text); });
}

}  // namespace a2asim
