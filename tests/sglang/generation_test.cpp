#include "model/engines/sglang/generation.h"

#include <doctest/doctest.h>

using namespace a2asim;

namespace {
std::string found(std::string_view text) {
  const auto match = find_generation(text);
  return match ? std::string(match->generation->name) : "error: " + match.error().message;
}
}  // namespace

TEST_CASE("generations are in order of date, and the newest is the default") {
  for (std::size_t i = 1; i < generations().size(); ++i) CHECK(generations()[i - 1].date < generations()[i].date);
  CHECK(generations().size() == 12);
  CHECK(found("newest") == "v0.5.20");
}

TEST_CASE("a generation is found by PR in every spelling") {
  CHECK(found("pr30450") == "pr30450");
  CHECK(found("PR30450") == "pr30450");
  CHECK(found("30450") == "pr30450");
  CHECK(found("#30450") == "pr30450");
  CHECK(found("main20260823") == "main20260823");
}

TEST_CASE("a date gives the generation in force that day") {
  CHECK(found("2026-01-24") == "pr14668");
  CHECK(found("2026-06-11") == "pr26643");
  CHECK(found("2026-06-12") == "pr27945");
  CHECK(found("2026-06-20") == "pr27945");
  CHECK(found("2026-08-22") == "pr30450");
  CHECK(found("2026-09-17") == "pr35758");
  CHECK(found("2026-11-01") == "v0.5.20");
  CHECK_FALSE(find_generation("2026-11-01")->note.empty());  // #39818 is not modelled
}

TEST_CASE("before #14668 there is no FlashInfer dispatcher") {
  CHECK_FALSE(find_generation("2026-01-23")->has_flashinfer_dispatcher);
  CHECK_FALSE(find_generation("v0.5.8")->has_flashinfer_dispatcher);
  CHECK(find_generation("v0.5.9")->has_flashinfer_dispatcher);
}

TEST_CASE("a release gives the newest generation in its history") {
  CHECK(found("v0.5.11") == "pr14668");
  CHECK(found("0.5.12.post1") == "pr24850");
  CHECK(found("v0.5.13") == "pr26643");
  CHECK(found("v0.5.15") == "pr22394");
  CHECK(found("v0.5.16") == "pr30450");
  CHECK(found("v0.5.19") == "pr35758");
  CHECK(found("0.5.20") == "v0.5.20");
  CHECK(found("v0.5.14") == "pr27945");
  CHECK(found("v0.5.15.post1") == "pr22394");
  CHECK(find_generation("v0.5.15")->note.empty());
}

TEST_CASE("what is not known is an error that says what to give instead") {
  for (const char* text : {"v0.5.99", "v0.6.0", "pr1", "", "2026-13-01", "2026-02-30", "yesterday", "v"}) {
    CAPTURE(text);
    const auto match = find_generation(text);
    REQUIRE_FALSE(match.has_value());
    CHECK(match.error().kind == ErrorKind::bad_input);
    CHECK(match.error().message.find("a date") != std::string::npos);
  }
}

TEST_CASE("v0.5.20 has the sizes of the version before, and options of its own") {
  const Generation& own = *find_generation("v0.5.20")->generation;
  const Generation& before = *find_generation("v0.5.19")->generation;
  CHECK((own.sizing == before.sizing));
  CHECK(limits(own.capacity.flashinfer).tag == "v0.6.18");
  for (const std::string_view option : {"--stream-output", "--prefill-round-robin-balance", "--prefill-cp-mode"}) {
    CHECK(option_set(before.options).find(option) != nullptr);
    CHECK(option_set(own.options).find(option) == nullptr);
  }
  CHECK(option_set(own.options).find("--flashinfer-a2a-dispatch-type") != nullptr);
  CHECK(option_set(own.options).find("--disable-cuda-graph") != nullptr);
  CHECK(option_set(own.options).find("--sampling-mask-max-tokens") != nullptr);
}
