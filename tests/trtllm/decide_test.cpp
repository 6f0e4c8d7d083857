#include <algorithm>

#include "model/step/judgement.h"
#include "tests/trtllm/trtllm_launch.h"

namespace a2asim {
namespace {

using test::deploy;
using test::TrtllmLaunch;
using Batches = std::vector<RankBatch>;

TrtllmLaunch four(std::string version, std::string config) {
  return {.version = std::move(version),
          .command = "trtllm-serve M --tp_size 4 --ep_size 4 --max_num_tokens 64 --config c.yml",
          .config = "enable_attention_dp: true\n" + std::move(config),
          .model = ModelShape{16, 2, 64}};
}

Batches decode(std::initializer_list<std::int64_t> requests) {
  Batches out;
  for (const std::int64_t count : requests) out.push_back({ForwardMode::decode, count});
  return out;
}

Batches prefill(std::initializer_list<std::int64_t> tokens) {
  Batches out;
  for (const std::int64_t count : tokens) out.push_back({ForwardMode::extend, count});
  return out;
}

std::vector<std::int64_t> sizes(std::span<const RankDecision> decisions) {
  std::vector<std::int64_t> out;
  for (const RankDecision& rank : decisions) out.push_back(rank.sizing.runtime_max_tokens_per_rank);
  return out;
}

Judgement judged(Decider& decider, const Deployment& deployment, const Batches& batches,
                 std::span<const RankFault> faults = {}) {
  const auto decisions = decider.decide(batches, GraphChoice::engine, faults);
  Judgement said = judge({.decisions = decisions, .max_num_tokens = deployment.max_num_tokens});
  judge_gather(said, decider, decisions.size());
  return said;
}

}  // namespace

TEST_CASE("trtllm: R is the largest count, and a rank without work brings one token") {
  const auto deployment = deploy(four("newest", "cuda_graph_config: null"));
  const auto decider = deployment->make_decider();
  const auto decisions = decider->decide(decode({5, 0, 2, 1}));
  CHECK(sizes(decisions) == std::vector<std::int64_t>{5, 5, 5, 5});
  CHECK(decisions[1].rows == 1);
  CHECK(decisions[1].real_rows == 0);
  CHECK(deployment->backend == "NVLinkOneSided");
}

// CudaGraphConfig: 1 to 32, 64 and 128 requests, or 1, 2, 4 and every 8th with padding; then on to max_batch_size.
TEST_CASE("trtllm: the sizes of graphs that no option names") {
  const auto captured = [](const std::string& graphs, const std::string& version = "newest") {
    TrtllmLaunch launch = four(version, "max_batch_size: 2048\ncuda_graph_config: {" + graphs + "}");
    launch.command = "trtllm-serve M --tp_size 4 --ep_size 4 --max_num_tokens 8192 --config c.yml";
    return deploy(launch)->capture_bs;
  };
  std::vector<std::int64_t> each, eighth = {1, 2, 4};
  for (std::int64_t size = 1; size <= 32; ++size) each.push_back(size);
  for (std::int64_t size = 8; size <= 128; size += 8) eighth.push_back(size);
  CHECK(captured("enable_padding: true") == eighth);
  eighth.push_back(129);
  CHECK(captured("enable_padding: true, max_batch_size: 129") == eighth);
  CHECK(captured("enable_padding: false, max_batch_size: 32") == each);
  each.push_back(33);
  CHECK(captured("enable_padding: false, max_batch_size: 33") == each);
  each.back() = 64;
  CHECK(captured("enable_padding: false, max_batch_size: 64") == each);
  each.push_back(128);
  CHECK(captured("enable_padding: false") == each);
  CHECK(captured("enable_padding: false, max_batch_size: 128") == each);
  CHECK(captured("enable_padding: false, max_batch_size: 3") == std::vector<std::int64_t>{1, 2, 3});
}

TEST_CASE("trtllm: all ranks replay the same graph, or none does") {
  const auto padded = deploy(four("newest", "cuda_graph_config: {batch_sizes: [1, 4, 8], enable_padding: true}"));
  const auto decider = padded->make_decider();
  for (const RankDecision& rank : decider->decide(decode({3, 1, 2, 0}))) {
    CHECK(rank.replay);
    CHECK(rank.bucket == 4);
    CHECK(rank.sizing.runtime_max_tokens_per_rank == 4);
  }
  const auto eager = decider->decide(Batches{{ForwardMode::extend, 5}, {ForwardMode::decode, 1}, {}, {}});
  CHECK(std::ranges::none_of(eager, &RankDecision::replay));

  const auto exact = deploy(four("newest", "cuda_graph_config: {batch_sizes: [1, 2, 4]}"));
  const auto alone = exact->make_decider();
  CHECK(std::ranges::none_of(alone->decide(decode({2, 1, 2, 2})), &RankDecision::replay));
  CHECK(std::ranges::all_of(alone->decide(decode({2, 2, 2, 2})), &RankDecision::replay));
}

TEST_CASE("trtllm: a speculative decode counts its draft tokens, and buckets end where tokens do") {
  const auto deployment = deploy(four("newest",
                                      "speculative_config: {decoding_type: MTP, max_draft_len: 3}\n"
                                      "cuda_graph_config: {batch_sizes: [1, 8, 32], enable_padding: true}"));
  CHECK(deployment->capture_bs == std::vector<std::int64_t>{1, 8, 16});  // 64 / (1 + 3)
  const auto decider = deployment->make_decider();
  Batches batches(4, {ForwardMode::target_verify, 5});
  CHECK(decider->decide(batches)[0].sizing.runtime_max_tokens_per_rank == 32);
}

TEST_CASE(
    "trtllm: own-entry patches of empty chunks deadlock the all-gather until #16745, and never the NVLink lanes") {
  const std::string chunks = "moe_config: {max_num_tokens: 64}";
  for (const auto& [version, domain, expected] :
       {std::tuple{"t9", 2, Verdict::disagrees}, {"t10", 2, Verdict::agrees}, {"t9", 8, Verdict::agrees}}) {
    CAPTURE(version);
    CAPTURE(domain);
    TrtllmLaunch launch = four(version, chunks);
    launch.nvlink_domain = domain;
    const auto deployment = deploy(launch);
    const auto decider = deployment->make_decider();
    const Judgement said = judged(*decider, *deployment, prefill({64, 1, 1, 1}));
    CHECK(said.verdict == expected);
    CHECK(said.gathering.empty() == (domain == 8));
  }
}

TEST_CASE("trtllm: the low-latency limit on own rows splits the ranks until #6173") {
  for (const auto& [version, expected] : {std::pair{"w1", Verdict::disagrees}, {"w2", Verdict::agrees}}) {
    TrtllmLaunch launch = four(version, "moe_config: {backend: WIDEEP}\ncuda_graph_config: null");
    launch.command = "TRTLLM_FORCE_ALLTOALL_METHOD=DeepEPLowLatency TRTLLM_DEEP_EP_TOKEN_LIMIT=16 " + launch.command;
    const auto deployment = deploy(launch);
    const auto decider = deployment->make_decider();
    CHECK(judged(*decider, *deployment, prefill({17, 3, 3, 3})).verdict == expected);
    CHECK(judged(*decider, *deployment, prefill({16, 3, 3, 3})).verdict == Verdict::agrees);
    CHECK(has(check_deployment(*deployment), FindingKind::geometry_disagreement) == (expected == Verdict::disagrees));
  }
}

TEST_CASE("trtllm: a rank without rows and several chunks raises alone, until all ranks pad") {
  for (const auto& [version, raises] : {std::pair{"t10", true}, {"t10b", false}}) {
    const auto deployment = deploy(four(version, "moe_config: {max_num_tokens: 64}"));
    const auto decider = deployment->make_decider();
    std::vector<RankFault> faults(4);
    faults[2].mode = ForwardMode::idle;
    const auto batches = Batches{{ForwardMode::extend, 64}, {ForwardMode::extend, 9}, {}, {ForwardMode::extend, 9}};
    const Judgement said = judged(*decider, *deployment, batches, faults);
    CHECK(said.refused.contains(2) == raises);
    CHECK(said.verdict == (raises ? Verdict::disagrees : Verdict::agrees));
  }
}

TEST_CASE("trtllm: faults of one rank's list make its size differ") {
  const auto deployment = deploy(four("newest", "cuda_graph_config: null"));
  const auto decider = deployment->make_decider();
  std::vector<RankFault> faults(4);
  faults[1].corrupt_counts = {{0, 50}};
  CHECK(judged(*decider, *deployment, decode({5, 1, 1, 1}), faults).verdict == Verdict::disagrees);
  faults[1] = RankFault{};
  faults[1].skip_all_gather = true;
  CHECK(judged(*decider, *deployment, decode({5, 1, 1, 1}), faults).verdict == Verdict::disagrees);
  faults[1] = RankFault{};
  faults[1].absent = true;
  CHECK_FALSE(decider->decide(decode({5, 1, 1, 1}), GraphChoice::engine, faults)[1].participates);
}

TEST_CASE("trtllm: a variable that one rank has not splits methods or sizes") {
  TrtllmLaunch launch = four("newest", "");
  launch.env_name = "TRTLLM_FORCE_COMM_METHOD";
  launch.env_value = "ALLGATHER on rank 3 only";
  const CheckReport split = check_deployment(*deploy(launch));
  CHECK(split.verdict == Verdict::disagrees);
  launch.env_name = "TRTLLM_MOE_A2A_WORKSPACE_MB";
  launch.env_value = "64 on ranks 1..2 only";
  const CheckReport sizes = check_deployment(*deploy(launch));
  CHECK(sizes.verdict == Verdict::rejected);
  CHECK(test::mentions(sizes, "Not all rank allocating same size."));
}

TEST_CASE("trtllm: variables that a version does not read are warnings, and say so") {
  TrtllmLaunch launch = four("newest", "");
  launch.env_name = "TRTLLM_FORCE_ALLTOALL_METHOD";
  launch.env_value = "DeepEP";
  CHECK(test::mentions(check_deployment(*deploy(launch)), "TRTLLM_FORCE_ALLTOALL_METHOD has no effect"));
  launch.version = "1.1.0";
  launch.config += "\nmoe_config: {backend: WIDEEP}";
  CHECK(test::mentions(check_deployment(*deploy(launch)), "TRTLLM_FORCE_ALLTOALL_METHOD=DeepEP is read"));
}

TEST_CASE("trtllm: start-up refusals") {
  const auto verdict = [](TrtllmLaunch launch) { return check_deployment(*deploy(launch)).verdict; };
  CHECK(verdict(four("newest", "moe_config: {backend: WIDEEP}")) == Verdict::rejected);
  CHECK(verdict(four("newest", "orchestrator_type: ray")) == Verdict::agrees);
  CHECK(verdict(four("t11", "orchestrator_type: ray")) == Verdict::rejected);
  CHECK(verdict(four("newest", "cuda_graph_config: {batch_sizes: [1, 2], max_batch_size: 64}")) == Verdict::rejected);
  TrtllmLaunch launch = four("newest", "");
  launch.model = ModelShape{16, 3, 64};
  CHECK(verdict(launch) == Verdict::rejected);  // the kernels have no top_k 3
  launch = four("newest", "");
  launch.env_name = "TRTLLM_FORCE_COMM_METHOD";
  launch.env_value = "NOSUCH";
  CHECK(verdict(launch) == Verdict::rejected);
  launch.env_value = "NVLINK_ONE_SIDED";
  launch.nvlink_domain = 2;
  CHECK(verdict(launch) == Verdict::rejected);
}

}  // namespace a2asim
