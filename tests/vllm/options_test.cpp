#include "tests/vllm/vllm.h"

using namespace a2asim;
using test::check_vllm;
using test::deploy_vllm;

static Topology topology_of(std::string_view command) { return check_vllm("v0.12.0", command).topology; }

TEST_CASE("vllm: front ends, short names and underscores mean the same") {
  for (const std::string_view command :
       {"vllm serve M --tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel",
        "vllm serve M -tp 2 -dp 4 --enable_expert_parallel", "vllm serve M -tp=2 -dp=4 -ep",
        "python3 -m vllm.entrypoints.openai.api_server --model M -tp 2 -dp 4 --enable-expert-parallel",
        "python -m dynamo.vllm --model M --tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel"}) {
    CAPTURE(command);
    const Topology t = topology_of(command);
    CHECK(t.dp_size == 4);
    CHECK(t.ep_size == 8);
    CHECK(t.named_tp_size() == 2);
  }
}

TEST_CASE("vllm: dotted names and JSON reach the same field") {
  for (const std::string_view mode :
       {"--compilation-config '{\"cudagraph_mode\": \"FULL_DECODE_ONLY\"}'",
        "--compilation-config.cudagraph_mode FULL_DECODE_ONLY", "-O.cudagraph_mode=FULL_DECODE_ONLY"}) {
    CAPTURE(mode);
    const auto report = check_vllm("v0.12.0", "vllm serve M -dp 4 --enable-expert-parallel " + std::string(mode));
    CHECK(report.verdict == Verdict::rejected);  // its window; the default mode has none in this version
  }
  CHECK(check_vllm("v0.12.0", "vllm serve M -dp 4 --enable-expert-parallel").verdict != Verdict::rejected);
}

TEST_CASE("vllm: an option that no version has, or this one does not, is refused by the parser") {
  for (const std::string_view command :
       {"vllm serve M --no-such-option 3", "vllm serve M --data-parallel-size four",
        "vllm serve M --all2all-backend no_such", "vllm serve M --tensor-parallel-size"}) {
    CAPTURE(command);
    const auto deployed = deploy_vllm("v0.20.0", command);
    const bool is_refused = !deployed || deployed->refused || !deployed->deployment->rejections.empty();
    CHECK(is_refused);
  }
}
