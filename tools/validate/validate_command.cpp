// a2asim validate: the same scenarios on a real device, and whether the simulator told the truth.
#include <fmt/format.h>

#include <algorithm>

#include "sim/scenario/scenario_reader.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/validate/validate.h"
#include "tools/validate/validate_report.h"

namespace a2asim {
namespace {

constexpr const char* kFooter =
    R"(Each scenario runs on the simulator and, call by call beside it, on the device. With the guard off ranks that disagree
do to each other what they do on hardware, and every byte must be what the simulator says; with the guard on they get
an error that names two of them. What cannot be compared is counted as skipped, with the reason, never as passed.

Started by torchrun, mpirun or srun, the processes share out the ranks and meet at MASTER_ADDR:MASTER_PORT (for
mpirun and srun on one host 127.0.0.1:29500 if unset); each uses its share of the host's GPUs, and process 0 reports.

Examples:
  a2asim validate sim/scenarios/*.yaml
  a2asim validate sim/scenarios/collapse.yaml --guard off --ranks-per-gpu 1
  mpirun -n 2 a2asim validate sim/scenarios/*.yaml --peer-memory ipc
  a2asim validate sim/scenarios/graph_buckets.yaml --sglang pr30450 --format json

Exit codes: 0 nothing failed, 1 something differs, 2 there is no device, no CUDA backend, or the input cannot be used.)";

struct Options {
  std::vector<std::string> files;
  std::string device = "cuda";
  std::string guard = "both";
  std::string sglang;
  std::string format = "text";
  std::string peer_memory = "auto";
  std::optional<std::string> ranks_per_gpu, gpus, timeout_ms, join_timeout_s;
};

Result<CudaDevices> find_devices(const Options& options, std::ostream& notes) {
  CudaDeviceOptions cuda;
  cuda.peer_memory = options.peer_memory;
  cuda.note = [&notes](const std::string& words) { notes << "validate: " << words << '\n'; };
  std::int64_t gpus = 0, timeout_ms = cuda.short_timeout.count(), join_s = cuda.join_timeout.count();
  const struct {
    const char* name;
    const std::optional<std::string>& text;
    std::int64_t most;
    std::int64_t& value;
  } numbers[] = {{"--ranks-per-gpu", options.ranks_per_gpu, kMaxRanks, cuda.ranks_per_gpu},
                 {"--gpus", options.gpus, kMaxRanks, gpus},
                 {"--timeout-ms", options.timeout_ms, 600'000, timeout_ms},
                 {"--join-timeout-s", options.join_timeout_s, 3'600, join_s}};
  for (const auto& one : numbers) {
    if (!one.text) continue;
    const auto given = parse_count(one.name, *one.text, 1, one.most);
    if (!given) return tl::unexpected(given.error());
    one.value = *given;
  }
  cuda.gpus = static_cast<int>(gpus);
  cuda.short_timeout = std::chrono::milliseconds(timeout_ms);
  cuda.join_timeout = std::chrono::seconds(join_s);
  return cuda_devices(cuda);
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

Result<int> run_validate(const Options& options, Io& io) {
  const auto format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  const auto guard = parse_choice("--guard", options.guard, {"on", "off", "both"});
  if (!guard) return tl::unexpected(guard.error());
  if (auto device = parse_choice("--device", options.device, {"cuda"}); !device) return tl::unexpected(device.error());
  if (options.files.empty())
    return fail(ErrorKind::bad_input, "no scenario: name one or more files, such as sim/scenarios/collapse.yaml");
  const Result<std::vector<Scenario>> scenarios = load_all(options.files);
  if (!scenarios) return tl::unexpected(scenarios.error());
  if (auto way = parse_choice("--peer-memory", options.peer_memory, {"auto", "nccl", "peer", "ipc"}); !way)
    return tl::unexpected(way.error());
  const Result<CudaDevices> devices = find_devices(options, io.err);
  if (!devices) return tl::unexpected(devices.error());
  std::vector<ScenarioValidation> all;
  for (std::size_t i = 0; i < scenarios->size(); ++i) {
    for (const bool on : {false, true}) {
      if (*guard != 2 && on != (*guard == 0)) continue;
      const ValidateOptions with{on, options.sglang};
      Result<ScenarioValidation> one = validate_scenario((*scenarios)[i], options.files[i], with, devices->make);
      if (!one) return tl::unexpected(one.error());
      all.push_back(std::move(*one));
    }
  }
  if (devices->reports && *format == 1)
    io.out << print(validations_as_json(all, options.device));
  else if (devices->reports)
    io.out << validations_as_text(all, io.colour);
  const bool differs =
      std::ranges::any_of(all, [](const ScenarioValidation& one) { return one.result == CheckResult::failed; });
  return differs ? kErrorFound : kNothingWrong;
}

void add_options(CLI::App& command, Options& options) {
  command.add_option("files", options.files, "Scenario files, YAML or JSON")->type_name("FILE");
  command.add_option("--device", options.device, "cuda")->type_name("DEVICE");
  command.add_option("--guard", options.guard, "on, off or both: the geometry guard; default both")->type_name("WHEN");
  command
      .add_option(
          "--ranks-per-gpu", options.ranks_per_gpu,
          "Ranks of one launch; default an equal share for each GPU. With more launches than GPUs several share "
          "one and meet by flags")
      ->type_name("N");
  command.add_option("--gpus", options.gpus, "Use the first so many GPUs; default all")->type_name("N");
  command
      .add_option("--peer-memory", options.peer_memory,
                  "auto, nccl (windows), peer (access inside a process) or ipc (handles between processes): how GPUs "
                  "reach each other; default auto, the first of the others that works")
      ->type_name("WAY");
  command
      .add_option("--join-timeout-s", options.join_timeout_s,
                  "How long to wait for the other processes of mpirun, torchrun or srun; default 30")
      ->type_name("S");
  command.add_option("--timeout-ms", options.timeout_ms, "How long ranks wait for one that is missing; default 300")
      ->type_name("MS");
  command.add_option("--sglang", options.sglang, "Run with this version's rules instead of the file's")
      ->type_name("GEN");
  command.add_option("--format", options.format, "text or json; default text")->type_name("FORMAT");
}

}  // namespace

void add_validate(CLI::App& program, CommandLine& line) {
  CLI::App* command = program.add_subcommand("validate", "Does a real device do what the simulator says?");
  command->footer(kFooter);
  auto options = std::make_shared<Options>();
  add_options(*command, *options);
  command->callback([options, &line] {
    line.run = [options, &line](Io& io) -> Result<int> {
      if (line.after_dashes) return fail(ErrorKind::bad_input, "validate takes no words after `--`");
      return run_validate(*options, io);
    };
  });
}

}  // namespace a2asim
