// What `check` and `upgrade` are pointed at -> texts and the servers that they start.
//
//   auto read = read_launches({.paths = {"deploy/", "serve.sh", "k8s/*.yaml"}}, io);
//   for (const LaunchText& text : read->texts) for (const LaunchedServer& server : text.servers) ..
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/launch/launch_command.h"
#include "tools/check/check_formats.h"
#include "tools/program/io.h"

namespace a2asim {

// A text, its servers, and what people wrote in it for us: `# a2asim: version=v0.5.13`, `# a2asim: ignore=ID reason`.
struct LaunchText {
  CommandSource source;
  std::string text;
  std::vector<LaunchedServer> servers;
  std::optional<Error> error;  // it may start servers, and cannot be read
};

struct LaunchPaths {
  std::vector<std::string> paths;                 // files, folders, patterns with *, ? and **; "-"
  std::optional<std::vector<std::string>> words;  // of a command; instead of paths
  Environment env;                                // fills variables
  std::vector<std::string> excluded;              // patterns of files in folders that are left alone
};

// In folders: scripts, YAML, Dockerfiles and Markdown; hidden folders are skipped. Of folders and patterns, files that
// start no server are left out; a path that is given and starts none is an error of that text. Without paths and words:
// standard input.
// Errors: bad_input, a path that does not exist, a pattern that fits nothing, more than 10,000 files.
Result<std::vector<LaunchText>> read_launches(const LaunchPaths& what, Io& io);

// `text` fits `pattern`: * and ? stay within a part between slashes, ** takes any number of parts.
bool matches_path(std::string_view path, std::string_view pattern);

// What a comment says to us: the lines with "a2asim: KEY=VALUE rest".
struct Annotation {
  std::string key, value, rest;
  std::size_t line = 1;
};
std::vector<Annotation> annotations_of(std::string_view text);

// The annotation counts for this server: the first one that begins at its line or below; the last one for those below
// all.
bool is_about(const Annotation& annotation, const LaunchedServer& server, const LaunchText& text);

}  // namespace a2asim
