// The backends that a person can name: what each says of itself, and for how long its ranks wait.
#include "tools/backends/backends.h"

#include <doctest/doctest.h>

#include "sim/conformance/suite.h"
#include "tools/backends/builtin_table.h"

namespace a2asim {
namespace {

TEST_CASE("backends: the simulator by its name, and what it can") {
  const auto found = find_backend("sim", {});
  REQUIRE(found.has_value());
  CHECK(found->name == "sim");
  CHECK(found->reports);
  CHECK(found->short_timeout_ms == 300);
  CHECK(found->capabilities == simulator_capabilities());
  for (int i = 0; i < kCapabilities; ++i) {
    const auto one = static_cast<Capability>(i);
    const bool lacks = one == Capability::guard || one == Capability::refusals || one == Capability::bounded_waits;
    CHECK(found->capabilities.has(one) == !lacks);
  }
  BackendOptions options;
  options.cuda.short_timeout = std::chrono::milliseconds(7);
  CHECK(find_backend("sim", options)->short_timeout_ms == 7);
}

TEST_CASE("backends: defaults of the options that the help names") {
  const CudaDeviceOptions cuda;
  CHECK(cuda.ranks_per_gpu == 0);
  CHECK(cuda.gpus == 0);
  CHECK(cuda.peer_memory == "auto");
  CHECK(cuda.short_timeout == std::chrono::milliseconds(300));
  CHECK(cuda.join_timeout == std::chrono::seconds(30));
  CHECK(kUsualTimeout_ms == 10'000);
  CHECK(PluginLimits{}.call == std::chrono::seconds(60));
}

TEST_CASE("backends: a name that is none, and a path that leads nowhere") {
  const auto refusal = [](const std::string& name) {
    const auto found = find_backend(name, {});
    REQUIRE_FALSE(found.has_value());
    CHECK(found.error().kind == ErrorKind::bad_input);
    return found.error().message;
  };
  CHECK(refusal("tpu") == "--backend tpu: give sim, cuda, or the path of a plug-in such as ./libmine.so");
  CHECK(refusal("") == "--backend : give sim, cuda, or the path of a plug-in such as ./libmine.so");
  CHECK(refusal("libnone.so") == "plug-in libnone.so: No such file or directory");
  CHECK(refusal("/nowhere/x") == "plug-in /nowhere/x: No such file or directory");
}

TEST_CASE("backends: a device of the simulator drives all ranks, or is refused") {
  const auto found = find_backend("sim", {});
  REQUIRE(found.has_value());
  const MakeDevice make = found->make_device();
  const std::vector<AllToAllConfig> configs(2, conformance::usual_config(2, 4, 8, 1, 2));
  const auto device = make({configs, false, {}, false});
  REQUIRE_MESSAGE(device.has_value(), (device ? "" : device.error().message));
  CHECK((*device)->all_to_all().local_ranks().size() == 2);
  CHECK((*device)->check_red_zones().has_value());
  const auto half = make({configs, false, {0}, true});
  REQUIRE_FALSE(half.has_value());
  CHECK(half.error().message == "the simulator drives all ranks of a group, or none");
  CHECK(half.error().kind == ErrorKind::bad_input);
}

}  // namespace
}  // namespace a2asim
