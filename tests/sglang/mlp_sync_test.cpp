#include "model/engines/sglang/rules/mlp_sync.h"

#include <doctest/doctest.h>

#include <vector>

using namespace a2asim;

namespace {

using Batches = std::vector<std::optional<LocalBatch>>;

LocalBatch decode(std::int64_t requests) { return {.forward_mode = ForwardMode::decode, .batch_size = requests}; }
LocalBatch extend(std::int64_t tokens) {
  return {.forward_mode = ForwardMode::extend,
          .batch_size = 1,
          .extend_num_tokens = tokens,
          .extend_num_tokens_for_logprob = 1};
}
LocalBatch empty(ForwardMode mode, std::int64_t requests = 0) { return {.forward_mode = mode, .batch_size = requests}; }

struct World {
  std::vector<MLPSyncBatchInfo> infos;
  std::vector<std::int64_t> counts, logprob_counts;
  std::vector<MlpSyncResult> results;

  World(const MlpSyncRules& rules, const MlpSyncInputs& in, const Batches& batches)
      : infos(batches.size()), counts(batches.size()), logprob_counts(batches.size()), results(batches.size()) {
    mlp_sync(rules, in, batches, {infos, counts, logprob_counts, results});
  }
  std::optional<std::vector<std::int64_t>> list(std::size_t rank) const {
    const auto view = token_list(results[rank], rank, counts);
    if (!view) return std::nullopt;
    return std::vector<std::int64_t>(view->begin(), view->end());
  }
};

using List = std::vector<std::int64_t>;
const MlpSyncRules kAll[] = {kMlpSyncPr14668, kMlpSyncPr27945, kMlpSyncMain20260823};

}  // namespace

TEST_CASE("sync: decode counts requests, extend counts tokens, idle and prebuilt count nothing") {
  CHECK(num_tokens(decode(7)) == 7);
  CHECK(num_tokens(extend(128)) == 128);
  CHECK(num_tokens(empty(ForwardMode::idle, 3)) == 0);
  CHECK(num_tokens(empty(ForwardMode::prebuilt, 3)) == 0);
  CHECK(num_tokens(std::nullopt) == 0);
  CHECK(num_tokens_for_logprob(decode(7)) == 7);
  CHECK(num_tokens_for_logprob(extend(128)) == 1);
}

TEST_CASE("sync: log-probability tokens are at least one a request") {
  const std::vector<std::int64_t> lens = {167, 88, 5}, starts = {102, 26, 5};
  CHECK(logprob_tokens(lens, starts) == 65 + 62 + 1);
}

TEST_CASE("sync: a batch that returns no log probabilities must not count tokens for them") {
  LocalBatch batch = extend(128);
  CHECK(check_local_batch(batch));
  batch.extend_num_tokens_for_logprob = 5;
  REQUIRE_FALSE(check_local_batch(batch));
  CHECK(check_local_batch(batch).error().kind == ErrorKind::assertion_error);
  batch.return_logprob = true;
  CHECK(check_local_batch(batch));
  CHECK(check_local_batch(std::nullopt));
}

TEST_CASE("sync: with the gather predicate everybody has the list, else only its own count") {
  for (const MlpSyncRules& rules : kAll) {
    const Batches batches = {decode(3), std::nullopt, decode(1), extend(40)};
    const World gathered(rules, {}, batches);
    const World collapsed(rules, {.require_mlp_tp_gather = false}, batches);
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(gathered.list(rank) == List{3, 0, 1, 40});
      CHECK(collapsed.list(rank) == List{gathered.counts[rank]});
      // The flags come from the gathered table even when the list is collapsed.
      CHECK(collapsed.results[rank].is_extend_in_batch == true);
      CHECK(collapsed.results[rank].can_run_dp_cuda_graph == false);
    }
  }
}

TEST_CASE("sync: a rank without work gets an idle batch only while somebody works") {
  for (const MlpSyncRules& rules : kAll) {
    const World busy(rules, {}, {decode(3), std::nullopt});
    CHECK(busy.results[1].idle_batch_created);
    CHECK(busy.results[1].forward_mode == ForwardMode::idle);
    const World quiet(rules, {}, {std::nullopt, std::nullopt});
    CHECK(quiet.results[0] == MlpSyncResult{});
  }
}

TEST_CASE("sync: a prebuilt batch stays and gets an inner idle batch") {
  const World world(kMlpSyncPr27945, {}, {decode(3), empty(ForwardMode::prebuilt, 5)});
  CHECK(world.results[1].idle_batch_created);
  CHECK(world.results[1].forward_mode == ForwardMode::prebuilt);
  CHECK(world.list(1) == List{3, 0});
}

TEST_CASE("sync: January writes nothing when nobody has tokens, later versions write zeros") {
  const Batches batches = {empty(ForwardMode::idle), std::nullopt};
  const World january(kMlpSyncPr14668, {}, batches);
  CHECK_FALSE(january.list(0));
  CHECK_FALSE(january.results[0].can_run_dp_cuda_graph.has_value());
  CHECK(january.results[0].is_extend_in_batch == false);
  const World june(kMlpSyncPr27945, {}, batches);
  CHECK(june.list(0) == List{0, 0});
  CHECK(june.results[0].can_run_dp_cuda_graph == true);
  CHECK_FALSE(june.results[1].has_batch);
}

TEST_CASE("sync: the decode-graph vote is vetoed by a prefilling rank or by graphs being off") {
  CHECK(World(kMlpSyncPr27945, {}, {decode(1), std::nullopt}).results[0].can_run_dp_cuda_graph == true);
  CHECK(World(kMlpSyncPr27945, {}, {decode(1), extend(9)}).results[0].can_run_dp_cuda_graph == false);
  CHECK(World(kMlpSyncPr27945, {.disable_cuda_graph = true}, {decode(1)}).results[0].can_run_dp_cuda_graph == false);
}

TEST_CASE("sync: the prefill-graph vote by version") {
  const auto vote = [](const MlpSyncRules& rules, const MlpSyncInputs& in, const Batches& batches) {
    return World(rules, in, batches).results[0].can_run_dp_breakable_cuda_graph;
  };
  const Batches all_extend = {extend(9), extend(4)}, one_idle = {extend(9), std::nullopt},
                decoding = {extend(9), decode(1)};
  CHECK(vote(kMlpSyncPr14668, {}, all_extend) == std::nullopt);
  CHECK(vote(kMlpSyncPr27945, {}, all_extend) == true);
  CHECK(vote(kMlpSyncPr27945, {}, one_idle) == false);
  CHECK(vote(kMlpSyncPr27945, {.disable_cuda_graph = true}, all_extend) == false);
  const MlpSyncInputs breakable{.prefill_backend_is_breakable = true};
  CHECK(vote(kMlpSyncMain20260823, {}, all_extend) == false);
  CHECK(vote(kMlpSyncMain20260823, breakable, one_idle) == true);
  CHECK(vote(kMlpSyncMain20260823, breakable, decoding) == false);
  CHECK(vote(kMlpSyncMain20260823, {}, {empty(ForwardMode::idle), std::nullopt}) == true);
}

TEST_CASE("sync: skipping the all-gather leaves local flags, and no list where a gathered one was due") {
  for (const MlpSyncRules& rules : kAll) {
    const Batches batches = {extend(40), decode(2), std::nullopt};
    const World gather(rules, {.skip_all_gather = true}, batches);
    for (std::size_t rank = 0; rank < 3; ++rank) CHECK_FALSE(gather.list(rank));
    CHECK(gather.results[0].is_extend_in_batch == true);
    CHECK(gather.results[1].is_extend_in_batch == false);
    CHECK_FALSE(gather.results[2].is_extend_in_batch.has_value());  // a fresh idle batch
    CHECK(gather.results[2].idle_batch_created);
    CHECK(gather.results[1].can_run_dp_cuda_graph == true);  // the peer's prefill is not seen
    const World local(rules, {.require_mlp_tp_gather = false, .skip_all_gather = true}, batches);
    CHECK(local.list(0) == List{40});
  }
}

TEST_CASE("sync: one DP rank") {
  const MlpSyncInputs skip{.skip_all_gather = true};
  // January makes an idle batch on skip even alone; later versions do not.
  CHECK(World(kMlpSyncPr14668, skip, {std::nullopt}).results[0].idle_batch_created);
  CHECK_FALSE(World(kMlpSyncPr27945, skip, {std::nullopt}).results[0].has_batch);
  // The newest version exchanges nothing with one rank, and still has its list.
  CHECK(skips_all_gather(kMlpSyncMain20260823, {}, 1));
  CHECK_FALSE(skips_all_gather(kMlpSyncPr27945, {}, 1));
  CHECK(World(kMlpSyncMain20260823, {}, {decode(5)}).list(0) == List{5});
  CHECK_FALSE(World(kMlpSyncMain20260823, skip, {decode(5)}).list(0));
}

TEST_CASE("sync: independent ranks (dwdp) get no idle batch on skip") {
  const MlpSyncInputs in{.skip_all_gather = true, .dwdp = true};
  CHECK_FALSE(World(kMlpSyncMain20260823, in, {decode(5), std::nullopt}).results[1].has_batch);
}

TEST_CASE("sync: a dead rank counts as idle and vetoes prefill graphs only") {
  std::vector<MLPSyncBatchInfo> infos = {local_sync_info(kMlpSyncPr27945, {}, extend(9)), kDeadRankSyncInfo};
  std::vector<std::int64_t> counts(2), logprob_counts(2);
  MlpSyncTotals totals = gather_sync_info(infos, counts, logprob_counts);
  CHECK(counts == List{9, 0});
  CHECK_FALSE(totals.can_run_breakable_cuda_graph);
  infos[0] = local_sync_info(kMlpSyncPr27945, {}, decode(9));
  totals = gather_sync_info(infos, counts, logprob_counts);
  CHECK(totals.can_cuda_graph);
  CHECK_FALSE(totals.is_extend_in_batch);
}

TEST_CASE("sync: a row survives the wire, and a wrong one is refused") {
  const MLPSyncBatchInfo info = local_sync_info(kMlpSyncPr27945, {}, extend(9));
  MlpSyncRow row = to_row(info);
  CHECK(*from_row(row) == info);
  row[5] = 99;
  REQUIRE_FALSE(from_row(row));
  CHECK(from_row(row).error().kind == ErrorKind::bad_input);
}

TEST_CASE("batch: forward modes") {
  CHECK(is_extend(ForwardMode::extend));
  CHECK(is_extend(ForwardMode::mixed));
  CHECK(is_extend(ForwardMode::target_verify));
  CHECK_FALSE(is_extend(ForwardMode::draft_extend_v2));
  CHECK_FALSE(is_extend(ForwardMode::decode));
  CHECK_FALSE(is_extend(ForwardMode::prebuilt));
  CHECK(*parse_forward_mode("target_verify") == ForwardMode::target_verify);
  CHECK(name(*parse_forward_mode("Draft_Extend_V2")) == "DRAFT_EXTEND_V2");
  REQUIRE_FALSE(parse_forward_mode("decod"));
  CHECK(parse_forward_mode("decod").error().message.find("DECODE") != std::string::npos);
}

TEST_CASE("batch: speculative widths multiply request counts, not the tokens of a prefill round") {
  const SpeculativeWidth width{.num_draft_tokens = 4, .eagle_topk = 2};
  CHECK(num_tokens_per_req(ForwardMode::target_verify, width) == 4);
  CHECK(num_tokens_per_req(ForwardMode::draft_extend_v2, width) == 4);
  CHECK(num_tokens_per_req(ForwardMode::decode, width) == 2);
  CHECK(num_tokens_per_req(ForwardMode::extend, width) == 1);
  CHECK(num_tokens_per_req(ForwardMode::decode, {}) == 1);
  List counts = {3, 0, 5};
  scale_global_num_tokens(counts, 4);
  CHECK(counts == List{12, 0, 20});
}
