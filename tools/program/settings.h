// a2asim.toml: what a repository of launches says once, instead of options at every call.
//
//   SettingsFiles files;
//   Result<Settings> settings = files.of("deploy/decode/serve.sh");   // of the nearest a2asim.toml above it
//
// The keys are in tools/docs/a2asim.schema.json. Options of the command line count more.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/result.h"
#include "tools/program/shape_options.h"

namespace a2asim {

struct Settings {
  std::string file;                                          // where they stand; empty: there is none
  std::map<std::string, std::string, std::less<>> versions;  // by the engine's name
  ShapeOptions shape;
  std::optional<std::string> gpu_memory, gpu, nvlink_domain;
  std::map<std::string, std::string> env;
  std::vector<std::pair<std::string, std::string>> ignored;  // a finding's id, and the reason
  std::vector<std::string> paths, excluded;                  // as seen from the file's folder
  std::optional<bool> strict;
};

class SettingsFiles {
 public:
  SettingsFiles();
  ~SettingsFiles();
  // path: of a file or folder, which need not exist. Errors: bad_input, with file and line.
  Result<Settings> of(const std::string& path);

 private:
  struct Parsed;
  std::map<std::string, std::unique_ptr<Parsed>> parsed_;  // by file
};

}  // namespace a2asim
