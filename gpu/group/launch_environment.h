// Which of several processes this one is: what torchrun, mpirun or srun say in the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/base/result.h"

namespace a2asim::gpu {

struct ProcessPlace {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  // on this host
  int local_size = 1;
  std::string master_address;  // where process 0 listens
  int master_port = 0;
  std::string source;  // whose variables were read: "torchrun", "Open MPI", ..; empty: started alone
  std::string token = {};  // what only processes of this run know; empty: everybody who knows the port is one of them
};

// std::getenv, or in tests a table.
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
Lookup process_environment();

// The first launcher whose rank and size are both set counts; none: a process of its own. MASTER_ADDR may be missing
// where all processes are on this host. Under torchrun, which listens on MASTER_PORT itself, the next port is taken.
// The token is A2ASIM_GROUP_TOKEN, or the run's name that the launcher gives.
inline constexpr std::size_t kMostTokenBytes = 256;  // of a longer one the beginning counts
Result<ProcessPlace> read_launch_environment(const Lookup& lookup);

// The devices of one of several processes of a host: an equal share of them in order, or, where there are fewer than
// processes, one that is shared.
std::vector<int> devices_of_process(int num_devices, int local_rank, int local_size);

}  // namespace a2asim::gpu
