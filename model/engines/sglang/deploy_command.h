// One way from the text of a launch command to its deployment, for everybody who has a command.
//
//   const auto deployed = deploy_command("python3 -m sglang.launch_server --model-path M --tp 8", {.model = shape});
//   if (deployed && deployed->deployment) check_deployment(*deployed->deployment);
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "model/engines/sglang/deployment.h"
#include "model/launch/launch_command.h"

namespace a2asim {

// What stands beside the command.
struct DeployOptions {
  GenerationMatch version{&newest_generation(), true, ""};
  Environment env;                                // set over the command's own
  std::optional<ModelShape> model;
  bool guesses_model = false;                     // without `model`: by the name in --model-path
  std::optional<std::string> model_quantization;  // see DeploymentInputs, as the next two
  std::optional<double> gpu_memory_gib;
  SizingRule rule;
};

struct DeployedCommand {
  LaunchCommand launch;               // its environment with the options'
  std::vector<Note> argument_notes;   // how the arguments were read; launch.notes: how the text was
  std::optional<ModelShape> model;
  std::optional<ModelPreset> guessed; // where the shape was guessed
  std::optional<Error> refused;       // by the server's own argument parser: nothing starts
  std::unique_ptr<Deployment> deployment;  // nullptr: refused
};

// Errors: bad_input, for text that is no such command and for input that cannot mean a deployment at all.
Result<DeployedCommand> deploy_command(std::string_view text, const DeployOptions& options);
Result<DeployedCommand> deploy_command(LaunchCommand launch, const DeployOptions& options);

}  // namespace a2asim
