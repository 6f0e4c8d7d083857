#include "tools/check/launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "model/base/one_line.h"
#include "model/launch/front_end.h"
#include "model/launch/launch_file.h"
#include "model/launch/launch_text.h"
#include "model/launch/shell_pattern.h"
#include "model/step/engine.h"
#include "tools/program/input.h"

namespace a2asim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 10'000;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a file in a folder: launches are far smaller

bool has_pattern(std::string_view path) { return path.find_first_of("*?[") != std::string_view::npos; }

// By name: which files of a folder may hold a launch.
bool may_launch(const fs::path& path) {
  static constexpr std::string_view kEndings[] = {".sh",  ".bash", ".zsh", ".slurm",    ".sbatch",     ".yaml",
                                                  ".yml", ".md",   ".txt", ".markdown", ".dockerfile", ".env"};
  std::string name = path.filename().string();
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (name.starts_with("dockerfile") || name.starts_with("containerfile") || name.find('.') == std::string::npos)
    return true;
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// All files below, in order of their paths; hidden ones left alone.
Result<std::vector<std::string>> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  std::size_t seen = 0;
  for (auto at = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    if (++seen > kMostFiles)
      return unusable(fmt::format("{} holds more than {} files: name the folder or the files with launches",
                                  one_line(folder), kMostFiles));
    const std::string name = at->path().filename().string();
    if (name.starts_with('.') || name == "node_modules") {
      if (at->is_directory(error)) at.disable_recursion_pending();
      continue;
    }
    if (at->is_regular_file(error))
      files.push_back(fs::path(folder == "." ? at->path().lexically_relative(".") : at->path()).string());
  }
  if (error) return unusable(fmt::format("{} cannot be read: {}", one_line(folder), error.message()));
  std::ranges::sort(files);
  return files;
}

Result<std::vector<std::string>> files_of_pattern(const std::string& pattern) {
  const std::size_t slash = pattern.substr(0, pattern.find_first_of("*?[")).rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : pattern.substr(0, slash);
  if (!fs::is_directory(folder)) return unusable(fmt::format("{} fits no file", one_line(pattern)));
  Result<std::vector<std::string>> files = files_below(folder);
  if (!files) return files;
  std::erase_if(*files, [&](const std::string& file) { return !matches_path(file, pattern); });
  if (files->empty()) return unusable(fmt::format("{} fits no file", one_line(pattern)));
  return files;
}

// Whether a text that cannot be read may start a server: YAML by options alone, everything else by a command.
bool may_start_server(const std::string& path, std::string_view text) {
  const auto is_named = [&](const Engine* engine) { return text.find(engine->name) != std::string_view::npos; };
  if (path.ends_with(".yaml") || path.ends_with(".yml")) return std::ranges::any_of(engines(), is_named);
  return names_a_server(text);
}

bool is_markdown_without_fences(const LaunchText& text) {
  const std::string& path = text.source.path;
  return text.source.kind == CommandSource::Kind::file && (path.ends_with(".md") || path.ends_with(".markdown")) &&
         text.text.find("```") == std::string::npos && text.text.find("~~~") == std::string::npos;
}

// A plain file in the folder of the script or below; a link that leads out of it is none.
std::optional<std::string> read_file_beside(const std::string& script, std::string_view path) {
  if (path.starts_with('/') || path.find("..") != std::string_view::npos) return std::nullopt;
  std::error_code error;
  const fs::path parent = fs::path(script).parent_path();
  const fs::path folder = fs::canonical(parent.empty() ? "." : parent, error);
  const fs::path file = error ? fs::path() : fs::canonical(folder / path, error);
  if (error || !fs::is_regular_file(file, error) || fs::file_size(file, error) > kMostBytes) return std::nullopt;
  if (std::ranges::mismatch(folder, file).in1 != folder.end()) return std::nullopt;
  Result<std::string> text = read_text_file(file.string());
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

LaunchText read_text_of(CommandSource source, Result<std::string> text, const Environment& env) {
  LaunchText out{std::move(source), "", {}, std::nullopt};
  if (!text) {
    out.error = text.error();
    return out;
  }
  out.text = std::move(*text);
  const bool is_file = out.source.kind == CommandSource::Kind::file;
  if (out.text.find_first_not_of(" \t\r\n") == std::string::npos) {
    out.error = Error{ErrorKind::bad_input,
                      fmt::format("no launch command: {} is empty; give the command after `--`, in a file, or on "
                                  "standard input",
                                  is_file ? "file '" + one_line(out.source.path) + "'" : "standard input")};
    return out;
  }
  const auto read_beside = [&](std::string_view path) {
    return is_file ? read_file_beside(out.source.path, path) : std::nullopt;
  };
  Result<std::vector<LaunchedServer>> servers =
      find_servers_in_file(is_markdown_without_fences(out) ? indented_code(out.text) : out.text, env, read_beside);
  if (servers)
    out.servers = std::move(*servers);
  else
    out.error = servers.error();
  return out;
}

LaunchText read_file(const std::string& path, const Environment& env) {
  return read_text_of({CommandSource::Kind::file, path}, read_text_file(path), env);
}

// Words behind `--`, or one of them that is a whole text.
LaunchText read_words(const std::vector<std::string>& words, const Environment& env) {
  LaunchText out;
  if (words.size() == 1) return read_text_of({}, words[0], env);
  Result<LaunchedServer> server = find_server_in_words(words);
  if (server)
    out.servers.push_back(std::move(*server));
  else
    out.error = server.error();
  return out;
}

// Of files that nobody named one by one, those that start no server are left out.
void add_files(const std::vector<std::string>& files, const LaunchPaths& what, std::vector<LaunchText>& out) {
  for (const std::string& file : files) {
    std::error_code error;
    if (fs::file_size(file, error) > kMostBytes || error) continue;
    const auto excludes = [&](const std::string& pattern) { return matches_path(file, pattern); };
    if (std::ranges::any_of(what.excluded, excludes)) continue;
    LaunchText text = read_file(file, what.env);
    const bool concerns_us = !text.error || (!starts_no_server(*text.error) && !is_of_another_kind(*text.error) &&
                                             may_start_server(file, text.text));
    if (concerns_us) out.push_back(std::move(text));
  }
}

}  // namespace

Result<std::vector<LaunchText>> read_launches(const LaunchPaths& what, Io& io) {
  std::vector<LaunchText> out;
  if (what.words) {
    out.push_back(read_words(*what.words, what.env));
    return out;
  }
  if (what.paths.empty()) {
    if (io.in_is_terminal)
      return unusable("no launch command: give a file or folder, the command after `--`, or text on standard input");
    out.push_back(read_text_of({CommandSource::Kind::standard_input, ""}, read_standard_input(io), what.env));
    return out;
  }
  for (const std::string& path : what.paths) {
    std::error_code error;
    if (path == "-") {
      out.push_back(read_text_of({CommandSource::Kind::standard_input, ""}, read_standard_input(io), what.env));
    } else if (fs::is_directory(path, error)) {
      Result<std::vector<std::string>> files = files_below(path);
      if (!files) return tl::unexpected(files.error());
      std::erase_if(*files, [](const std::string& file) { return !may_launch(file); });
      add_files(*files, what, out);
    } else if (has_pattern(path) && !fs::exists(path, error)) {
      const Result<std::vector<std::string>> files = files_of_pattern(path);
      if (!files) return tl::unexpected(files.error());
      add_files(*files, what, out);
    } else {
      out.push_back(read_file(path, what.env));
    }
  }
  return out;
}

bool matches_path(std::string_view path, std::string_view pattern) {
  if (pattern.empty()) return path.empty();
  const std::size_t slash = std::min(pattern.find('/'), pattern.size());
  const std::string_view part = pattern.substr(0, slash);
  const std::string_view rest = pattern.substr(std::min(slash + 1, pattern.size()));
  if (part == "**") {
    if (rest.empty()) return true;
    for (std::string_view left = path;;) {
      if (matches_path(left, rest)) return true;
      const std::size_t next = left.find('/');
      if (next == std::string_view::npos) return false;
      left.remove_prefix(next + 1);
    }
  }
  const std::size_t end = std::min(path.find('/'), path.size());
  if (!matches_pattern(path.substr(0, end), part)) return false;
  const bool last = slash == pattern.size();
  return last ? end == path.size() : end < path.size() && matches_path(path.substr(end + 1), rest);
}

std::vector<Annotation> annotations_of(std::string_view text) {
  constexpr std::string_view kMark = "a2asim: ";
  std::vector<Annotation> out;
  for (std::size_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t mark = line.find(kMark);
    if (mark == std::string_view::npos) continue;
    const std::string_view before = line.substr(0, mark);
    if (before.find('#') == std::string_view::npos && before.find("<!--") == std::string_view::npos) continue;
    line = line.substr(mark + kMark.size());
    line = line.substr(0, line.find("-->"));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::size_t end = std::min(line.find_first_of(" \t\r", equals), line.size());
    std::string_view rest = line.substr(end);
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r"), rest.size()));
    rest = rest.substr(0, rest.find_last_not_of(" \t\r") + 1);
    out.push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1, end - equals - 1)),
                   std::string(rest), number});
  }
  return out;
}

bool is_about(const Annotation& annotation, const LaunchedServer& server, const LaunchText& text) {
  std::size_t line = 0;
  for (const LaunchedServer& one : text.servers) {
    if (one.line >= annotation.line && (line < annotation.line || one.line < line))
      line = one.line;
    else if (line < annotation.line)
      line = std::max(line, one.line);
  }
  return server.line == line;
}

}  // namespace a2asim
