#include "tests/conformance/backend.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "sim/alltoall/sim_alltoall.h"
#include "tests/main/skip.h"

namespace a2asim::conformance {
namespace {

struct Skip {
  std::string why;
};

Result<std::unique_ptr<AllToAll>> make_simulated(const std::vector<AllToAllConfig>& configs, bool) {
  auto made = SimAllToAll::create(configs, {});
  if (!made) return tl::unexpected(made.error());
  return std::unique_ptr<AllToAll>(std::move(*made));
}

}  // namespace

std::vector<Backend>& backends() {
  static std::vector<Backend> all = {{"sim", make_simulated}};
  return all;
}

bool add_backend(Backend backend) {
  backends().push_back(std::move(backend));
  return true;
}

void run(const std::string& name, Body body) {
  const auto found =
      std::find_if(backends().begin(), backends().end(), [&](const Backend& b) { return b.name == name; });
  try {
    if (found == backends().end()) throw Skip{"no " + name + " backend was built into this program"};
    body(*found);
  } catch (const Skip& skip) {
    test::skip(skip.why);
  }
}

std::unique_ptr<AllToAll> make(const Backend& backend, const std::vector<AllToAllConfig>& configs, bool guard) {
  auto made = backend.make(configs, guard);
  constexpr std::string_view mark = "SKIPPED: ";
  if (!made && made.error().message.starts_with(mark)) throw Skip{made.error().message.substr(mark.size())};
  REQUIRE_MESSAGE(made.has_value(), made.error().message);
  return std::move(*made);
}

}  // namespace a2asim::conformance
