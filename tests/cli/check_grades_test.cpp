// What check makes of a limit beyond the memory, and of an option that only other releases have.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/launches.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

TEST_CASE("check: a request limit beyond the memory is a warning that says where it begins, in every format") {
  const std::string server =
      "sglang serve --model-path M --tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep --disable-cuda-graph "
      "--disaggregation-mode decode --max-running-requests ";
  const auto check = [&](std::vector<std::string> options, const std::string& limit) {
    options.insert(options.begin(), {"check", "--sglang", "v0.5.16"});
    options.insert(options.end(), {"--", server + limit});
    return run(options);
  };
  CHECK(check({}, "8192").exit_code == 1);
  const Outcome graded = check({}, "30000");
  CHECK(graded.exit_code == 0);
  CHECK(contains(graded.out, "AGREES: no batch found for which buffer sizes differ or exceed the cap below what the"));
  CHECK(contains(graded.out, "from 129 running requests per replica on"));
  CHECK(contains(graded.out, "set --max-running-requests to at most 128 times dp_size"));
  CHECK(check({"--strict"}, "30000").exit_code == 1);
  const json report = json::parse(check({"--format", "json"}, "30000").out);
  CHECK(report["verdict"] == "agrees");
  CHECK(report["findings"][0]["severity"] == "warning");
  CHECK(contains(report["findings"][0]["message"].get<std::string>(), "the limit of 3750 admits as many"));
  CHECK_FALSE(contains(check({}, "512").out, "below what the warning names"));
}

TEST_CASE("check: an option that only other releases have stops the server, and the release that has it is named") {
  const auto said = [](const std::string& version, const std::string& option) {
    const Outcome outcome = run({"check", "--sglang", version, "--", kAgreeing + " " + option});
    return std::to_string(outcome.exit_code) + " " + outcome.out + outcome.err;
  };
  const std::string dispatch = "--flashinfer-a2a-dispatch-type mxfp8";
  for (const char* before : {"v0.5.16", "v0.5.17", "v0.5.19"}) {
    CAPTURE(before);
    const std::string text = said(before, dispatch);
    CHECK(text.starts_with("1 "));
    CHECK(contains(text, "unrecognized arguments: --flashinfer-a2a-dispatch-type"));
    CHECK(contains(text, "remove --flashinfer-a2a-dispatch-type mxfp8, or upgrade to v0.5.20"));
    CHECK_FALSE(contains(text, "35758)"));
  }
  for (const char* with : {"v0.5.20", "newest", "pr35758"}) CHECK(said(with, dispatch).starts_with("0 "));
  CHECK(contains(said("v0.5.18", "--deepep-v2-mode hybrid"), "upgrade to v0.5.19 (which has"));
  // v0.5.20 has dropped it.
  CHECK(said("v0.5.19", "--prefill-round-robin-balance").starts_with("0 "));
  const std::string gone = said("v0.5.20", "--prefill-round-robin-balance");
  CHECK(gone.starts_with("1 "));
  CHECK(contains(gone, "unrecognized arguments: --prefill-round-robin-balance"));
  CHECK(contains(said("v0.5.19", "--no-such 1"), "is no option of SGLang that is known up to v0.5.19 (2026-08-28)"));
}

}  // namespace
}  // namespace a2asim
