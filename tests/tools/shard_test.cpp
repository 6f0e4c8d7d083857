// --shard: I/N, and what schedulers tell their processes.
#include "tools/explore/shard.h"

#include <doctest/doctest.h>

#include <map>

namespace a2asim {
namespace {

using Variables = std::map<std::string, std::string>;

Result<std::optional<Shard>> parse(const std::string& text, const Variables& set) {
  return parse_shard(text, [&](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

void check_is(const std::string& text, const Variables& set, Shard expected) {
  const auto shard = parse(text, set);
  REQUIRE_MESSAGE(shard.has_value(), (shard ? "" : shard.error().message));
  REQUIRE(shard->has_value());
  CHECK(**shard == expected);
}

void check_refused(const std::string& text, const Variables& set, const std::string& says) {
  const auto shard = parse(text, set);
  REQUIRE_FALSE(shard.has_value());
  INFO(shard.error().message);
  CHECK(shard.error().kind == ErrorKind::bad_input);
  CHECK(shard.error().message.find(says) != std::string::npos);
}

TEST_CASE("a shard by hand is counted from 0 or from 1") {
  check_is("0/4", {}, {0, 4});
  check_is("4/4", {}, {0, 4});
  check_is("3/4", {{"SLURM_ARRAY_TASK_ID", "1"}}, {3, 4});
  check_refused("5/4", {}, "before the slash");
  check_refused("1", {}, "I/N");
  CHECK_FALSE(parse_shard(std::nullopt, [](const char*) -> const char* { return nullptr; })->has_value());
}

TEST_CASE("a Slurm array tells place and number, wherever its numbers begin") {
  check_is("auto", {{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_ARRAY_TASK_COUNT", "16"}, {"SLURM_ARRAY_TASK_MIN", "0"}},
           {3, 16});
  check_is("auto", {{"SLURM_ARRAY_TASK_ID", "1"}, {"SLURM_ARRAY_TASK_COUNT", "4"}, {"SLURM_ARRAY_TASK_MIN", "1"}},
           {0, 4});
  const Variables stepped = {{"SLURM_ARRAY_TASK_ID", "14"},
                             {"SLURM_ARRAY_TASK_COUNT", "3"},
                             {"SLURM_ARRAY_TASK_MIN", "10"},
                             {"SLURM_ARRAY_TASK_STEP", "2"}};
  check_is("auto", stepped, {2, 3});
  check_refused("auto", {{"SLURM_ARRAY_TASK_ID", "7"}}, "auto/N");
  check_refused("auto", {{"SLURM_ARRAY_TASK_ID", "x"}, {"SLURM_ARRAY_TASK_COUNT", "4"}}, "SLURM_ARRAY_TASK_ID");
  check_refused("auto", {{"SLURM_ARRAY_TASK_ID", "4"}, {"SLURM_ARRAY_TASK_COUNT", "4"}}, "none of 4 shards");
}

TEST_CASE("mpirun tells both, a Kubernetes Job only the place") {
  check_is("auto", {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}}, {2, 8});
  check_is("auto/16", {{"JOB_COMPLETION_INDEX", "15"}}, {15, 16});
  check_refused("auto", {{"JOB_COMPLETION_INDEX", "15"}}, "auto/N");
  check_refused("auto/8", {{"JOB_COMPLETION_INDEX", "8"}}, "none of 8 shards");
}

TEST_CASE("auto needs one scheduler, and not two") {
  check_refused("auto", {}, "none of SLURM_ARRAY_TASK_ID");
  check_refused("auto/4", {{"JOB_COMPLETION_INDEX", "1"}, {"OMPI_COMM_WORLD_RANK", "1"}}, "both");
}

}  // namespace
}  // namespace a2asim
