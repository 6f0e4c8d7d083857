#include "model/engines/sglang/static_caps.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "model/check/check.h"
#include "model/engines/sglang/generation.h"
#include "tests/launch.h"

using namespace a2asim;

namespace {

using enum StaticCapOutcome;

StaticCapInputs inputs_of(StaticCapBackend backend, std::int64_t ep_size) {
  StaticCapInputs inputs;
  inputs.backend = backend;
  inputs.ep_size = ep_size;
  inputs.num_experts = 256;
  return inputs;
}

const StaticCapItem* find(const std::vector<StaticCapItem>& items, Phase phase) {
  const auto found = std::ranges::find(items, phase, &StaticCapItem::phase);
  return found == items.end() ? nullptr : &*found;
}

StaticCapItem item(const StaticCapInputs& inputs, Phase phase) {
  const auto items = check_static_cap(inputs);
  const StaticCapItem* const found = find(items, phase);
  REQUIRE(found != nullptr);
  return *found;
}

bool has(const StaticCapInputs& inputs, StaticCapOutcome outcome) {
  return std::ranges::count(check_static_cap(inputs), outcome, &StaticCapItem::outcome) > 0;
}

}  // namespace

TEST_CASE("static caps: the table") {
  for (const StaticCapRow& row : static_cap_rows()) {
    CHECK(&row_of(row.backend) == &row);
    CHECK(find_static_cap(row.name) == &row);
    CHECK(row.default_cap == (row.name == "mori" ? 4096 : row.name == "megamoe" ? 8192 : 128));
    const bool tagged = row.name == "deepep" || row.name == "mooncake" || row.name == "nixl";
    CHECK(row.own_limit == (tagged ? 1024 : 0));
  }
  CHECK(find_static_cap("flashinfer") == nullptr);
  CHECK(find_static_cap("none") == nullptr);
  CHECK(parse_deepep_mode("low_latency") == DeepEpMode::low_latency);
  CHECK(parse_deepep_mode("fast").error().kind == ErrorKind::bad_input);
}

TEST_CASE("static caps: tokens of one rank") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 8);
  CHECK(decode_tokens_per_rank(inputs, 256) == 256);
  inputs.num_tokens_per_request = 3;
  CHECK(decode_tokens_per_rank(inputs, 26) == 78);
  inputs.attn_tp_size = 4;
  CHECK(decode_tokens_per_rank(inputs, 26) == 20);  // ceil(78 / 4)
  inputs.two_batch_overlap = true;
  CHECK(decode_tokens_per_rank(inputs, 27) == 11);  // ceil(ceil(27 / 2) * 3 / 4)
  CHECK(decode_tokens_per_rank(inputs, std::numeric_limits<std::int64_t>::max()) > 0);
}

TEST_CASE("static caps: safe_requests is the largest number that fits") {
  for (const StaticCapBackend backend : {StaticCapBackend::deepep, StaticCapBackend::mori}) {
    for (const std::int64_t width : {1, 3, 4, 200}) {
      for (const std::int64_t attn_tp : {1, 2, 3}) {
        for (const bool overlap : {false, true}) {
          StaticCapInputs inputs = inputs_of(backend, 8);
          inputs.num_tokens_per_request = width;
          inputs.attn_tp_size = attn_tp;
          inputs.two_batch_overlap = overlap;
          const std::int64_t safe = safe_requests(inputs);
          CHECK(decode_tokens_per_rank(inputs, safe) <= static_cap(inputs));
          CHECK(decode_tokens_per_rank(inputs, safe + 1) > static_cap(inputs));
        }
      }
    }
  }
}

TEST_CASE("static caps: two-batch overlap halves 256 requests to the 128 that fit") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 8);
  inputs.num_redundant_experts = 32;
  inputs.requests_per_dp_rank = 2048 / 8;
  inputs.decode_graph_max_bs = 256;
  inputs.two_batch_overlap = true;
  CHECK(item(inputs, Phase::eager_decode).tokens_per_rank == 128);
  CHECK(item(inputs, Phase::graph_decode).outcome == fits);
  CHECK_FALSE(has(inputs, exceeds));
  CHECK_FALSE(has(inputs, refused));
  inputs.two_batch_overlap = false;
  CHECK(item(inputs, Phase::eager_decode).outcome == exceeds);
  CHECK(item(inputs, Phase::graph_decode).outcome == exceeds);
}

TEST_CASE("static caps: an exact fit with speculation") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 32);
  inputs.deepep_mode = DeepEpMode::low_latency;
  inputs.decode_only = true;
  inputs.env_cap = "78";
  inputs.requests_per_dp_rank = 832 / 32;
  inputs.num_tokens_per_request = 3;
  inputs.decode_graph_max_bs = 26;
  const auto items = check_static_cap(inputs);
  CHECK(std::ranges::all_of(items, [](const StaticCapItem& entry) { return entry.outcome == fits; }));
  CHECK(find(items, Phase::prefill) == nullptr);
  CHECK(item(inputs, Phase::verify).tokens_per_rank == 78);
  inputs.env_cap = "77";
  CHECK(item(inputs, Phase::verify).outcome == exceeds);
  CHECK(item(inputs, Phase::verify).fix.find("=78") != std::string::npos);
}

TEST_CASE("static caps: graphs are captured only up to the request bound") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 8);
  inputs.requests_per_dp_rank = 100;
  inputs.decode_graph_max_bs = 512;
  CHECK(item(inputs, Phase::graph_decode).outcome == fits);
  inputs.requests_per_dp_rank.reset();
  CHECK(item(inputs, Phase::graph_decode).outcome == exceeds);
  inputs.decode_graph_max_bs = 0;
  CHECK(find(check_static_cap(inputs), Phase::graph_decode) == nullptr);
}

TEST_CASE("static caps: deepep's modes bound different phases") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 8);
  inputs.chunk_per_dp_rank = 8192 / 8;
  inputs.requests_per_dp_rank = 64;
  inputs.deepep_mode = DeepEpMode::low_latency;
  CHECK(item(inputs, Phase::prefill).outcome == exceeds);
  inputs.two_batch_overlap = true;  // an extend step in low latency is never split
  inputs.chunk_per_dp_rank = 256;
  CHECK(item(inputs, Phase::prefill).tokens_per_rank == 256);
  inputs.deepep_mode = DeepEpMode::automatic;
  CHECK(find(check_static_cap(inputs), Phase::prefill) == nullptr);
  CHECK(find(check_static_cap(inputs), Phase::eager_decode) != nullptr);
  inputs.deepep_mode = DeepEpMode::normal;
  inputs.env_cap = "4096";  // not used, so its limit does not matter
  CHECK(check_static_cap(inputs).empty());
}

TEST_CASE("static caps: what the command leaves open is a threshold, not an error") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::mori, 8);
  const auto items = check_static_cap(inputs);
  REQUIRE(items.size() == 2);
  for (const StaticCapItem& entry : items) CHECK(entry.outcome == open);
  CHECK(items[0].message.find("4096 running requests") != std::string::npos);
  inputs.prefill_only = true;
  CHECK(find(check_static_cap(inputs), Phase::eager_decode) == nullptr);
}

TEST_CASE("static caps: the cap itself has a limit for deepep, mooncake and nixl") {
  for (const StaticCapBackend backend :
       {StaticCapBackend::deepep, StaticCapBackend::mooncake, StaticCapBackend::nixl}) {
    StaticCapInputs inputs = inputs_of(backend, 8);
    inputs.decode_only = true;
    inputs.requests_per_dp_rank = 128;
    inputs.env_cap = "1024";
    CHECK_FALSE(has(inputs, refused));
    inputs.env_cap = "1025";
    CHECK(item(inputs, Phase::start).outcome == refused);
  }
}

TEST_CASE("static caps: experts must be divisible, redundant ones counted") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 40);
  inputs.deepep_mode = DeepEpMode::low_latency;
  CHECK(item(inputs, Phase::start).outcome == refused);
  CHECK(item(inputs, Phase::start).fix.find("--ep-num-redundant-experts 24") != std::string::npos);
  inputs.num_redundant_experts = 24;
  CHECK_FALSE(has(inputs, refused));
  inputs.deepep_mode = DeepEpMode::normal;  // 5 nodes: no kernels
  CHECK(item(inputs, Phase::start).message.find("no kernels for 40 ranks") != std::string::npos);
  inputs.num_experts.reset();
  inputs.ep_size = 32;
  CHECK_FALSE(has(inputs, refused));
}

TEST_CASE("static caps: DeepEP's low-latency kernels take top_k up to 11 and a list of hidden sizes") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 8);
  inputs.requests_per_dp_rank = 1;
  inputs.top_k = 11;
  inputs.hidden_size = 7168;
  CHECK_FALSE(has(inputs, refused));
  inputs.top_k = 12;
  CHECK(item(inputs, Phase::start).message.find("top_k up to 11, not 12") != std::string::npos);
  inputs.prefill_only = true;  // auto: normal mode only
  CHECK_FALSE(has(inputs, refused));
  inputs.deepep_mode = DeepEpMode::low_latency;
  CHECK(has(inputs, refused));
  inputs.deepep_mode = DeepEpMode::normal;
  inputs.prefill_only = false;
  CHECK_FALSE(has(inputs, refused));
  inputs.deepep_mode = DeepEpMode::automatic;
  inputs.top_k = 8;
  inputs.hidden_size = 3072;
  CHECK(item(inputs, Phase::start).message.find("not 3072") != std::string::npos);
  inputs.backend = StaticCapBackend::mooncake;
  CHECK_FALSE(has(inputs, refused));
}

TEST_CASE("static caps: nothing bounds deepep's cap before #9567") {
  const auto most = [](std::string_view version) { return find_generation(version)->generation->deepep.most_tokens; };
  CHECK(most("2025-09-04") == 0);
  CHECK(most("2025-09-05") == 1024);
  CHECK(most("v0.5.1.post3") == 0);
  CHECK(most("v0.5.2") == 1024);
  CHECK(most("newest") == 1024);
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 8);
  inputs.env_cap = "2048";
  inputs.deepep.most_tokens = most("2025-09-04");
  CHECK_FALSE(has(inputs, refused));
}

TEST_CASE("static caps: a request limit that memory bounds first is a warning, which says where it begins") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 8);
  inputs.decode_only = true;
  inputs.requests_per_dp_rank = 4000;
  CHECK(has(inputs, StaticCapOutcome::exceeds));
  inputs.memory_bounds_requests = true;
  CHECK_FALSE(has(inputs, StaticCapOutcome::exceeds));
  CHECK(item(inputs, Phase::eager_decode).message.starts_with("from 129 running requests per replica on"));
  CHECK(item(inputs, Phase::eager_decode).fix ==
        "set --max-running-requests to at most 128 times dp_size, or raise "
        "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK (up to 1024)");
  inputs.decode_graph_max_bs = 256;  // captured whatever runs
  CHECK(has(inputs, StaticCapOutcome::exceeds));

  const std::string base = "sglang serve --model-path M --tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep ";
  const auto verdict = [&](const std::string& options) {
    return check_deployment(*a2asim::test::deploy("v0.5.16", base + options)).verdict;
  };
  CHECK(verdict("--max-running-requests 8192 --disable-cuda-graph") == Verdict::over_capacity);  // 1024 a replica
  CHECK(verdict("--max-running-requests 30000 --disable-cuda-graph") == Verdict::agrees);
  const auto report =
      check_deployment(*a2asim::test::deploy("v0.5.16", base + "--max-running-requests 30000 --disable-cuda-graph"));
  const auto warning = std::ranges::find(report.findings, Severity::warning, &CheckFinding::severity);
  REQUIRE(warning != report.findings.end());
  CHECK(warning->consequence == "the dispatcher asserts and the rank dies, its peers wait");
  CHECK(verdict("--max-running-requests 30000 --cuda-graph-max-bs 256") == Verdict::over_capacity);
  CHECK(verdict("--max-running-requests 30000 --disable-cuda-graph --max-total-tokens 1000000") ==
        Verdict::over_capacity);
}

TEST_CASE("static caps: start-up budgets of mori, pplx and deepep_v2") {
  StaticCapInputs mori = inputs_of(StaticCapBackend::mori, 8);
  mori.env_cap = "8192";
  mori.chunk_per_dp_rank = 65536 / 8;
  mori.two_batch_overlap = true;
  CHECK_FALSE(has(mori, refused));
  CHECK(item(mori, Phase::prefill).tokens_per_rank == 4096);
  mori.env_cap.reset();  // the check does not know the overlap
  CHECK(has(mori, refused));
  mori.decode_only = true;
  CHECK_FALSE(has(mori, refused));
  mori.decode_only = false;
  mori.chunk_per_dp_rank = -1;
  CHECK_FALSE(has(mori, refused));

  StaticCapInputs pplx = inputs_of(StaticCapBackend::pplx, 8);
  pplx.chunk_per_dp_rank = 128;
  pplx.num_tokens_per_request = 4;
  pplx.requests_per_dp_rank = 32;
  pplx.decode_graph_max_bs = 128;  // counted in requests
  CHECK_FALSE(has(pplx, refused));
  pplx.decode_graph_max_bs = 129;
  CHECK(has(pplx, refused));

  StaticCapInputs v2 = inputs_of(StaticCapBackend::deepep_v2, 8);
  v2.chunk_per_dp_rank = 1024;
  CHECK(has(v2, refused));
  v2.decode_only = true;
  CHECK_FALSE(has(v2, refused));
  v2.num_tokens_per_request = 4;
  v2.decode_graph_max_bs = 33;  // 132 tokens
  CHECK(has(v2, refused));
  v2.decode_graph_max_bs = 32;
  CHECK_FALSE(has(v2, refused));
}

TEST_CASE("static caps: a replica's tokens are scattered over its attention ranks") {
  StaticCapInputs inputs = inputs_of(StaticCapBackend::deepep, 4);
  inputs.attn_tp_size = 2;
  inputs.requests_per_dp_rank = 256 / 2;
  inputs.decode_graph_max_bs = 128;
  CHECK(item(inputs, Phase::eager_decode).tokens_per_rank == 64);
  CHECK(item(inputs, Phase::graph_decode).outcome == fits);
  StaticCapInputs prefill = inputs_of(StaticCapBackend::mori, 8);
  prefill.attn_tp_size = 8;
  prefill.chunk_per_dp_rank = 4096;
  CHECK(item(prefill, Phase::prefill).tokens_per_rank == 512);
  prefill.chunk_per_dp_rank = 0;
  prefill.max_prefill_tokens = 65536;
  CHECK(item(prefill, Phase::prefill).outcome == exceeds);
}

TEST_CASE("megamoe: chosen by a variable, a cap of each version, and a slower path above it") {
  const std::string base = "python3 -m sglang.launch_server --model-path M --tp 8 --dp 8 --enable-dp-attention ";
  const auto by_variable = [&](std::string_view version) {
    return a2asim::test::deploy(version, "SGLANG_OPT_USE_DEEPGEMM_MEGA_MOE=1 " + base + "--moe-a2a-backend deepep");
  };
  CHECK(by_variable("pr24850")->backend == "deepep");  // before #25406
  CHECK(by_variable("pr25685")->backend == "megamoe");
  const auto checked = [&](std::string_view version) {
    return a2asim::check_deployment(*a2asim::test::deploy(
        version, base + "--moe-a2a-backend megamoe --max-running-requests 16384 --chunked-prefill-size 65536"));
  };
  CHECK(checked("pr30450").static_cap == 1024);
  CHECK(checked("main20260823").static_cap == 8192);
  const a2asim::CheckReport above = checked("pr30450");
  CHECK(above.verdict == a2asim::Verdict::agrees);  // nobody dies
  CHECK(std::ranges::any_of(above.findings, [](const a2asim::CheckFinding& finding) {
    return finding.kind == a2asim::FindingKind::static_cap && finding.severity == a2asim::Severity::warning &&
           finding.message.find("8192") != std::string::npos;
  }));
}
