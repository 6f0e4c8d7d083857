// The launches of tests/data/trtllm_launches.json, each with the verdict that it must give.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/trtllm/trtllm_launch.h"

namespace a2asim {

using nlohmann::json;

TEST_CASE("trtllm: every launch gives its verdict") {
  std::ifstream in(A2ASIM_SOURCE_DIR "/tests/data/trtllm_launches.json");
  REQUIRE(in);
  const json launches = json::parse(in);
  CHECK(launches.size() >= 28);
  for (const json& one : launches) {
    CAPTURE(one["id"].get<std::string>());
    test::TrtllmLaunch launch{.version = one["version"], .command = one["command"], .config = one["config"].dump()};
    launch.nvlink_domain =
        one.contains("nvlink_domain") ? std::optional(one["nvlink_domain"].get<std::int64_t>()) : std::nullopt;
    launch.model.reset();
    if (one.contains("model"))
      launch.model = ModelShape{one["model"]["num_experts"], one["model"]["top_k"], one["model"]["hidden_size"]};
    for (const auto& [name, value] : one["env"].items()) launch.env_name = name, launch.env_value = value;
    const CheckReport report = check_deployment(*test::deploy(launch));
    CHECK(name(report.verdict) == one["verdict"].get<std::string>());
    if (report.verdict == Verdict::disagrees || report.verdict == Verdict::over_capacity) {
      CHECK(report.findings.front().witness.has_value());
      CHECK_FALSE(report.findings.front().fix.empty());
    }
  }
}

}  // namespace a2asim
