// One server of a launch: its engine, its version and why that one, what check finds, and which of the fixes cure it.
//
//   auto prepared = prepare_server(options, files, text, server);
//   auto judged = judge_server(*prepared);
//   std::vector<TriedFix> fixes = try_fixes(*prepared, judged->report.findings[0]);
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/check/check.h"
#include "tools/check/launches.h"
#include "tools/program/settings.h"
#include "tools/program/shape_options.h"

namespace a2asim {

// What the command line says of all servers.
struct ServerOptions {
  std::optional<std::string> engine, gpu_memory, gpu, nvlink_domain;
  std::map<std::string, std::optional<std::string>, std::less<>> versions;  // by the engine's name
  ShapeOptions shape;
  std::vector<std::string> env;
  SizingRule rule;  // of the user's own, may be empty
  // Code outside: the rule is asked about this engine's servers only, under this version where none is named. Empty:
  // about all servers.
  VersionChoice rule_version;
};
// --env, the model's shape, and what is known of the GPUs.
void add_machine_options(CLI::App& command, ServerOptions& options);
// These, and --ENGINE VERSION of every engine.
void add_server_options(CLI::App& command, ServerOptions& options);

struct PreparedServer {
  LaunchedServer server;
  const Engine* engine = nullptr;
  DeployOptions how;
  std::string version_reason;  // "--sglang", "image NAME:TAG", "newest known: ..", ..
  Settings settings;

  const Version& version() const { return *how.version.version; }
};
// Errors: bad_input, one line.
Result<PreparedServer> prepare_server(const ServerOptions& options, SettingsFiles& files, const LaunchText& text,
                                      const LaunchedServer& server);

struct JudgedServer {
  CheckReport report;
  DeployedCommand deployed;
};
Result<JudgedServer> judge_server(const PreparedServer& prepared);

// Those that cure first.
std::vector<TriedFix> try_fixes(const PreparedServer& prepared, const CheckReport& report, const CheckFinding& finding);

// The command as it is typed, with the fix; nothing where it is no edit of the command.
std::optional<PreparedServer> with_fix(const PreparedServer& prepared, const Fix& fix);

// "server decode (line 4)"
std::string name_of(const LaunchedServer& server);

}  // namespace a2asim
