#include "model/engines/sglang/deploy_command.h"

namespace a2asim {

Result<DeployedCommand> deploy_command(std::string_view text, const DeployOptions& options) {
  Result<LaunchCommand> launch = parse_launch_command(text);
  if (!launch) return tl::unexpected(launch.error());
  return deploy_command(std::move(*launch), options);
}

Result<DeployedCommand> deploy_command(LaunchCommand launch, const DeployOptions& options) {
  DeployedCommand out;
  out.launch = std::move(launch);
  for (const auto& [name, value] : options.env.values()) out.launch.env.set(name, value);
  out.model = options.model;
  Result<ParsedArgs> parsed =
      parse_server_args(options.version.generation->options, out.launch.argv, ParseMode::lenient);
  if (!parsed && parsed.error().kind != ErrorKind::parse_error) return tl::unexpected(parsed.error());
  if (!parsed) {
    out.refused = std::move(parsed.error());
    return out;
  }
  out.argument_notes = std::move(parsed->notes);
  if (!out.model && options.guesses_model && parsed->args.model_path) {
    out.guessed = guess_model(*parsed->args.model_path);
    if (out.guessed) out.model = out.guessed->shape;
  }
  auto resolved = resolve_deployment({.generation = options.version.generation,
                                      .has_flashinfer_dispatcher = options.version.has_flashinfer_dispatcher,
                                      .args = std::move(parsed->args),
                                      .env = out.launch.env,
                                      .model = out.model,
                                      .model_quantization = options.model_quantization,
                                      .gpu_memory_gib = options.gpu_memory_gib,
                                      .rule = options.rule});
  if (!resolved) return tl::unexpected(resolved.error());
  out.deployment = std::move(*resolved);
  return out;
}

}  // namespace a2asim
