#include "model/engines/vllm/generation.h"
#include "tests/vllm/vllm.h"

using namespace a2asim;
using test::vllm_engine;

static std::string found(std::string_view text) {
  const auto match = vllm_engine().find_version(text);
  return match ? std::string(match->version->name) : match.error().message;
}

TEST_CASE("vllm: a version is found by change, date and release") {
  CHECK(found("pr34102") == "pr34102");
  CHECK(found("#34102") == "pr34102");
  CHECK(found("2026-03-06") == "pr36165");
  CHECK(found("2026-03-05") == "pr34102");
  CHECK(found("v0.9.0.1") == "v0.9.0");
  CHECK(found("v0.20.0") == "pr39959");
  CHECK(found("newest") == "main20260817");
  CHECK(found("before39107") == found("2026-04-13"));  // the version in force before a change
  CHECK(found("pr12").find("is no generation known here") != std::string::npos);
}

TEST_CASE("vllm: every version differs from the one before and stands in the order of dates") {
  const auto all = vllm::generations();
  REQUIRE(all.size() > 40);
  for (std::size_t i = 1; i < all.size(); ++i) {
    CAPTURE(all[i].name);
    CHECK(all[i - 1].date <= all[i].date);
    CHECK(all[i].name != all[i - 1].name);
    CHECK_FALSE(all[i].changed.empty());
  }
}
