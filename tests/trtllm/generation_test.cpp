#include "model/engines/trtllm/generation.h"

#include <doctest/doctest.h>

namespace a2asim::trtllm {
namespace {

std::string_view found(std::string_view text) {
  const auto match = find_generation(text);
  return match ? match->version->name : "none";
}

}  // namespace

TEST_CASE("trtllm: a version is found by name, change, release, image and date") {
  CHECK(found("newest") == "t14");
  CHECK(found("T9") == "t9");
  CHECK(found("16745") == "t10");
  CHECK(found("#16745") == "t10");
  CHECK(found("pr8950") == "t1");  // a later change of the same state
  CHECK(found("before16745") == "t9");
  CHECK(found("before #12666") == "t5");
  CHECK(found("main before #18308") == "t11");
  CHECK(found("t3 or later") == "t3");
  CHECK(found("1.3.0rc21") == "t9");
  CHECK(found("v1.2.0") == "t4");
  CHECK(found("1.2.0rc5") == "t3");  // the nearest release that is not newer
  CHECK(found("nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc24") == "t11");
  CHECK(found("nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:0.8.1.post3") == "t4");
  CHECK(found("2025-07-10") == "w1");
  CHECK(found("2026-12-01") == "t14");
  CHECK(find_generation("2024-01-01")->is_older);
  CHECK(find_generation("0.9.0")->is_older);
  for (const char* bad : {"", "t99", "99999", "9.9", "1.3.0rc99", "2026-13-01", "latest!", "before"}) {
    CAPTURE(bad);
    CHECK(found(bad) == "none");
  }
}

TEST_CASE("trtllm: a release says that it is placed by its date, and a hazard ends with the version that fixes it") {
  CHECK(find_generation("1.3.0rc21")->note.find("placed by its date") != std::string::npos);
  const auto& old = as_generation(*find_generation("t6")->version);
  const auto& now = newest_generation();
  CHECK(hazards_of(old).size() > hazards_of(now).size());
  CHECK(hazards_of(now).size() == 1);
}

}  // namespace a2asim::trtllm
