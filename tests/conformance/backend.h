// The backends that the conformance suite runs over, and how one joins.
//
// The suite is written once, over the interface of model/alltoall/alltoall.h. The simulated arm always runs. The CUDA
// arm runs where a file of this folder (or of gpu's tests) says, once, at namespace scope:
//   static const bool registered = a2asim::conformance::add_backend({"cuda", make});
// and is otherwise a counted skip with its reason.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/alltoall/alltoall.h"

namespace a2asim::conformance {

struct Backend {
  std::string name;
  // One config a rank, all ranks local. guard: a backend may refuse ranks that disagree; without it, it does what the
  // published kernels do. An error that begins with "SKIPPED: " skips the test (no device, too few GPUs).
  std::function<Result<std::unique_ptr<AllToAll>>(const std::vector<AllToAllConfig>& configs, bool guard)> make;
};

// In the order in which they joined; names are unique.
std::vector<Backend>& backends();
bool add_backend(Backend backend);

using Body = void (*)(const Backend&);
// Runs the body over this backend, or prints why not.
void run(const std::string& backend, Body body);

// The backend for these configs; ends the test if there is none.
std::unique_ptr<AllToAll> make(const Backend& backend, const std::vector<AllToAllConfig>& configs, bool guard = true);

}  // namespace a2asim::conformance

#define A2ASIM_CONFORMANCE_JOIN2(a, b) a##b
#define A2ASIM_CONFORMANCE_JOIN(a, b) A2ASIM_CONFORMANCE_JOIN2(a, b)
#define A2ASIM_CONFORMANCE_BODY A2ASIM_CONFORMANCE_JOIN(conformance_body_, __LINE__)
// Several GPUs: test cases only where there could be some, so that a build without CUDA does not list them.
#ifdef A2ASIM_HAS_CUDA
#define A2ASIM_CONFORMANCE_GPUS(title, number)                                   \
  TEST_CASE("conformance cuda " number " GPUs: " title) {                        \
    ::a2asim::conformance::run("cuda " number " GPUs", A2ASIM_CONFORMANCE_BODY); \
  }
#else
#define A2ASIM_CONFORMANCE_GPUS(title, number)
#endif
// One test case per backend of one body: CONFORMANCE_TEST("name") { .. uses `backend` .. }
#define CONFORMANCE_TEST(title)                                                                          \
  static void A2ASIM_CONFORMANCE_BODY(const ::a2asim::conformance::Backend& backend);                    \
  TEST_CASE("conformance sim: " title) { ::a2asim::conformance::run("sim", A2ASIM_CONFORMANCE_BODY); }   \
  TEST_CASE("conformance cuda: " title) { ::a2asim::conformance::run("cuda", A2ASIM_CONFORMANCE_BODY); } \
  A2ASIM_CONFORMANCE_GPUS(title, "2")                                                                    \
  A2ASIM_CONFORMANCE_GPUS(title, "4")                                                                    \
  A2ASIM_CONFORMANCE_GPUS(title, "8")                                                                    \
  static void A2ASIM_CONFORMANCE_BODY([[maybe_unused]] const ::a2asim::conformance::Backend& backend)
