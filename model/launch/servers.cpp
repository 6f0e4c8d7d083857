// One run through a shell text -> the servers that it starts.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "model/launch/file_kinds.h"
#include "model/launch/front_end.h"
#include "model/launch/launch_text.h"
#include "model/launch/launcher.h"
#include "model/launch/lost_words.h"
#include "model/launch/text_parts.h"
#include "model/launch/ways.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostBytesKept = 1 << 20;
constexpr int kMostNestedTexts = 8;   // texts inside each other
constexpr int kMostTextsOfRun = 256;  // inside others, in one run
constexpr std::size_t kMostBytesOfRun = 4 << 20;

bool is_variable_of(std::string_view engine, std::string_view name) {
  for (const LaunchSyntax* syntax : launch_syntaxes())
    if (syntax->front_ends.front().engine == engine)
      return std::ranges::any_of(syntax->variable_prefixes,
                                 [&](std::string_view prefix) { return name.starts_with(prefix); });
  return false;
}

// FOO=1 before the front end: assignments, arguments of env, of docker -e / --env and of mpirun -x.
void add_prefix(std::span<const ShellValue> words, ShellVariables& variables) {
  for (const ShellValue& value : words) {
    std::string_view word = value.text;
    const bool is_list = word.starts_with("--export=");  // of srun and sbatch: ALL,ROLE=decode
    if (word.starts_with("--env=") || is_list) word.remove_prefix(word.find('=') + 1);
    for (std::size_t end = 0; !word.empty(); word.remove_prefix(std::min(end + 1, word.size()))) {
      end = is_list ? std::min(word.find(','), word.size()) : word.size();
      const std::string_view one = word.substr(0, end);
      const std::string name(assigned_name(one));
      if (!name.empty()) variables.set_exported(name, {std::string(one.substr(name.size() + 1)), value.is_open});
    }
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
          if (error || count() > kMostServersOfText) return false;
          const std::size_t before = count();
          if (auto ok = command(start); !ok) error = ok.error();
          if (count() > before) {
            directly_behind = true;
          } else if (directly_behind && start.words.front().text.starts_with("--")) {
            lost.add(start.words, start.line);
          } else {
            directly_behind = false;
          }
          return count() > before;
        },
        reader_);
    if (!done) return done;
    if (error) return tl::unexpected<Error>(std::move(*error));
    if (auto note = lost.note(text); note && !found_.servers.empty())
      found_.servers.back().command.notes.push_back(std::move(*note));
    note_defaults(variables);
    return {};
  }

  ServersOfWay take() && {
    for (std::vector<LaunchedServer>* const all : {&found_.servers, &found_.left_out})
      for (LaunchedServer& server : *all)
        server.command.notes.insert(server.command.notes.begin(), notes_.begin(), notes_.end());
    return std::move(found_);
  }

  Result<void> command(const ShellStart& start) {
    const std::vector<ShellValue> words = with_read_words(start);
    const std::string_view verb = basename_of(words.front().text);
    if (depth_ == 0) line_ = start.line;
    const bool sets = verb == "source" || verb == "." || verb == "eval" || is_declaration(verb);
    if (sets) return keep_unread(start, verb), Result<void>{};
    keep_files(start, verb);
    if (starts_nothing(words)) return {};
    const auto programs = programs_of_mpi(words);
    for (const std::vector<ShellValue>& own : programs)
      if (auto ok = command({.words = own, .variables = start.variables, .line = start.line}); !ok) return ok;
    if (!programs.empty()) return {};
    const auto found = find_front_end(words);
    const auto before = std::span(words).first(found ? found->front : words.size());
    ShellVariables variables = start.variables;
    const std::size_t outer_images = images_.size();
    add_images(before);
    if (!found && words.front().is_open && words.front().is_many)
      notes_.push_back({fmt::format("line {}: what {} runs is not known", start.line, words.front().text), true});
    ShellStart own{.words = words, .variables = start.variables, .line = start.line};
    own.input = start.input;
    own.is_piped = start.is_piped;
    own.is_input_unread = start.is_input_unread;
    auto done = start_or_enter(own, found, before, variables);
    images_.resize(outer_images);
    return done;
  }

 private:
  Result<void> start_or_enter(const ShellStart& start, const std::optional<FoundServer>& found,
                              std::span<const ShellValue> before, ShellVariables variables) {
    const std::span<const ShellValue> words = start.words;
    if (const auto nested = find_nested_text(before)) {
      add_prefix(before.first(*nested), variables);
      const std::size_t servers = count();
      if (auto ok = inner(inner_text(before[*nested].text), std::move(variables),
                          words.subspan(std::min(*nested + 2, words.size())));
          !ok)
        return ok;
      if (!found || count() > servers) return {};
      variables = start.variables;
    }
    add_prefix(before, variables);
    if (!found) return scripts(start, std::move(variables));
    if (const auto script = find_script(before)) {  // ./with_env.sh python3 -m ..
      const std::size_t servers = count();
      if (auto ok = script_file(start, *script); !ok) return ok;
      if (count() > servers) return {};
    }
    add(*found, start, variables);
    return {};
  }

  // With what xargs takes from its input and puts behind its own words.
  static std::vector<ShellValue> with_read_words(const ShellStart& start) {
    std::vector<ShellValue> words = start.words;
    const auto xargs = std::ranges::find_if(words, [](const ShellValue& word) { return word.text == "xargs"; });
    if (xargs == words.end()) return words;
    const bool has_option = xargs + 1 != words.end() && (xargs + 1)->text.starts_with('-');
    if (!start.input || start.input->is_open || has_option) {
      words.push_back({"what xargs reads", true, true});
      return words;
    }
    std::string_view text = start.input->text;
    while (text.find_first_not_of(" \t\n") != npos) {
      text.remove_prefix(text.find_first_not_of(" \t\n"));
      words.push_back({std::string(text.substr(0, text.find_first_of(" \t\n")))});
      text.remove_prefix(words.back().text.size());
    }
    return words;
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

  static std::string_view inner_text(std::string_view word) { return word.substr(word.starts_with("--wrap=") ? 7 : 0); }

  // A script that was written above, or what a shell reads: a here-document, the output of a pipe.
  Result<void> scripts(const ShellStart& start, ShellVariables variables) {
    if (const auto applied = applied_text(start)) return containers(*applied, std::move(variables));
    for (std::size_t i = 0; i < start.words.size(); ++i) {
      const auto file = files_.find(basename_of(start.words[i].text));
      if (file == files_.end() || (i > 0 && !runs_scripts(std::span(start.words).first(i)))) continue;
      return inner(std::string(file->second), std::move(variables), std::span(start.words).subspan(i + 1));
    }
    const std::size_t python_at = python_source(start.words).value_or(npos);
    if (python_at == start.words.size() && start.input) return python(start.input->text, variables);
    if (python_at < start.words.size())
      if (const auto file = read_shell_file(start.variables, reader_, start.words[python_at].text))
        return python(file->text, variables);
    const auto script = reads_script(start.words);
    if (const auto file = find_script(start.words); file && !script) return script_file(start, *file);
    const std::string_view shell = basename_of(start.words.front().text);
    if (start.input && (script || (!start.is_piped && runs_scripts(start.words))))
      return inner(start.input->text, std::move(variables), std::span(start.words).subspan(script.value_or(0)));
    if (!start.is_input_unread || !script) return {};
    found_.unread = fmt::format("line {}: what {} is given to run is not known:", line_, shell);
    notes_.push_back({*found_.unread + " servers in it are not looked at"});
    return {};
  }

  // A script that lies beside the text, in a shell of its own.
  Result<void> script_file(const ShellStart& start, std::size_t at) {
    const ShellValue& word = start.words[at];
    const auto file = word.is_open ? std::nullopt : read_shell_file(start.variables, reader_, word.text);
    if (!file || !is_shell_script(file->text)) {
      const bool is_run = runs_scripts(std::span(start.words).first(at));
      if (is_run || is_named_as_script(word.text)) leave_unread(word.text);
      return {};
    }
    const auto may_start = [](std::string_view text) { return names_a_server(text) || text.find(".sh") != npos; };
    if (!may_start(file->text) && std::ranges::none_of(start.words, may_start, &ShellValue::text)) return {};
    ShellVariables variables = start.variables;
    add_prefix(std::span(start.words).first(at), variables);
    variables.folder = variables.source_folder = folder_of(file->path);
    const std::size_t servers = found_.servers.size();
    auto done = inner(file->text, std::move(variables), std::span(start.words).subspan(at + 1));
    if (!done && done.error().message.starts_with("line "))
      return fail(ErrorKind::bad_input, fmt::format("{}: {}", file->path, done.error().message));
    const std::string_view name = std::string_view(file->path).substr(file->path.starts_with("./") ? 2 : 0);
    for (LaunchedServer& server : std::span(found_.servers).subspan(servers))
      if (server.name.empty()) server.name = name;
    return done;
  }

  void leave_unread(std::string_view script) {
    const std::string what = fmt::format("line {}: {} is not read", line_, script);
    if (!found_.unread) found_.unread = what + ": put it beside the script, or";
    notes_.push_back({what + ": servers in it are not looked at"});
  }

  // kubectl apply -f - <<EOF, kubectl create -f FILE
  std::optional<std::string> applied_text(const ShellStart& start) const {
    const auto is = [](std::string_view word) {
      return [word](const ShellValue& value) { return basename_of(value.text) == word; };
    };
    if (std::ranges::none_of(start.words, is("kubectl"))) return std::nullopt;
    if (std::ranges::none_of(start.words, is("apply")) && std::ranges::none_of(start.words, is("create")))
      return std::nullopt;
    for (const ShellValue& word : start.words)
      if (auto file = word.is_open ? std::nullopt : read_shell_file(start.variables, reader_, word.text))
        return file->text;
    if (start.input && std::ranges::any_of(start.words, is("-"))) return start.input->text;
    return std::nullopt;
  }

  // A file of containers inside the text.
  Result<void> containers(const std::string& text, const ShellVariables& variables) {
    return pieces(pieces_of_yaml(text, {}), variables);
  }

  // python3 - <<EOF
  Result<void> python(const std::string& text, const ShellVariables& variables) {
    auto found = pieces_of_python(text);
    if (!found) found = pieces_of_python_servers(text, true);
    if (found && found->error) found.reset();  // it concerns us only where it names a server
    const std::size_t servers = count();
    auto done = pieces(found, variables);
    if (!done || count() > servers || !names_a_server(text)) return done;
    found_.unread = fmt::format("line {}: the Python text names a server, and how it starts it is not read:", line_);
    notes_.push_back({*found_.unread + " it is not looked at", true});
    return done;
  }

  Result<void> pieces(const std::optional<LaunchPieces>& found, const ShellVariables& variables) {
    if (!found) return {};
    if (found->error) return fail(ErrorKind::bad_input, fmt::format("line {}: {}", line_, found->error->message));
    for (const LaunchPiece& piece : found->pieces) {
      const std::size_t before = found_.servers.size();
      if (auto ok = inner(piece.text, variables, {}); !ok) return ok;
      for (LaunchedServer& server : std::span(found_.servers).subspan(before)) add_surroundings(piece, server);
    }
    return {};
  }

  Result<void> inner(std::string_view text, ShellVariables variables, std::span<const ShellValue> arguments) {
    if (depth_ == kMostNestedTexts)
      return fail(ErrorKind::bad_input, fmt::format("shells start each other more than {} deep: give the command that "
                                                    "starts the server",
                                                    kMostNestedTexts));
    bytes_ += text.size();
    if (--nested_left_ < 0 || bytes_ > kMostBytesOfRun)
      return fail(ErrorKind::bad_input,
                  fmt::format("the text runs more than {} other texts, or more than {} MiB of them: give the command "
                              "that starts the server",
                              kMostTextsOfRun, kMostBytesOfRun >> 20));
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
    return read_file_ ? read_file_(path) : std::nullopt;
  }

  // `cat > run.sh <<EOF` and `echo .. > run.sh` write a script that a later line may start.
  void keep_files(const ShellStart& start, std::string_view verb) {
    std::vector<std::string_view> names;
    if (!start.output_file.empty()) names.emplace_back(start.output_file);
    bool appends = start.appends;
    for (const ShellValue& word : std::span(start.words).subspan(verb == "tee" ? 1 : start.words.size())) {
      appends |= word.text == "-a" || word.text == "--append";
      if (!word.is_open && !word.text.starts_with('-')) names.emplace_back(word.text);
    }
    for (const std::string_view path : names) {
      const std::string name(basename_of(path));
      if (!start.output)
        files_.erase(name);
      else if (appends && files_.contains(name) && files_[name].size() < kMostBytesKept)
        files_[name] += start.output->text;
      else if (!appends)
        files_.insert_or_assign(name, start.output->text);
    }
  }

  // What it sets is not known, and may be what a server takes.
  void keep_unread(const ShellStart& start, std::string_view verb) {
    const std::string what = start.words.size() > 1 ? start.words[1].text : "the file";
    const bool is_file = verb == "source" || verb == ".";
    const bool is_of_shell = is_file && sets_up_a_shell(basename_of(what));
    notes_.push_back({fmt::format("line {}: {} is not read: what it sets is not known", start.line, what)});
    if (is_file && !is_of_shell && !found_.unread)
      found_.unread = fmt::format("line {}: {} is not read: put it beside the script, or", start.line, what);
    if (may_set_.empty() && !is_of_shell)
      may_set_ = fmt::format("{} in line {}, which is not read: {}give --env", what, start.line,
                             is_file ? "put it beside the script, or " : "");
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
      const auto is_it = [&](const ShellAlternative& one) { return one.root == name; };
      const bool is_assumed = std::ranges::any_of(choices_.assumed(), is_it);
      if (is_assumed && !is_variable_of(found.front_end->engine, name)) continue;
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
    const auto words = std::span(start.words).subspan(found.arguments);
    for (const ShellValue& word : words) {
      const bool is_value =
          !argv.empty() && argv.back().starts_with("--") && argv.back().find('=') == std::string::npos;
      // What stands alone may be any number of options: it is no word of the command.
      if (is_template(word.text) && command.may_set.empty()) {
        command.may_set = "a template: fill it in first, as 'helm template' does, and check the result";
        command.unread.insert(command.unread.begin(), fmt::format("{} in line {}", word.text, server.line));
      }
      const bool is_lost = word.is_open && !is_value && !word.text.starts_with('-');
      const bool may_be_set = !may_set_.empty() && word.is_open && holds_variable(word.text);
      if (may_be_set && command.may_set.empty()) {
        command.may_set = may_set_;
        command.unread.insert(command.unread.begin(), fmt::format("{} in line {}", word.text, server.line));
      } else if (is_lost) {
        command.unread.push_back(fmt::format("{} in line {}", word.text, server.line));
      }
      if (!is_lost) argv.push_back(word.text);
    }
    command.argv = server_arguments(*found.front_end, argv);
    read_launcher(std::span(start.words).first(found.front), command);
    for (auto config = find_config(command); config; config = find_config(command)) {
      const auto file = files_.find(basename_of(config->file));
      if (file == files_.end() || !merge_config(command, *config, file->second)) break;
    }
    (takes_other(words) ? found_.left_out : found_.servers).push_back(std::move(server));
  }

  bool takes_other(std::span<const ShellValue> words) const {
    return std::ranges::any_of(choices_.assumed(), [&](const ShellAlternative& one) {
      const std::string plain = "$" + one.root, braced = "${" + one.root;
      return !one.excluded.empty() && std::ranges::any_of(words, [&](const ShellValue& word) {
        return word.is_open && (word.text.find(plain) != npos || word.text.find(braced) != npos);
      });
    });
  }

  std::size_t count() const { return found_.servers.size() + found_.left_out.size(); }

  void note_defaults(const ShellVariables& variables) {
    std::string list;
    for (const auto& [name, value] : variables.defaults)
      list += fmt::format("{}{}={}", list.empty() ? "" : ", ", shown_variable(name), value);
    if (!list.empty()) notes_.push_back({"not given from outside, so that the default written there counts: " + list});
  }

  ShellChoices& choices_;
  const ReadShellFile& read_file_;
  const ReadShellFile reader_ = [this](std::string_view path) { return file_of(path); };
  ServersOfWay found_;
  std::vector<Note> notes_;
  std::string may_set_;  // see LaunchCommand::may_set
  std::map<std::string, std::string, std::less<>> files_;
  std::vector<std::string> images_;  // around the command that is read
  int depth_ = 0, nested_left_ = kMostTextsOfRun;
  std::size_t bytes_ = 0;  // of texts inside others
  std::size_t line_ = 1;   // of the text, where the outermost command begins
};

}  // namespace

Result<ServersOfWay> run_way(std::string_view text, const ShellVariables& variables, ShellChoices& choices,
                             const ReadShellFile& read_file) {
  Run run(choices, read_file);
  if (auto done = run.text(text, variables); !done) return tl::unexpected(done.error());
  return std::move(run).take();
}

std::vector<std::string> variables_of_engine(const LaunchCommand& command) {
  std::vector<std::string> out;
  for (const auto& [name, value] : command.env.values())
    if (is_variable_of(command.front_end->engine, name)) out.push_back(name + "=" + value);
  return out;
}

Result<ServersOfWay> run_words(std::span<const ShellValue> words) {
  ShellChoices choices;
  const ReadShellFile no_files;
  Run run(choices, no_files);
  const std::vector<ShellValue> own(words.begin(), words.end());
  const ShellVariables variables;
  if (!own.empty())
    if (auto done = run.command({.words = own, .variables = variables}); !done) return tl::unexpected(done.error());
  return std::move(run).take();
}

}  // namespace a2asim
