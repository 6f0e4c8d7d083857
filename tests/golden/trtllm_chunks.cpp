// trtllm_split_chunk, trtllm_chunks, trtllm_wideep: one step of all ranks, cut into chunks.
#include <algorithm>

#include "model/engines/trtllm/rules/chunks.h"
#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

using namespace trtllm;
using Rows = ChunkRules::Rows;
using Patch = ChunkRules::Patch;

ChunkRules rules_of(const std::string& variant) {
  return by_variant<ChunkRules>(variant, {{"newest", {Rows::ranks_times_most, Patch::every_entry, true}},
                                          {"pr16745", {Rows::ranks_times_most, Patch::every_entry, false}},
                                          {"pre16745", {Rows::ranks_times_most, Patch::own_entry, false}},
                                          {"pr12929", {Rows::ep_times_most, Patch::own_entry, false}},
                                          {"pre12929", {Rows::sum, Patch::own_entry, false}}});
}

Lane lane_of(const std::string& text) {
  if (text == "MNNVL") return Lane::two_sided;
  for (const Lane lane : {Lane::one_sided, Lane::two_sided, Lane::deepep, Lane::deepep_low_latency, Lane::all_gather})
    if (name(lane) == text) return lane;
  throw std::runtime_error("unknown lane " + text);
}

bool all_equal(const json& list) {
  return std::ranges::all_of(list, [&](const json& value) { return value == list.front(); });
}

}  // namespace

json answer_trtllm_split_chunk(Fields& in, const json&) {
  return {{"out", split_chunk(in.get<std::int64_t>("tokens"), in.get<std::int64_t>("chunks"))}};
}

json answer_trtllm_chunks(Fields& in, const json&) {
  const auto counts = in.get<Counts>("all_rank_num_tokens");
  const StepChunks step = cut(rules_of(in.get<std::string>("variant")), lane_of(in.get<std::string>("comm")),
                              {.all_rank_num_tokens = counts,
                               .most_tokens = in.get<std::int64_t>("moe_max_num_tokens"),
                               .low_latency_tokens = in.get<std::int64_t>("deep_ep_max_num_tokens"),
                               .pads = in.get<bool>("use_dp_padding")});
  json comm = json::array(), rows = json::array(), largest = json::array(), errors = json::array();
  json vectors = nullptr, differing = json::object();
  bool any_error = false, over = false;
  for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
    const RankChunks& own = step.ranks[rank];
    errors.push_back(own.raised ? json(own.raised->text()) : json());
    any_error = any_error || own.raised;
    comm.push_back(own.raised ? json() : json(std::string(name(step.lane))));
    rows.push_back(own.raised ? json() : json(own.rows));
    largest.push_back(own.raised ? json() : json(own.largest()));
    if (own.raised) continue;
    if (vectors.is_null()) vectors = own.sizes;
    if (vectors != json(own.sizes)) differing[std::to_string(rank)] = own.sizes;
    const Counts most = own.largest();
    for (std::size_t chunk = 0; chunk < most.size(); ++chunk) over = over || own.rows[chunk] > most[chunk];
  }
  const bool same_r = all_equal(largest);
  return {{"out",
           {{"num_chunks", step.num_chunks},
            {"comm", comm},
            {"rows", rows},
            {"vectors", vectors},
            {"vectors_that_differ", differing},
            {"runtime_max_tokens_per_rank", same_r ? largest.front() : largest},
            {"errors", any_error ? errors : json()},
            {"same_num_chunks", !any_error},
            {"same_vectors", !any_error && differing.empty()},
            {"same_R", same_r},
            {"same_comm", !any_error},
            {"rows_over_R", over}}}};
}

json answer_trtllm_wideep(Fields& in, const json&) {
  const auto counts = in.get<Counts>("all_rank_num_tokens");
  WideEpInputs inputs;
  inputs.all_rank_num_tokens = counts;
  inputs.most_tokens = in.get<std::int64_t>("moe_max_num_tokens");
  inputs.low_latency_tokens = in.get<std::int64_t>("deep_ep_max_num_tokens");
  inputs.lane = lane_of(in.get<std::string>("method"));
  const auto variant = in.get<std::string>("variant");
  inputs.asks_own_rows =
      by_variant<bool>(variant, {{"wideep_local", true}, {"wideep_pr_fix", false}, {"wideep_2025_10", false}});
  inputs.nvlink_cuts = variant == "wideep_2025_10";
  const std::int64_t chunks = wideep_chunks(inputs);
  json sends = json::array(), num_chunks = json::array();
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    sends.push_back(wideep_sends(inputs, rank));
    num_chunks.push_back(chunks);
  }
  const Counts most = split_chunk(*std::ranges::max_element(counts), chunks);
  json first = {{"use_all_to_all", sends[0]}, {"num_chunks", chunks}, {"all_rank_max_num_tokens", most}};
  if (chunks > 1) {
    const StepChunks step = cut({}, sends[0].get<bool>() ? inputs.lane : Lane::all_gather, inputs);
    first["chunk_sizes"] = step.ranks[0].rows;
    first["vectors"] = step.ranks[0].sizes;
  }
  return {{"out",
           {{"use_all_to_all", sends},
            {"num_chunks", num_chunks},
            {"all_rank_max_num_tokens", most},
            {"same_decision", all_equal(sends)},
            {"rank0", first}}}};
}

}  // namespace a2asim::golden
