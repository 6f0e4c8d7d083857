// A plan under each release by its name, and the captions of its page.
#include <doctest/doctest.h>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

Outcome plan_of(std::vector<std::string> more) {
  more.insert(more.begin(),
              {"plan", "--num-experts", "8", "--top-k", "2", "--hidden-size", "64", "--tokens", "16", "--ep", "4"});
  return run(more);
}

}  // namespace

TEST_CASE("plan: every release of SGLang has a plan under its own name") {
  for (const char* release : {"v0.5.9", "v0.5.11", "v0.5.12", "v0.5.13.post1", "v0.5.14", "v0.5.15", "v0.5.16",
                              "v0.5.17", "v0.5.18", "v0.5.19", "v0.5.20"}) {
    CAPTURE(release);
    const Outcome outcome = plan_of({"--sglang", release});
    CHECK(outcome.exit_code == kNothingWrong);
    CHECK(contains(outcome.out, std::string("sglang ") + release + " ("));
  }
  // The option that says MXFP8 came with v0.5.20.
  CHECK(plan_of({"--sglang", "v0.5.19", "--dispatch-dtype", "mxfp8"}).exit_code == kUnusableInput);
  CHECK(plan_of({"--sglang", "v0.5.20", "--dispatch-dtype", "mxfp8"}).exit_code == kNothingWrong);
}

TEST_CASE("plan: the page says what is taken of each GPU beside the workspace") {
  const std::string before = "<figcaption>After the workspace", behind = "</figcaption>";
  const TemporaryFile page("plan.html");
  const auto caption = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--report", page.path});
    plan_of(more);
    const std::string text = page.text();
    const std::size_t at = text.find(before) + before.size();
    return text.substr(at, text.find(behind, at) - at);
  };
  CHECK(caption({}) == "; the model&#39;s weights are not counted");
  CHECK_FALSE(contains(page.text(), "<figcaption>Least time per step</figcaption>"));
  CHECK(caption({"--weights", "80"}) == ", 80 GiB of weights");
  CHECK(caption({"--other", "20.5"}) == ", 20.5 GiB of other things; the model&#39;s weights are not counted");
  CHECK(caption({"--weights", "8", "--other", "2", "--link-gbps", "400"}) ==
        ", 8 GiB of weights, 2 GiB of other things");
  CHECK(contains(page.text(), "<figcaption>Least time per step</figcaption>"));
}

}  // namespace a2asim
