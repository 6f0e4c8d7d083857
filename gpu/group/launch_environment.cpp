#include "gpu/group/launch_environment.h"

#include <charconv>
#include <cstdlib>

#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

struct Launcher {
  const char* source;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // optional
};

// torchrun first: its variables are also what a person sets by hand, inside mpirun or a Slurm job too.
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

constexpr int kMostProcesses = 4096;
constexpr int kDefaultPort = 29500;  // torchrun's
constexpr int kLargestPort = 65535;

Result<int> read_number(const Lookup& lookup, const std::string& name, int least, int most) {
  A2ASIM_INVARIANT(!name.empty() && least <= most, "a variable has a name and values");
  const std::string text = lookup(name).value_or("");
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return value;
  return fail(ErrorKind::bad_input, "environment: " + name + " is '" + text + "'; it must be a number from " +
                                        std::to_string(least) + " to " + std::to_string(most));
}

// Local rank and size: where the launcher does not give them, all processes are taken to be on this host.
Result<void> read_local(const Lookup& lookup, const Launcher& launcher, ProcessPlace& place) {
  A2ASIM_INVARIANT(place.rank < place.size, "rank and size were read");
  const bool has_size = lookup(launcher.local_size).has_value();
  place.local_rank = place.rank;
  place.local_size = place.size;
  if (has_size) {
    const auto size = read_number(lookup, launcher.local_size, 1, place.size);
    if (!size) return tl::unexpected(size.error());
    place.local_size = *size;
  }
  if (!lookup(launcher.local_rank)) return {};
  const auto rank = read_number(lookup, launcher.local_rank, 0, place.local_size - 1);
  if (!rank) return tl::unexpected(rank.error());
  place.local_rank = *rank;
  return {};
}

std::string read_token(const Lookup& lookup) {
  A2ASIM_INVARIANT(lookup != nullptr, "there is an environment");
  std::string token = lookup("A2ASIM_GROUP_TOKEN").value_or("");
  if (token.empty()) token = lookup("TORCHELASTIC_RUN_ID").value_or("");
  if (token.empty()) token = lookup("PMIX_NAMESPACE").value_or("");
  if (token.empty() && lookup("SLURM_JOB_ID"))
    token = *lookup("SLURM_JOB_ID") + "." + lookup("SLURM_STEP_ID").value_or("");
  return token.substr(0, kMostTokenBytes);
}

Result<void> read_master(const Lookup& lookup, ProcessPlace& place) {
  A2ASIM_INVARIANT(place.size > 1, "one process alone meets nobody");
  place.master_address = lookup("MASTER_ADDR").value_or("");
  if (place.master_address.empty()) {
    const bool one_host = place.local_size == place.size && lookup("SLURM_NNODES").value_or("1") == "1";
    if (!one_host) {
      return fail(ErrorKind::bad_input, "environment: " + place.source +
                                            " started processes on several hosts and MASTER_ADDR is not set; " +
                                            "set it to the host of process 0");
    }
    place.master_address = "127.0.0.1";
  }
  place.master_port = kDefaultPort;
  if (lookup("MASTER_PORT")) {
    const auto port = read_number(lookup, "MASTER_PORT", 1, kLargestPort);
    if (!port) return tl::unexpected(port.error());
    place.master_port = *port;
  }
  if (lookup("TORCHELASTIC_RUN_ID")) place.master_port = place.master_port % kLargestPort + 1;
  return {};
}

}  // namespace

Lookup process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Result<ProcessPlace> read_launch_environment(const Lookup& lookup) {
  A2ASIM_INVARIANT(lookup != nullptr, "there is an environment");
  for (const Launcher& launcher : kLaunchers) {
    if (!lookup(launcher.rank) || !lookup(launcher.size)) continue;
    ProcessPlace place;
    place.source = launcher.source;
    const auto size = read_number(lookup, launcher.size, 1, kMostProcesses);
    if (!size) return tl::unexpected(size.error());
    place.size = *size;
    const auto rank = read_number(lookup, launcher.rank, 0, place.size - 1);
    if (!rank) return tl::unexpected(rank.error());
    place.rank = *rank;
    if (auto ok = read_local(lookup, launcher, place); !ok) return tl::unexpected(ok.error());
    if (place.size == 1) return place;
    if (auto ok = read_master(lookup, place); !ok) return tl::unexpected(ok.error());
    place.token = read_token(lookup);
    return place;
  }
  return ProcessPlace{};
}

std::vector<int> devices_of_process(int num_devices, int local_rank, int local_size) {
  if (num_devices < 1) return {};
  if (num_devices < local_size) return {local_rank % num_devices};
  std::vector<int> devices;
  const int end = (local_rank + 1) * num_devices / local_size;
  for (int device = local_rank * num_devices / local_size; device < end; ++device) devices.push_back(device);
  return devices;
}

}  // namespace a2asim::gpu
