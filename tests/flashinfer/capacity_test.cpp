#include "model/flashinfer/capacity.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <numeric>

using namespace a2asim;

namespace {

constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr CapacityRules kJanuary{FlashInferVersion::v0_6_1, max_num_tokens_pr14668};
constexpr CapacityRules kJuly{FlashInferVersion::v0_6_12, max_num_tokens_pr26643};
constexpr CapacityRules kNewest{FlashInferVersion::v0_6_17, max_num_tokens_pr26643, true};

CapacityInputs deepseek(int ep_size) {
  CapacityInputs inputs;
  inputs.ep_size = ep_size;
  inputs.hidden_size = 7168;
  inputs.top_k = 8;
  return inputs;
}

constexpr std::array<Payload, 3> kBf16Payloads{{{7168, 2}, {8, 4}, {8, 4}}};

DispatchCall good_call() {
  DispatchCall call;
  call.ep_size = 8;
  call.runtime_max_tokens_per_rank = 128;
  call.max_num_tokens = 128;
  call.workspace_bytes_per_rank = 29448576;
  call.top_k = 8;
  call.num_experts = 256;
  call.payloads = kBf16Payloads;
  return call;
}

std::string failed_check(FlashInferVersion version, const DispatchCall& call) {
  const auto answer = check_dispatch_op(limits(version), call);
  if (answer) return "";
  CHECK(answer.error().kind == ErrorKind::runtime_error);
  return answer.error().message;
}

}  // namespace

TEST_CASE("capacity: the environment variable is read as Python reads it") {
  const auto cap = [](std::optional<std::string_view> env) { return max_num_tokens_pr26643(env, 8192, 4); };
  CHECK(cap("0") == 0);
  CHECK(cap("-1") == -1);
  CHECK(cap(" 512 ") == 512);
  CHECK(cap("1_024") == 1024);
  CHECK(cap("abc") == 8192);
  CHECK(cap("") == 8192);
  CHECK(cap("1.5") == 8192);
  CHECK(cap(std::nullopt) == 8192);
  CHECK(cap("99999999999999999999") == kInt64Max);
}

TEST_CASE("capacity: the cap was multiplied by ep_size until pr25907, whose default is 4096") {
  CHECK(max_num_tokens_pr14668(std::nullopt, 65536, 8) == 8192);
  CHECK(max_num_tokens_pr14668("1024", std::nullopt, 32) == 32768);
  CHECK(max_num_tokens_pr14668("99999999999999999999", std::nullopt, 32) == kInt64Max);
  CHECK(max_num_tokens_pr25907(std::nullopt, 65536, 8) == 4096);
  CHECK(max_num_tokens_pr25907("1024", 65536, 8) == 1024);
}

TEST_CASE("capacity: from pr26643 on the default follows the chunk, at least 4096") {
  CHECK(max_num_tokens_pr26643(std::nullopt, std::nullopt, 8) == 4096);
  CHECK(max_num_tokens_pr26643(std::nullopt, 0, 8) == 4096);
  CHECK(max_num_tokens_pr26643(std::nullopt, -1, 8) == 4096);
  CHECK(max_num_tokens_pr26643(std::nullopt, 4095, 8) == 4096);
  CHECK(max_num_tokens_pr26643(std::nullopt, 4097, 8) == 4097);
  CHECK(max_num_tokens_pr26643("16", 8192, 8) == 16);  // taken as it is, below 4096 too
}

TEST_CASE("capacity: bytes of one token") {
  CHECK(dispatch_bytes_per_token(DispatchType::bf16, 7168, 8) == 14400);
  CHECK(dispatch_bytes_per_token(DispatchType::nvfp4, 7168, 8) == 4096);
  CHECK(dispatch_bytes_per_token(DispatchType::mxfp8, 7168, 8) == 7168 + 224 + 64);
  CHECK(combine_bytes_per_token(7168) == 14336);
  for (const DispatchType type : {DispatchType::bf16, DispatchType::nvfp4, DispatchType::mxfp8}) {
    const auto payloads = payload_bytes_per_token(type, 2880, 4);
    CHECK(std::accumulate(payloads.begin(), payloads.end(), std::int64_t{0}) ==
          dispatch_bytes_per_token(type, 2880, 4));
    CHECK(parse_dispatch_type(name(type)) == type);
  }
  CHECK(parse_dispatch_type("fp8").error().kind == ErrorKind::bad_input);
}

TEST_CASE("capacity: EAGLE forces bf16, NGRAM and STANDALONE do not") {
  CapacityInputs inputs = deepseek(8);
  inputs.moe_nvfp4_dispatch = true;
  for (const std::string_view algorithm : {"EAGLE", "EAGLE3", "NEXTN", "eagle"}) {
    inputs.speculative_algorithm = algorithm;
    CHECK(capacity(kJuly, inputs)->dispatch_bytes_per_token == 14400);
  }
  for (const std::string_view algorithm : {"NGRAM", "STANDALONE"}) {
    inputs.speculative_algorithm = algorithm;
    CHECK(capacity(kJuly, inputs)->dispatch_bytes_per_token == 4096);
  }
}

TEST_CASE("capacity: pr35758 sizes for the larger type and gives a draft model its own workspace") {
  CapacityInputs inputs = deepseek(8);
  inputs.moe_nvfp4_dispatch = true;  // no longer read
  inputs.dispatch_type = DispatchType::nvfp4;
  const Capacity plain = *capacity(kNewest, inputs);
  CHECK(plain.dispatch_bytes_per_token == 14400);
  CHECK(plain.workspace_bytes_per_rank == plain.formula_bytes);
  inputs.speculative_context = true;
  CHECK(capacity(kNewest, inputs)->workspace_bytes_per_rank == plain.formula_bytes + 128);
  CHECK(capacity(kJuly, inputs)->workspace_bytes_per_rank == capacity(kJuly, inputs)->formula_bytes);
}

TEST_CASE("capacity: reported workspaces") {
  CapacityInputs inputs = deepseek(8);
  inputs.chunked_prefill_size = 65536 / 8;
  CHECK(capacity(kJuly, inputs)->max_num_tokens == 8192);
  CHECK(capacity(kJuly, inputs)->workspace_bytes_per_rank == 1884684672);
  CapacityInputs wide = deepseek(32);  // #25907: 28 GiB a rank
  wide.env = "1024";
  const CapacityRules may{FlashInferVersion::v0_6_11_post1, max_num_tokens_pr14668};
  CHECK(capacity(may, wide)->workspace_bytes_per_rank == 30137647744);
}

TEST_CASE("capacity: settings without sense do not overflow") {
  CapacityInputs inputs = deepseek(64);
  inputs.env = "-1";
  CHECK(capacity(kJuly, inputs).has_value());
  for (const CapacityRules& rules : {kJanuary, kJuly}) {
    inputs.env = "99999999999999999999";
    CHECK(capacity(rules, inputs).error().kind == ErrorKind::bad_input);
    inputs.env = "-99999999999999999999";
    CHECK(capacity(rules, inputs).error().kind == ErrorKind::bad_input);
    inputs.env = "1000000000000000";
    CHECK(capacity(rules, inputs).error().kind == ErrorKind::bad_input);
  }
  inputs.env.reset();
  inputs.hidden_size = kInt64Max;
  CHECK(capacity(kJuly, inputs).error().kind == ErrorKind::bad_input);
  inputs.hidden_size = 0;
  CHECK(capacity(kJuly, inputs).error().kind == ErrorKind::bad_input);
}

TEST_CASE("capacity: FlashInfer's limits by version") {
  CHECK(limits(FlashInferVersion::v0_6_1).max_top_k == 8);
  CHECK(limits(FlashInferVersion::v0_6_8_post1).max_top_k == 22);
  for (const FlashInferLimits& version : flashinfer_versions()) {
    CHECK(&limits(version.version) == &version);
    CHECK(find_flashinfer(version.tag) == &version);
    CHECK(version.has_eplb_region() == (version.version >= FlashInferVersion::v0_6_16_post3));
    CHECK(version.divisible_experts == (version.version < FlashInferVersion::v0_6_16_post3));
  }
  CHECK(find_flashinfer("v0.6.2") == nullptr);

  const auto launches = [](FlashInferVersion version, int top_k) {
    return check_dispatch_launch(limits(version), top_k, 8).has_value();
  };
  CHECK_FALSE(launches(FlashInferVersion::v0_6_1, 6));
  CHECK(launches(FlashInferVersion::v0_6_8_post1, 6));
  CHECK_FALSE(launches(FlashInferVersion::v0_6_12, 12));
  CHECK(launches(FlashInferVersion::v0_6_17, 12));
  CHECK_FALSE(launches(FlashInferVersion::v0_6_17, 9));
  CHECK(check_dispatch_launch(limits(FlashInferVersion::v0_6_17), 9, 8).error() ==
        Error{ErrorKind::runtime_error, "Unsupported top_k"});
  CHECK_FALSE(check_dispatch_launch(limits(FlashInferVersion::v0_6_12), 8, 72).has_value());
}

TEST_CASE("capacity: the checks of dispatch and their order") {
  using enum FlashInferVersion;
  CHECK(check_flashinfer_dispatch(limits(v0_6_12), good_call()).has_value());

  // Python first: R above the cap, although the op would refuse the experts too.
  DispatchCall call = good_call();
  call.runtime_max_tokens_per_rank = 129;
  call.num_experts = 4;
  CHECK(check_flashinfer_dispatch(limits(v0_6_12), call).error() ==
        Error{ErrorKind::assertion_error, "runtime_max_tokens_per_rank exceeds max_num_tokens"});

  call = good_call();
  call.runtime_max_tokens_per_rank = 0;
  call.num_experts = 4;
  call.top_k = 23;
  CHECK(failed_check(v0_6_12, call) == "Check failed: (runtimeMaxTokensPerRank > 0) is false: ");
  call.runtime_max_tokens_per_rank = 1;
  CHECK(failed_check(v0_6_12, call) ==
        "Check failed: (numExperts >= epSize && numExperts % epSize == 0) is false: num_experts must be divisible by "
        "ep_size");
  CHECK(failed_check(v0_6_17, call) == "Check failed: (numExperts >= epSize) is false: num_experts must be >= ep_size");
  call.num_experts = 257;
  CHECK(failed_check(v0_6_12, call).find("divisible") != std::string::npos);
  CHECK(failed_check(v0_6_17, call) == "Check failed: (topK > 0 && topK <= tl_throughput::kMaxTopK) is false: ");
  call.top_k = 22;
  CHECK(failed_check(v0_6_17, call).empty());

  call.ep_size = 72;
  call.runtime_max_tokens_per_rank = 0;
  CHECK(failed_check(v0_6_17, call).find("epSize must be in the range (0, 64]") != std::string::npos);
  CHECK(failed_check(v0_6_12, call).find("runtimeMaxTokensPerRank") != std::string::npos);  // has no such check
}

TEST_CASE("capacity: receive regions must fit, counted with the caller's R and not with the cap") {
  DispatchCall call = good_call();
  call.workspace_bytes_per_rank = 22912 + 8 * 128 * 14400 - 1;
  CHECK(
      failed_check(FlashInferVersion::v0_6_12, call) ==
      "Check failed: (sizePerRank >= requiredSize) is false: workspace size per rank insufficient, need 14768512 bytes "
      "but has 14768511");
  call.workspace_bytes_per_rank += 1;
  CHECK(failed_check(FlashInferVersion::v0_6_12, call).empty());
  call.runtime_max_tokens_per_rank = kInt64Max;
  CHECK(failed_check(FlashInferVersion::v0_6_12, call).find("insufficient") != std::string::npos);

  const std::array<Payload, 5> five{{{8, 4}, {8, 4}, {8, 4}, {8, 4}, {8, 4}}};
  call = good_call();
  call.payloads = five;
  CHECK(failed_check(FlashInferVersion::v0_6_12, call).find("Too many payloads: 5 > 4") != std::string::npos);
  CHECK(failed_check(FlashInferVersion::v0_6_1, call).empty());
  call.payloads = {};
  CHECK(failed_check(FlashInferVersion::v0_6_12, call).find("At least one payload") != std::string::npos);
  const std::array<Payload, 2> misaligned{{{3, 1}, {1, 16}}};
  call.payloads = misaligned;
  call.ep_size = 1;
  call.runtime_max_tokens_per_rank = 1;
  CHECK(failed_check(FlashInferVersion::v0_6_12, call).find("Misaligned payload buffer 1") != std::string::npos);
}

TEST_CASE("capacity: offsets of the receive regions are absolute over ranks, combine's is not") {
  DispatchCall call = good_call();
  const DispatchRegions first = dispatch_regions(limits(FlashInferVersion::v0_6_12), call);
  CHECK(first.recv_offsets == std::vector<std::int64_t>{22912, 22912 + 14680064, 22912 + 14680064 + 32768});
  CHECK(first.recv_byte_sizes == std::vector<std::int64_t>{14680064, 32768, 32768});
  CHECK(first.combine_payload_offset == pad128(22912 + 14680064 + 2 * 32768));
  call.ep_rank = 3;
  const DispatchRegions fourth = dispatch_regions(limits(FlashInferVersion::v0_6_12), call);
  CHECK(fourth.recv_offsets[0] == 22912 + 3 * call.workspace_bytes_per_rank);
  CHECK(fourth.combine_payload_offset == first.combine_payload_offset);
}
