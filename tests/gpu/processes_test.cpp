// Several processes, each with its share of the GPUs (or, where there is one GPU, all on that one).
//
// A test case starts this very program again, several times, with the variables that torchrun sets and this test case
// as filter; started so, the test case is one of these processes.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "gpu/group/launch_environment.h"
#include "gpu/group/process_group.h"
#include "gpu_world.h"
#include "tests/group/free_port.h"

namespace a2asim::test {
namespace {

using std::chrono::milliseconds;

struct Member {
  std::unique_ptr<gpu::ProcessGroup> group;
  gpu::CudaOptions options;
};

bool is_member() { return std::getenv("A2ASIM_TEST_WAY") != nullptr; }

Member join() {
  const auto place = gpu::read_launch_environment(gpu::process_environment());
  REQUIRE(place.has_value());
  auto group = gpu::ProcessGroup::join(*place, milliseconds(30'000));
  REQUIRE_MESSAGE(group.has_value(), (group ? std::string() : group.error().message));
  Member member;
  member.group = std::move(*group);
  member.options.group = member.group.get();
  member.options.peer_memory = *gpu::parse_peer_memory(std::getenv("A2ASIM_TEST_WAY"));
  member.options.devices =
      gpu::devices_of_process(gpu::usable_devices().value_or(1), place->local_rank, place->local_size);
  return member;
}

// This process's environment and what torchrun would add.
std::vector<std::string> environment_of(int rank, int processes, const std::string& way, int port) {
  std::vector<std::string> all = {"RANK=" + std::to_string(rank),
                                  "WORLD_SIZE=" + std::to_string(processes),
                                  "LOCAL_RANK=" + std::to_string(rank),
                                  "LOCAL_WORLD_SIZE=" + std::to_string(processes),
                                  "MASTER_ADDR=127.0.0.1",
                                  "MASTER_PORT=" + std::to_string(port),
                                  "A2ASIM_TEST_WAY=" + way};
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

pid_t start_one(const std::string& filter, std::vector<std::string> environment) {
  std::vector<char*> entries;
  for (std::string& entry : environment) entries.push_back(entry.data());
  entries.push_back(nullptr);
  std::string program = "gpu_tests", test_case = filter;
  char* arguments[] = {program.data(), test_case.data(), nullptr};
  const pid_t child = fork();  // between this and exec nothing may be allocated: other threads may hold locks
  if (child != 0) return child;
  execve("/proc/self/exe", arguments, entries.data());
  _exit(127);
}

// Exit status of each process; -1: killed at the limit. No comma in the name: doctest would see two filters.
std::vector<int> start(const char* test_case, int processes, const std::string& way, milliseconds limit) {
  std::vector<pid_t> children;
  std::fflush(stdout);
  const int port = free_port();
  for (int rank = 0; rank < processes; ++rank) {
    children.push_back(start_one(std::string("-tc=") + test_case, environment_of(rank, processes, way, port)));
    REQUIRE(children.back() > 0);
  }
  std::vector<int> status(children.size(), -1);
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (std::size_t i = 0; i < children.size(); ++i) {
    int raw = 0;
    pid_t ended = 0;
    while ((ended = waitpid(children[i], &raw, WNOHANG)) == 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(milliseconds(20));
    if (ended == 0) {
      kill(children[i], SIGKILL);
      waitpid(children[i], &raw, 0);
      continue;
    }
    status[i] = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  }
  return status;
}

std::vector<std::string> ways() {
  std::vector<std::string> all = {"ipc"};
#if defined(A2ASIM_HAS_NCCL)
  const bool is_pretended = std::getenv("A2ASIM_FAKE_GPUS") != nullptr;  // fake_gpu's NCCL knows one process
  if (gpu::usable_devices().value_or(0) >= 2 && !is_pretended) all.push_back("nccl");
#endif
  return all;
}

// In the parent: every process passes, by every way. True: this is the parent, and done.
bool ran_as_parent(const char* test_case) {
  if (is_member()) return false;
  if (skip_without_device()) return true;
  if (launches_are_serial()) {
    skip("launches that meet need to run side by side");
    return true;
  }
  for (const std::string& way : ways()) {
    CAPTURE(way);
    CHECK(start(test_case, 2, way, milliseconds(60'000)) == std::vector<int>{0, 0});
  }
  return true;
}

TEST_CASE("processes: rounds equal the reference") {
  if (ran_as_parent("processes: rounds equal the reference")) return;
  const Member member = join();
  run_rounds(usual_config(8, 4, 32, 60, 256), 61, 3, member.options);
  run_rounds(usual_config(2, 2, 6, 16, 48), 62, 2, member.options);
  World world({usual_config(4, 4, 18, 32, 64)}, member.options);
  run_graphs(world, 63);
}

TEST_CASE("processes: a rank that is masked out") {
  if (ran_as_parent("processes: a rank that is masked out")) return;
  const Member member = join();
  for (const int dead : {0, 3}) {
    AllToAllConfig config = usual_config(4, 4, 23, 12, 32);
    config.active_rank_mask = ~(std::uint64_t{1} << dead);
    World world({config}, member.options);
    world.poison(std::byte{0xff});
    Random random(64);
    for (int round = 0; round < 2; ++round)
      world.round(draw_inputs(random, config, {12, 7, 0, 3}), std::vector<std::int64_t>(4, 12), -1, kUsual);
  }
}

TEST_CASE("processes: the guard catches a disagreement in each of them") {
  if (ran_as_parent("processes: the guard catches a disagreement in each of them")) return;
  const Member member = join();
  const AllToAllConfig config = usual_config(4, 2, 8, 64, 64);
  auto made = gpu::CudaAllToAll::create(std::span(&config, 1), member.options);
  REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
  Random random(65);
  const auto inputs = draw_inputs(random, config, std::vector<std::int64_t>(4, 5));
  std::vector<DispatchInput> own;
  for (const int rank : (*made)->local_ranks())
    own.push_back(view_of(inputs[static_cast<std::size_t>(rank)], rank == 3 ? 16 : 8));
  // By the kernels of this process alone, before the processes tell each other.
  World::ok((*made)->stage(own));
  World::ok((*made)->enqueue_dispatch());
  const auto found = (*made)->finish();
  REQUIRE_FALSE(found.has_value());
  const bool names =
      found.error().message.find("rank 0 has runtime_max_tokens_per_rank 8, rank 3 has 16") != std::string::npos ||
      found.error().message.find("rank 2 has runtime_max_tokens_per_rank 8, rank 3 has 16") != std::string::npos;
  CHECK_MESSAGE(names, found.error().message);
  const auto everywhere = member.group->agree(found);
  CHECK(everywhere.error().message.find("rank 2 has runtime_max_tokens_per_rank 8, rank 3 has 16") !=
        std::string::npos);
  World::ok(member.group->agree({}));

  // A cap that one process alone has: sizes of slices differ, too.
  AllToAllConfig mistaken = config;
  if (member.group->rank() == 1) mistaken.max_num_tokens = 32;
  auto capped = gpu::CudaAllToAll::create(std::span(&mistaken, 1), member.options);
  REQUIRE_MESSAGE(capped.has_value(), (capped ? std::string() : capped.error().message));
  for (DispatchInput& input : own) input.runtime_max_tokens_per_rank = 8;
  const auto cap = (*capped)->dispatch(own);
  REQUIRE_FALSE(cap.has_value());
  CHECK(cap.error().message.find("rank 0 has max_num_tokens 64, rank 2 has 32") != std::string::npos);
  World::ok((*capped)->check_red_zones());
}

TEST_CASE("processes: input that one refuses ends the call in all before any wait") {
  if (ran_as_parent("processes: input that one refuses ends the call in all before any wait")) return;
  const Member member = join();
  const AllToAllConfig config = usual_config(2, 2, 4, 8, 16);
  World world({config}, member.options);
  Random random(66);
  const auto inputs = draw_inputs(random, config, {4, 3});
  std::vector<DispatchInput> views = views_of(inputs, 4);
  views[0].runtime_max_tokens_per_rank = 3;
  const auto begin = std::chrono::steady_clock::now();
  const auto refused = world.device().dispatch(views);
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(5'000));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message ==
        "rank 0: local_num_tokens 4 is not in 0..3, the runtime_max_tokens_per_rank of this call");
  world.compare_slices("a refusal");
  views[0].runtime_max_tokens_per_rank = 4;
  World::ok(world.device().dispatch(views));
}

// Process 1 is killed while process 0 waits for it in a kernel, and in another run between two calls.
TEST_CASE("processes: one is killed and the others end with an error that names it") {
  constexpr const char* name = "processes: one is killed and the others end with an error that names it";
  if (!is_member()) {
    if (skip_without_device()) return;
    for (const std::string& way : ways()) {
      CAPTURE(way);
      CHECK(start(name, 2, way, milliseconds(60'000)) == std::vector<int>{0, 128 + SIGKILL});
    }
    return;
  }
  Member member = join();
  member.options.timeout = milliseconds(1'000);
  const AllToAllConfig config = usual_config(4, 2, 8, 8, 32);
  Random random(67);
  const auto inputs = draw_inputs(random, config, {4, 3, 2, 1});
  auto made = gpu::CudaAllToAll::create(std::span(&config, 1), member.options);
  REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
  std::vector<DispatchInput> own;
  for (const int rank : (*made)->local_ranks()) own.push_back(view_of(inputs[static_cast<std::size_t>(rank)], 8));
  World::ok((*made)->dispatch(own));
  World::ok((*made)->experts(kUsual));
  if (member.group->rank() == 1) kill(getpid(), SIGKILL);
  // The kernels' own wait: nobody tells them.
  const auto begin = std::chrono::steady_clock::now();
  World::ok((*made)->enqueue_combine());
  const auto late = (*made)->finish();
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().message.find("combine timed out after 1000 ms: rank 0 waits for rank 2") != std::string::npos);
  CHECK(late.error().message.find("rank 1 waits for rank 3") != std::string::npos);
  const auto next = (*made)->dispatch(own);
  REQUIRE_FALSE(next.has_value());
  CHECK(member.group->barrier().error().message == "process 1 has left: it ended or was killed");
  CHECK(std::chrono::steady_clock::now() - begin < milliseconds(10'000));
  made->reset();
  // The device is still of use.
  gpu::CudaOptions alone;
  alone.devices = {member.options.devices[0]};
  run_rounds(config, 68, 1, alone);
}

}  // namespace
}  // namespace a2asim::test
