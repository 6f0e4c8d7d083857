// a2asim validate: the same scenarios on a real device, and whether the simulator told the truth.
#include <fmt/format.h>

#include <algorithm>

#include "model/base/one_line.h"
#include "sim/scenario/scenario_reader.h"
#include "tools/backends/backends.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/template.h"
#include "tools/program/version_options.h"
#include "tools/validate/validate.h"
#include "tools/validate/validate_report.h"

namespace a2asim {
namespace {

struct ValidateArguments {
  std::vector<std::string> files;
  std::string backend = "cuda";
  std::string guard = "both";
  VersionChoice version;
  std::string format = "text";
  std::string peer_memory = "auto";
  std::optional<std::string> ranks_per_gpu, gpus, timeout_ms, join_timeout_s, call_timeout_s;
};

Result<Backend> find_device(const ValidateArguments& options, std::ostream& notes) {
  BackendOptions with;
  CudaDeviceOptions& cuda = with.cuda;
  cuda.peer_memory = options.peer_memory;
  cuda.note = [&notes](const std::string& words) { notes << "validate: " << words << '\n'; };
  std::int64_t gpus = 0, timeout_ms = cuda.short_timeout.count(), join_s = cuda.join_timeout.count(), call_s = 60;
  const struct {
    const char* name;
    const std::optional<std::string>& text;
    std::int64_t most;
    std::int64_t& value;
  } numbers[] = {{"--ranks-per-gpu", options.ranks_per_gpu, kMaxRanks, cuda.ranks_per_gpu},
                 {"--gpus", options.gpus, kMaxRanks, gpus},
                 {"--timeout-ms", options.timeout_ms, 600'000, timeout_ms},
                 {"--join-timeout-s", options.join_timeout_s, 3'600, join_s},
                 {"--call-timeout-s", options.call_timeout_s, 3'600, call_s}};
  for (const auto& one : numbers) {
    if (!one.text) continue;
    const auto given = parse_count(one.name, *one.text, 1, one.most);
    if (!given) return tl::unexpected(given.error());
    one.value = *given;
  }
  cuda.gpus = static_cast<int>(gpus);
  cuda.short_timeout = std::chrono::milliseconds(timeout_ms);
  cuda.join_timeout = std::chrono::seconds(join_s);
  with.limits.call = std::chrono::seconds(call_s);
  return find_backend(options.backend, with);
}

Result<std::vector<Scenario>> load_all(const std::vector<std::string>& files) {
  std::vector<Scenario> all;
  for (const std::string& file : files) {
    Result<Scenario> one = load_scenario(file);
    if (!one) return tl::unexpected(one.error());
    all.push_back(std::move(*one));
  }
  return all;
}

Result<int> run_validate(const ValidateArguments& options, const CommandLine& line, Io& io) {
  if (line.after_dashes) return fail(ErrorKind::bad_input, "validate takes no words after `--`");
  const auto format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  const auto guard = parse_choice("--guard", options.guard, {"on", "off", "both"});
  if (!guard) return tl::unexpected(guard.error());
  if (options.files.empty())
    return fail(ErrorKind::bad_input, "no scenario: name one or more files, such as sim/scenarios/collapse.yaml");
  const Result<std::vector<Scenario>> scenarios = load_all(options.files);
  if (!scenarios) return tl::unexpected(scenarios.error());
  if (auto way = parse_choice("--peer-memory", options.peer_memory, {"auto", "nccl", "peer", "ipc"}); !way)
    return tl::unexpected(way.error());
  const Result<Backend> backend = find_device(options, io.err);
  if (!backend) return tl::unexpected(backend.error());
  std::vector<ScenarioValidation> all;
  for (std::size_t i = 0; i < scenarios->size(); ++i) {
    for (const bool on : {false, true}) {
      if (*guard != 2 && on != (*guard == 0)) continue;
      const ValidateOptions with{on, options.version, backend->capabilities};
      Result<ScenarioValidation> one =
          validate_scenario((*scenarios)[i], options.files[i], with, backend->make_device());
      if (!one) return tl::unexpected(one.error());
      if (const auto& ended = backend->session->ended())
        return fail(ErrorKind::bad_input, fmt::format("{}; in {}", ended->message, one_line(options.files[i], 200)));
      all.push_back(std::move(*one));
    }
  }
  if (backend->reports && *format == 1)
    io.out << print(validations_as_json(all, backend->name));
  else if (backend->reports)
    io.out << validations_as_text(all, io.colour);
  const bool differs =
      std::ranges::any_of(all, [](const ScenarioValidation& one) { return one.result == CheckResult::failed; });
  return differs ? kErrorFound : kNothingWrong;
}

void add_options(CLI::App& command, ValidateArguments& options) {
  add_value(command, "files", options.files, "FILE", "Scenario files, YAML or JSON");
  add_value(command, "--backend,--device", options.backend, "BACKEND",
            "cuda, sim, or the path of a plug-in (gpu/backend_plugin.h); default cuda");
  add_value(command, "--guard", options.guard, "WHEN", "on, off or both: the geometry guard; default both");
  add_value(command, "--ranks-per-gpu", options.ranks_per_gpu, "N",
            "Ranks of one launch; default an equal share for each GPU. With more launches than GPUs several share one "
            "and meet by flags");
  add_value(command, "--gpus", options.gpus, "N", "Use the first so many GPUs; default all");
  add_value(command, "--peer-memory", options.peer_memory, "WAY",
            "auto, nccl (windows), peer (access inside a process) or ipc (handles between processes): how GPUs reach "
            "each other; default auto, the first of the others that works");
  add_value(command, "--join-timeout-s", options.join_timeout_s, "S",
            "How long to wait for the other processes of mpirun, torchrun or srun; default 30");
  add_value(command, "--timeout-ms", options.timeout_ms, "MS",
            "How long ranks wait for one that is missing; default 300");
  add_value(command, "--call-timeout-s", options.call_timeout_s, "S",
            "How long a plug-in may take for one call before it is ended; default 60");
  add_version_options(command, options.version, "Run with this version's rules instead of the file's");
  add_value(command, "--format", options.format, "FORMAT", "text or json; default text");
  command.footer(help_text("validate.help"));
}

}  // namespace

void add_validate(CLI::App& program, CommandLine& line) {
  add_command<ValidateArguments>(program, line, "validate", "Does a real device do what the simulator says?",
                                 add_options, run_validate);
}

}  // namespace a2asim
