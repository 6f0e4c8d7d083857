// What torchrun, mpirun and srun say about a process, and what is not understood.
#include "gpu/group/launch_environment.h"

#include <doctest/doctest.h>

#include <map>

namespace a2asim::gpu {
namespace {

using Table = std::map<std::string, std::string>;

Result<ProcessPlace> read(const Table& table) {
  return read_launch_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = table.find(name);
    if (found == table.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal(const Table& table) {
  const auto place = read(table);
  CHECK_FALSE(place.has_value());
  return place ? "" : place.error().message;
}

TEST_CASE("group: a process started by itself") {
  const auto place = read({{"MASTER_ADDR", "elsewhere"}, {"RANK", "3"}});
  REQUIRE(place.has_value());
  CHECK(place->size == 1);
  CHECK(place->source.empty());
}

TEST_CASE("group: torchrun listens on its port, so the next one is taken") {
  Table table = {{"RANK", "5"},        {"WORLD_SIZE", "8"},           {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"},
                 {"MASTER_PORT", "1"}, {"MASTER_ADDR", "node0.local"}};
  auto place = read(table);
  REQUIRE(place.has_value());
  CHECK(place->source == "torchrun");
  CHECK(place->rank == 5);
  CHECK(place->size == 8);
  CHECK(place->local_rank == 1);
  CHECK(place->local_size == 4);
  CHECK(place->master_address == "node0.local");
  CHECK(place->master_port == 1);
  table["TORCHELASTIC_RUN_ID"] = "none";
  CHECK(read(table)->master_port == 2);
  table["MASTER_PORT"] = "65535";
  CHECK(read(table)->master_port == 1);
}

TEST_CASE("group: Open MPI, MPICH and Slurm on one host need no address") {
  const std::pair<const char*, Table> launchers[] = {
      {"Open MPI",
       {{"OMPI_COMM_WORLD_RANK", "1"},
        {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}},
      {"MPICH", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}},
      {"Slurm", {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}, {"SLURM_NNODES", "1"}}}};
  for (const auto& [source, table] : launchers) {
    CAPTURE(source);
    const auto place = read(table);
    REQUIRE(place.has_value());
    CHECK(place->source == source);
    CHECK(place->rank == 1);
    CHECK(place->size == 2);
    CHECK(place->local_rank == 1);
    CHECK(place->local_size == 2);
    CHECK(place->master_address == "127.0.0.1");
    CHECK(place->master_port == 29500);
  }
  // What a person sets by hand goes before what mpirun says.
  Table both = launchers[0].second;
  both.insert({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  CHECK(read(both)->size == 1);
}

TEST_CASE("group: what cannot be right is refused with the variable's name") {
  CHECK(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).find("RANK is '2'; it must be a number from 0 to 1") !=
        std::string::npos);
  CHECK(refusal({{"RANK", "0"}, {"WORLD_SIZE", "two"}}).find("WORLD_SIZE is 'two'") != std::string::npos);
  CHECK(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "99999"}}).find("MASTER_PORT") !=
        std::string::npos);
  CHECK(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "1"}})
            .find("LOCAL_RANK is '1'") != std::string::npos);
  CHECK(refusal({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}})
            .find("several hosts and MASTER_ADDR is not set") != std::string::npos);
  CHECK(refusal({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}}).find("MASTER_ADDR") !=
        std::string::npos);
}

TEST_CASE("group: processes of a host share out its devices") {
  CHECK(devices_of_process(8, 0, 2) == std::vector<int>{0, 1, 2, 3});
  CHECK(devices_of_process(8, 1, 2) == std::vector<int>{4, 5, 6, 7});
  CHECK(devices_of_process(3, 0, 2) == std::vector<int>{0});
  CHECK(devices_of_process(3, 1, 2) == std::vector<int>{1, 2});
  CHECK(devices_of_process(2, 3, 4) == std::vector<int>{1});
  CHECK(devices_of_process(1, 1, 2) == std::vector<int>{0});
  CHECK(devices_of_process(0, 0, 1).empty());
}

TEST_CASE("environment: the run's token is the variable's, or the launcher's name of the run") {
  const auto token = [](std::map<std::string, std::string> more) {
    std::map<std::string, std::string> all = {{"RANK", "0"}, {"WORLD_SIZE", "2"}};
    all.merge(more);
    const auto place = read_launch_environment([&](const std::string& name) -> std::optional<std::string> {
      const auto found = all.find(name);
      return found == all.end() ? std::nullopt : std::optional(found->second);
    });
    REQUIRE(place.has_value());
    return place->token;
  };
  CHECK(token({}).empty());
  CHECK(token({{"TORCHELASTIC_RUN_ID", "t"}}) == "t");
  CHECK(token({{"TORCHELASTIC_RUN_ID", "t"}, {"A2ASIM_GROUP_TOKEN", "own"}}) == "own");
  CHECK(token({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "1"}}) == "7.1");
  CHECK(token({{"PMIX_NAMESPACE", "p"}}) == "p");
  CHECK(token({{"A2ASIM_GROUP_TOKEN", std::string(1000, 'x')}}).size() == kMostTokenBytes);
}

}  // namespace
}  // namespace a2asim::gpu
