// find_servers: a shell text -> the servers that it starts, over all ways through it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "model/launch/front_end.h"
#include "model/launch/launch_command.h"
#include "model/launch/launch_file.h"
#include "model/launch/launch_text.h"
#include "model/launch/launcher.h"
#include "model/launch/shell_run.h"

namespace a2asim {
namespace {

constexpr int kMostWays = 64;
constexpr std::size_t kMostServers = 256;
constexpr std::size_t kMostWordsOfServers = 20000;
constexpr int kMostNestedTexts = 8;  // texts inside each other
constexpr int kMostTextsOfRun = 64;  // inside others, in one run

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

bool is_variable_of(std::string_view engine, std::string_view name) {
  for (const LaunchSyntax* syntax : launch_syntaxes())
    if (syntax->front_ends.front().engine == engine)
      return std::ranges::any_of(syntax->variable_prefixes,
                                 [&](std::string_view prefix) { return name.starts_with(prefix); });
  return false;
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
  void add(std::span<const ShellValue> words, std::size_t line) {
    if (words_.empty()) first_line_ = line;
    constexpr std::size_t kMostShown = 12;
    for (const ShellValue& word : words)
      if (words_.size() < kMostShown)
        words_.push_back(word.text);
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

// FOO=1 before the front end: assignments, arguments of env, of docker -e / --env and of mpirun -x.
void add_prefix(std::span<const ShellValue> words, ShellVariables& variables) {
  for (const ShellValue& value : words) {
    std::string_view word = value.text;
    if (word.starts_with("--env=")) word.remove_prefix(6);
    const std::string name(assigned_name(word));
    if (name.empty()) continue;
    variables.set_exported(name, {std::string(word.substr(name.size() + 1)), value.is_open});
  }
}

// One run through the text.
class Run {
 public:
  Run(ShellChoices& choices, const ReadShellFile& read_file) : choices_(choices), read_file_(read_file) {}

  Result<void> text(std::string_view text, ShellVariables variables) {
    const Result<ShellScript> script = parse_shell(text);
    if (!script) return tl::unexpected(script.error());
    for (const Note& note : script->notes) notes_.push_back(note);
    LostWords lost;
    bool directly_behind = false;
    std::optional<Error> error;  // of a nested text
    const auto done = run_shell(
        *script, variables, choices_,
        [&](const ShellStart& start) {
          if (error || servers_.size() > kMostServers) return false;
          const std::size_t before = servers_.size();
          if (auto ok = command(start); !ok) error = ok.error();
          if (servers_.size() > before) {
            directly_behind = true;
          } else if (directly_behind && start.words.front().text.starts_with("--")) {
            lost.add(start.words, start.line);
          } else {
            directly_behind = false;
          }
          return servers_.size() > before;
        },
        [&](std::string_view path) { return file_of(path); });
    if (!done) return done;
    if (error) return tl::unexpected<Error>(std::move(*error));
    if (auto note = lost.note(text); note && !servers_.empty())
      servers_.back().command.notes.push_back(std::move(*note));
    note_defaults(variables);
    return {};
  }

  std::vector<LaunchedServer> servers() && {
    for (LaunchedServer& server : servers_)
      server.command.notes.insert(server.command.notes.begin(), notes_.begin(), notes_.end());
    return std::move(servers_);
  }

  Result<void> command(const ShellStart& start) {
    const std::span<const ShellValue> words = start.words;
    const std::string_view verb = basename_of(words.front().text);
    if (depth_ == 0) line_ = start.line;
    const bool sets = verb == "source" || verb == "." || verb == "eval" || is_declaration(verb);
    if (sets) {
      notes_.push_back({fmt::format("line {}: {} is not read: what it sets is not known", start.line,
                                    words.size() > 1 ? words[1].text : "the file"),
                        true});
      return {};
    }
    if ((verb == "cat" || verb == "tee") && start.input) keep_file(start);
    if (starts_nothing(words)) return {};
    const auto found = find_front_end(words);
    const auto before = words.first(found ? found->front : words.size());
    ShellVariables variables = start.variables;
    const std::size_t outer_images = images_.size();
    add_images(before);
    if (!found && words.front().is_open && words.front().is_many)
      notes_.push_back({fmt::format("line {}: what {} runs is not known", start.line, words.front().text), true});
    auto done = start_or_enter(start, found, before, variables);
    images_.resize(outer_images);
    return done;
  }

 private:
  Result<void> start_or_enter(const ShellStart& start, const std::optional<FoundServer>& found,
                              std::span<const ShellValue> before, ShellVariables variables) {
    const std::span<const ShellValue> words = start.words;
    if (const auto nested = find_nested_text(before)) {
      add_prefix(before.first(*nested), variables);
      const std::size_t servers = servers_.size();
      if (auto ok = inner(inner_text(before[*nested].text), std::move(variables),
                          words.subspan(std::min(*nested + 2, words.size())));
          !ok)
        return ok;
      if (!found || servers_.size() > servers) return {};
      variables = start.variables;
    }
    add_prefix(before, variables);
    if (!found) return scripts(start, std::move(variables));
    add(*found, start, variables);
    return {};
  }

  // NAME:TAG among the words of what carries the command: docker run NAME:TAG, srun --container-image=NAME:TAG.
  void add_images(std::span<const ShellValue> before) {
    for (const ShellValue& value : before) {
      std::string_view word = value.text;
      if (word.starts_with("--container-image=")) word.remove_prefix(word.find('=') + 1);
      if (word.starts_with("docker://")) word.remove_prefix(9);
      const std::size_t colon = word.rfind(':');
      const std::size_t slash = word.rfind('/');
      const bool has_tag = colon != std::string_view::npos && (slash == std::string_view::npos || slash < colon) &&
                           colon > 0 && colon + 1 < word.size();
      if (has_tag && !word.starts_with('-') && word.find_first_of(" =\n") == std::string_view::npos)
        images_.emplace_back(word);
    }
  }

  static std::string_view inner_text(std::string_view word) {
    return word.starts_with("--wrap=") ? word.substr(7) : word;
  }

  // A here-document on a shell's standard input, or a script that was written above.
  Result<void> scripts(const ShellStart& start, ShellVariables variables) {
    if (start.input && !start.input->text.empty() && runs_scripts(start.words))
      return inner(start.input->text, std::move(variables), {});
    for (std::size_t i = 0; i < start.words.size(); ++i) {
      const auto file = files_.find(basename_of(start.words[i].text));
      if (file == files_.end() || (i > 0 && !runs_scripts(std::span(start.words).first(i)))) continue;
      const std::string text = file->second;
      return inner(text, std::move(variables), std::span(start.words).subspan(i + 1));
    }
    return {};
  }

  Result<void> inner(std::string_view text, ShellVariables variables, std::span<const ShellValue> arguments) {
    if (depth_ == kMostNestedTexts || --nested_left_ < 0) return {};
    // What is known not to be set stays so.
    std::erase_if(variables.named, [](const auto& entry) {
      return !entry.second.is_exported && (entry.second.first() != nullptr || entry.second.is_array);
    });
    variables.arguments.emplace(arguments.begin(), arguments.end());
    ++depth_;
    auto done = this->text(text, std::move(variables));
    --depth_;
    return done;
  }

  // A file that a line above has written, or one beside the text.
  std::optional<std::string> file_of(std::string_view path) const {
    if (const auto file = files_.find(basename_of(path)); file != files_.end()) return file->second;
    return depth_ == 0 && read_file_ ? read_file_(path) : std::nullopt;
  }

  // `cat > run.sh <<EOF` writes a script that a later line may start.
  void keep_file(const ShellStart& start) {
    std::string name = start.output_file;
    if (name.empty() && start.words.size() > 1) name = start.words.back().text;
    if (!name.empty()) files_.insert_or_assign(std::string(basename_of(name)), start.input->text);
  }

  void add(const FoundServer& found, const ShellStart& start, const ShellVariables& variables) {
    LaunchedServer server;
    server.line = line_;
    server.images = images_;
    LaunchCommand& command = server.command;
    command.front_end = found.front_end;
    for (const auto& [name, variable] : variables.named) {
      const ShellValue* const value = variable.is_array || variable.is_keyed ? nullptr : variable.first();
      if (value == nullptr) continue;
      if (variable.is_exported) {
        command.env.set(name, value->text);
        if (is_variable_of(found.front_end->engine, name) && value->text.find_first_of("$`") != std::string::npos)
          command.notes.push_back(
              {fmt::format("{}={} is not set in the command: what the engine takes without it counts", name,
                           value->text),
               true});
      } else if (is_variable_of(found.front_end->engine, name)) {
        command.notes.push_back({fmt::format("{} is set without export: the server does not see it", name)});
      }
    }
    std::vector<std::string> argv;
    for (const ShellValue& word : std::span(start.words).subspan(found.arguments)) {
      const bool is_value =
          !argv.empty() && argv.back().starts_with("--") && argv.back().find('=') == std::string::npos;
      // What stands alone may be any number of options: it is no word of the command.
      if (word.is_open && !is_value && !word.text.starts_with('-'))
        command.unread.push_back(fmt::format("{} in line {}", word.text, server.line));
      else
        argv.push_back(word.text);
    }
    command.argv = server_arguments(*found.front_end, argv);
    read_launcher(std::span(start.words).first(found.front), command);
    for (auto config = find_config(command); config; config = find_config(command)) {
      const auto file = files_.find(basename_of(config->file));
      if (file == files_.end() || !merge_config(command, *config, file->second)) break;
    }
    servers_.push_back(std::move(server));
  }

  void note_defaults(const ShellVariables& variables) {
    std::string list;
    for (const auto& [name, value] : variables.defaults)
      list += fmt::format("{}{}={}", list.empty() ? "" : ", ", name, value);
    if (!list.empty()) notes_.push_back({"not set in the text, so that the default written there counts: " + list});
  }

  ShellChoices& choices_;
  const ReadShellFile& read_file_;
  std::vector<LaunchedServer> servers_;
  std::vector<Note> notes_;
  std::map<std::string, std::string, std::less<>> files_;
  std::vector<std::string> images_;  // around the command that is read
  int depth_ = 0, nested_left_ = kMostTextsOfRun;
  std::size_t line_ = 1;  // of the text, where the outermost command begins
};

// Servers of all ways, each once, with the decisions that all its ways share. Ways that start nothing do not count:
// they end with a usage text.
class Ways {
 public:
  void add(std::vector<LaunchedServer> servers, const std::vector<std::string>& labels) {
    if (servers.empty()) return;
    ++ways_;
    for (LaunchedServer& server : servers) {
      const auto same = std::ranges::find_if(entries_, [&](const Entry& entry) {
        return entry.server.line == server.line && entry.server.command == server.command && entry.last_way != ways_;
      });
      if (same == entries_.end()) {
        entries_.push_back({std::move(server), labels, 1, ways_});
        continue;
      }
      std::erase_if(same->labels,
                    [&](const std::string& label) { return std::ranges::find(labels, label) == labels.end(); });
      ++same->ways;
      same->last_way = ways_;
    }
  }
  std::size_t size() const { return entries_.size(); }

  std::vector<LaunchedServer> take() && {
    std::vector<LaunchedServer> servers;
    for (Entry& entry : entries_) {
      if (entry.ways < ways_) entry.server.condition = fmt::format("{}", fmt::join(entry.labels, ", "));
      servers.push_back(std::move(entry.server));
    }
    return servers;
  }

 private:
  struct Entry {
    LaunchedServer server;
    std::vector<std::string> labels;
    int ways = 0;
    int last_way = 0;
  };
  std::vector<Entry> entries_;
  int ways_ = 0;
};

Result<std::vector<LaunchedServer>> require_servers(std::vector<LaunchedServer> servers, std::string_view text) {
  for (const LaunchedServer& server : servers)
    if (server.command.argv.size() > kMostWordsOfServers)
      return fail(ErrorKind::bad_input, fmt::format("the command has {} words: give one of at most {}",
                                                    server.command.argv.size(), kMostWordsOfServers));
  if (!servers.empty()) return servers;
  return tl::unexpected<Error>(no_server(text));
}

}  // namespace

Result<std::vector<LaunchedServer>> find_servers(std::string_view text, const Environment& given,
                                                 const ReadShellFile& read_file) {
  if (auto error = check_launch_text(text)) return tl::unexpected<Error>(std::move(*error));
  ShellVariables variables;
  for (const auto& [name, value] : given.values()) variables.set_exported(name, {value});
  ShellChoices choices;
  Ways ways;
  int left = kMostWays;
  std::string first;  // of the decisions
  do {
    if (--left < 0)
      return fail(
          ErrorKind::bad_input,
          fmt::format("the text has more than {} ways through that only the outside decides, such as {}: set the "
                      "variables with --env, or give the command that it starts",
                      kMostWays, first));
    Run run(choices, read_file);
    if (auto done = run.text(text, variables); !done) return tl::unexpected(done.error());
    const std::vector<std::string> labels = choices.labels();
    if (first.empty() && !labels.empty()) first = labels.front();
    ways.add(std::move(run).servers(), labels);
    if (ways.size() > kMostServers)
      return fail(ErrorKind::bad_input,
                  fmt::format("the text starts more than {} servers: give them apart", kMostServers));
  } while (choices.next());
  return require_servers(std::move(ways).take(), text);
}

Result<std::vector<LaunchedServer>> find_servers(std::string_view text, const Environment& given) {
  return find_servers(text, given, {});
}

LaunchCommand first_of(std::vector<LaunchedServer> servers) {
  LaunchCommand first = std::move(servers.front().command);
  if (servers.size() > 1)
    first.notes.push_back({fmt::format("the text starts {} servers: only the first one is looked at", servers.size())});
  return first;
}

Result<LaunchCommand> parse_launch_command(std::string_view text) {
  auto servers = find_servers(text);
  if (!servers) return tl::unexpected(servers.error());
  return first_of(std::move(*servers));
}

Result<LaunchCommand> parse_launch_words(std::span<const std::string> words) {
  if (words.size() == 1 && words.front().find_first_of(" \t\n") != std::string::npos)
    return parse_launch_command(words.front());
  std::string joined;
  std::vector<ShellValue> filled;
  ShellVariables variables;
  for (const std::string& word : words) {
    if (auto error = check_launch_text(word)) return tl::unexpected<Error>(std::move(*error));
    joined += (joined.empty() ? "" : " ") + word;
    filled.push_back({take_defaults(word, variables.defaults)});
  }
  if (auto error = check_launch_text(joined)) return tl::unexpected<Error>(std::move(*error));
  ShellChoices choices;
  Run run(choices, {});
  if (!filled.empty())
    if (auto done = run.command(ShellStart{filled, variables, 1, std::nullopt, {}}); !done)
      return tl::unexpected(done.error());
  auto servers = require_servers(std::move(run).servers(), joined);
  if (!servers) return tl::unexpected(servers.error());
  LaunchCommand command = std::move(servers->front().command);
  for (const auto& [name, value] : variables.defaults)
    command.notes.insert(command.notes.begin(),
                         {fmt::format("{} is not set, so that the default written there counts: {}", name, value)});
  return command;
}

}  // namespace a2asim
