// trtllm_graph_*, trtllm_piecewise: which graphs are captured, and which one a step replays on each rank.
#include <algorithm>

#include "model/engines/trtllm/rules/graphs.h"
#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

using namespace trtllm;

json ranks_of(const std::vector<GraphChoiceOfRank>& chosen) {
  json ranks = json::array();
  for (const GraphChoiceOfRank& rank : chosen)
    ranks.push_back({{"padding", rank.padding},
                     {"batch_size", rank.batch_size},
                     {"passes_gate", rank.passes_gate},
                     {"replays", rank.replays}});
  return ranks;
}

bool all_equal(const json& ranks, const char* key) {
  return std::ranges::all_of(ranks, [&](const json& rank) { return rank.at(key) == ranks.front().at(key); });
}

}  // namespace

json answer_trtllm_graph_buckets(Fields& in, const json&) {
  const auto rule = by_variant<BucketRule>(
      in.get<std::string>("variant"),
      {{"floor", BucketRule::powers_floor}, {"ceil", BucketRule::powers_ceil}, {"newest", BucketRule::steps_of_64}});
  return {{"out", default_buckets(rule, in.get<std::int64_t>("max_batch_size"), in.get<bool>("enable_padding"))}};
}

json answer_trtllm_graph_filter(Fields& in, const json&) {
  const auto sizes = in.get<Sizes>("batch_sizes");
  const bool is_2025 = by_variant<bool>(in.get<std::string>("variant"), {{"2025", true}, {"newest", false}});
  return {{"out", filter_buckets(sizes, {.max_batch_size = in.get<std::int64_t>("max_batch_size"),
                                         .max_num_tokens = in.get<std::int64_t>("max_num_tokens"),
                                         .draft_tokens = in.get<std::int64_t>("max_total_draft_tokens"),
                                         .pads = in.get<bool>("enable_padding"),
                                         .keeps_zero = is_2025})}};
}

json answer_trtllm_graph_world(Fields& in, const json&) {
  const bool asks =
      by_variant<bool>(in.get<std::string>("variant"), {{"early2025", false}, {"mid2025", true}, {"newest", true}});
  const auto buckets = in.get<Sizes>("graph_batch_sizes");
  const auto batches = in.get<Sizes>("batch_sizes");
  const bool all_run = by_variant<bool>(in.get<std::string>("can_run"), {{"all", true}, {"rank0_prefill", false}});
  const bool last_full = by_variant<bool>(in.get<std::string>("kv"), {{"last_full", true}, {"all", false}});
  GraphStep step;
  step.buckets = buckets;
  step.batch_sizes = batches;
  step.max_batch_size = in.get<std::int64_t>("max_batch_size");
  step.pads = in.get<bool>("enable_padding");
  step.can_run = [=](std::size_t rank) { return all_run || rank > 0; };
  step.has_room = [&](std::size_t rank) { return !last_full || rank + 1 < batches.size(); };
  const json ranks = ranks_of(choose_graphs({asks}, step));
  Sizes replayed;
  std::size_t replays = 0;
  for (const json& rank : ranks)
    if (rank.at("replays")) replayed.push_back(rank.at("batch_size").get<std::int64_t>()), ++replays;
  const bool mixed = std::ranges::any_of(replayed, [&](std::int64_t size) { return size != replayed.front(); });
  return {{"out",
           {{"ranks", ranks},
            {"same_batch_size", all_equal(ranks, "batch_size")},
            {"same_decision", all_equal(ranks, "replays")},
            {"mixed_replay_sizes", mixed},
            {"some_replay_some_eager", replays > 0 && replays < ranks.size()}}}};
}

json answer_trtllm_graph_world_dynamic_draft(Fields& in, const json&) {
  const auto buckets = in.get<Sizes>("graph_batch_sizes");
  const auto batches = in.get<Sizes>("batch_sizes");
  const auto drafts = in.get<Sizes>("runtime_draft_len");
  GraphStep step;
  step.buckets = buckets;
  step.batch_sizes = batches;
  step.draft_tokens = drafts;
  step.max_batch_size = 64;
  for (const auto& [bucket, draft] : in.at("dynamic_draft_len_mapping").items())
    step.draft_tokens_of_bucket[std::stoll(bucket)] = draft.get<std::int64_t>();
  const json ranks = ranks_of(choose_graphs({}, step));
  return {{"out",
           {{"ranks", ranks},
            {"same_batch_size", all_equal(ranks, "batch_size")},
            {"same_decision", all_equal(ranks, "replays")}}}};
}

json answer_trtllm_piecewise(Fields& in, const json&) {
  const auto tokens = in.get<Sizes>("num_tokens");
  const auto context = in.get<Sizes>("num_ctx_requests");
  const auto captured = in.get_or_null<Sizes>("capture_num_tokens").value_or(Sizes{});
  const auto size = piecewise_size(tokens, context, captured);
  json ranks = json::array();
  for (const std::int64_t own : tokens)
    ranks.push_back({{"padded_num_tokens", size.value_or(own)},
                     {"piecewise", size.has_value()},
                     {"all_rank_num_tokens", size ? Sizes(tokens.size(), *size) : tokens}});
  return {{"out", {{"ranks", ranks}, {"same_list", true}}}};
}

}  // namespace a2asim::golden
