// One inference engine as the program sees it: a struct of functions. Whoever has a command reaches its rules through
// this.
//
//   const auto deployed = deploy_command("python3 -m sglang.launch_server --model-path M --tp 8", {.model = shape});
//   if (deployed && deployed->deployment) check_deployment(*deployed->deployment);
//
//   for (const Engine* engine : engines()) list(engine->versions());
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"
#include "model/launch/launch_command.h"
#include "model/step/deployment.h"
#include "model/step/parallel.h"

namespace a2asim {

struct Release {
  std::string_view name;       // "v0.5.13"
  std::string_view note = {};  // what a person who names it should know
};

// Rules that hold from one merged change to the next. An engine's own rows begin with one.
struct Version {
  std::string_view name;               // "pr30450"
  int pr = 0;                          // 0: a state of the main branch that no single change stands for
  std::string_view date;               // YYYY-MM-DD, the day it was merged
  std::string_view commit;             // as far as known
  std::string_view changed;            // one line
  std::vector<Release> releases = {};  // those that hold it and no later one, oldest first
  std::string_view release = {};       // the one of them whose own state this is; else empty
};
// What a scenario calls it, so that it is found again.
inline std::string_view name_of_state(const Version& version) {
  return version.release.empty() ? version.name : version.release;
}
std::string releases_in_words(const Version& version);  // "v0.5.13, v0.5.13.post1", or ""

// Neighbours, oldest first: "v0.5.13 to v0.5.16". Rules that no release ended with are named only where there is no
// release beside them: "pr29461 (main)".
std::string range_in_words(std::span<const Version* const> versions);

// What a person asked for, and what they should know about the answer.
struct VersionMatch {
  const Version* version = nullptr;  // nullptr: the newest
  bool is_older = false;             // than the oldest one known, whose rules stand in for its own
  std::string note;                  // empty, or one line
};

// The version that a person named beside a command, with the option that names it: --sglang v0.5.13.
struct VersionChoice {
  std::string engine;  // whose option it was; empty: none was given
  std::string text;

  bool is_given() const { return !engine.empty(); }
};

// What the all-to-all of a server to be planned must look like; the engine writes its command.
struct PlannedServer {
  std::int64_t ep_size = 0, attn_tp_size = 1;
  DispatchType dispatch_type = DispatchType::bf16;
  std::string backend = {};  // as the engine names it; empty: the fixed-geometry one, or its stand-in
  std::optional<std::int64_t> max_num_tokens, chunked_prefill_size;
  bool own_count_only = false;  // with the options under which a rank knows its own count only
};

// One value of a setting that exploring walks: options behind the planned command, and variables ("A=1 B=2").
struct ExploreValue {
  std::string_view words = {}, env = {};
  std::string_view extra = {};  // the class of configurations that it makes: "speculative", "small_cap", "lane"
};
using ExploreSetting = std::span<const ExploreValue>;  // the first value is the plain one

// What stands beside a command.
struct DeployOptions {
  VersionMatch version;
  Environment env;                                // set over the command's own
  std::optional<ModelShape> model;                // without it, what depends on bytes and experts stays open
  bool guesses_model = false;                     // without `model`: by the model's name in the command
  std::optional<std::string> model_quantization;  // by the model's config.json; else guessed from its name
  std::optional<std::int64_t> nvlink_domain;      // GPUs that share NVLink; else by the GPU's name
  std::string gpu_name = {};                      // "H200"; empty: not known
  std::optional<double> gpu_memory_gib;           // settles the defaults that are taken from the device
  SizingRule rule;                                // a rule of the user's own in place of the version's; may be empty
};

struct DeployedCommand {
  LaunchCommand launch;              // its environment with the options'
  std::vector<Note> argument_notes;  // how the arguments were read; launch.notes: how the text was
  std::optional<ModelShape> model;
  std::optional<ModelPreset> guessed;      // where the shape was guessed
  std::optional<Error> refused;            // by the server's own argument parser: nothing starts
  std::unique_ptr<Deployment> deployment;  // nullptr: refused
};

struct Engine {
  std::string_view name;                                        // "sglang"; --sglang takes its version
  std::string_view title;                                       // "SGLang", in sentences
  const LaunchSyntax* syntax = nullptr;                         // the words that start its servers
  std::vector<const Version*> (*versions)();                    // oldest first
  Result<VersionMatch> (*find_version)(std::string_view text);  // a change, a release, a date, "newest"
  // Errors: bad_input, for what cannot mean a deployment at all.
  Result<DeployedCommand> (*deploy)(LaunchCommand command, const DeployOptions& options);
  // What to change where deploy() came to `refused`.
  std::string (*fix_for_refused)(const Version& version, std::span<const std::string> argv);
  std::string_view (*alltoall_runner)(const Version& version);    // a MoE runner that its FlashInfer all-to-all takes
  const FlashInferLimits& (*flashinfer)(const Version& version);  // the library that it pins
  std::string_view cap_variable;  // sets the cap of the FlashInfer all-to-all; empty: none
  std::string (*plan_command)(const Version& version, const PlannedServer& server);
  bool (*dispatches)(const Version& version, DispatchType type);  // whether its servers can send rows of this type
  std::span<const ExploreSetting> explore_settings = {};        // empty: exploring walks the fields of a layout
  std::string_view skip_exchange;                                 // "1" in it: ranks do not exchange their counts
  std::string_view log_lines;                                     // what its log must show for from-log to read it
  std::string_view log_numbering;                                 // the setting that numbers the steps in its log
  std::string_view pull_requests;                                 // address of a change, without its number
  std::string_view images = {};                                    // its container images, without tags, by blanks
  // Every spelling of an option that the version knows, that one included; none: it does not know it.
  std::vector<std::string> (*spellings)(const Version& version, std::string_view option) = nullptr;
  // Options that the version knows, in the order in which it lists them, and their defaults as JSON.
  std::vector<std::pair<std::string, std::string>> (*options)(const Version& version) = nullptr;
  // What `backend` of a planned server may be; nullptr: nothing but empty.
  std::vector<std::string> (*plan_backends)(const Version& version) = nullptr;
  // The arguments of a layout; nullptr: the layout's own flags.
  std::vector<std::string> (*launch_words)(const Parallel& layout, const Version& version) = nullptr;
};

// --- the list, kept in model/engines/engines.cpp; the first is the one that is meant where nothing names one
std::span<const Engine* const> engines();
Result<const Engine*> find_engine(std::string_view name);            // Errors: bad_input, with the names there are
// As the engine finds it; also "latest" (its newest release), "main" and "nightly" (its newest rules) and "v0.5.x" (the
// newest release of these). Errors: as the engine's.
Result<VersionMatch> find_version(const Engine& engine, std::string_view text);
const Engine& find_engine(const LaunchCommand& command);             // whose server it starts
const Engine& engine_of(const Version& version);
std::string version_option(const Engine& engine);  // "--sglang"
// The newest where none was given. Errors: bad_input, with the option, for a version not known or of another engine.
Result<VersionMatch> find_version(const Engine& engine, const VersionChoice& choice);

// Errors: bad_input, for text that is no such command and for what deploy() refuses.
Result<DeployedCommand> deploy_command(std::string_view text, const DeployOptions& options);
Result<DeployedCommand> deploy_command(LaunchCommand command, const DeployOptions& options);

}  // namespace a2asim
