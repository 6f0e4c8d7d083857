// vllm_dp_padding_old, vllm_dp_idle, vllm_dp_coordinate, vllm_dp_step_v1, vllm_dp_step_v2: what the ranks of a step
// exchange, agree on and run. All columns are compared; dispatch_max_tokens is derived in the tables as it is here: the
// token count where a graph is replayed, else the largest of the list.
#include <algorithm>

#include "tests/golden/vllm.h"

namespace a2asim::golden {
namespace {

using namespace vllm;
using Counts = std::vector<std::int64_t>;

Graphs graphs_of(Fields& in) {
  Graphs graphs;
  graphs.sizes = in.get<Counts>("cudagraph_capture_sizes");
  return graphs;
}

Graphs graphs_of_step(Fields& in) {
  Graphs graphs = graphs_of(in);
  graphs.setting = find_graph_setting(in.get<std::string>("cudagraph_mode"));
  if (graphs.setting == nullptr) throw std::invalid_argument("unknown cudagraph_mode");
  graphs.width = 1 + in.get<std::int64_t>("num_speculative_tokens");
  graphs.max_num_seqs = in.get<std::int64_t>("max_num_seqs");
  return graphs;
}

// A step of requests that are no decode batch: nothing but counts matters to these versions.
struct Step {
  std::vector<ScheduledRank> ranks;
  std::vector<Proposal> proposals;
  std::vector<DecidedRank> decided;
  Agreement agreed;

  void run(const Coordination& rules, const Graphs& graphs, const Microbatching& microbatching, bool eager) {
    proposals.resize(ranks.size());
    decided.resize(ranks.size());
    agreed = step_v1({rules, graphs, microbatching, eager}, ranks, proposals, decided);
  }
  Counts list() const {
    Counts list;
    for (const Proposal& rank : proposals) list.push_back(agreed.tokens_of(rank));
    return list;
  }
};

Step scheduled(const Counts& counts) {
  Step step;
  for (const std::int64_t count : counts)
    step.ranks.push_back({count == 0, std::max<std::int64_t>(count, 1), 1, std::max<std::int64_t>(count, 1), false});
  return step;
}

Counts flags(Fields& in, const char* key) {
  Counts out;
  for (const json& value : in.at(key))
    out.push_back(value.is_boolean() ? value.get<bool>() : value.get<std::int64_t>());
  return out;
}

}  // namespace

json answer_vllm_dp_padding_old(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  in.ignore({"dp_size"});
  Graphs graphs = graphs_of(in);
  graphs.setting = find_graph_setting("PIECEWISE");
  const bool eager = in.get<bool>("enforce_eager");
  Step step = scheduled(in.get<Counts>("num_scheduled_tokens"));
  step.run(v.coordination, graphs, {}, eager);
  const Counts list = step.list();
  // #18935 hands the padded list on, which saves the second all-reduce.
  const bool hands_on = v.coordination.padding == Padding::unless_eager;
  json ranks = json::array();
  for (std::size_t i = 0; i < list.size(); ++i)
    ranks.push_back({{"num_input_tokens", step.decided[i].num_tokens},
                     {"num_tokens_after_padding", hands_on && !eager ? json(list) : json()},
                     {"max_tokens_across_dp", std::ranges::max(list)},
                     {"all_reduces", hands_on ? 1 : 2}});
  return {{"out", {{"ranks", ranks}}}};
}

json answer_vllm_dp_idle(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  in.ignore({"dp_size"});
  Graphs graphs = graphs_of(in);
  graphs.setting = find_graph_setting("PIECEWISE");
  const Counts counts = in.get<Counts>("num_scheduled_tokens");
  Step step = scheduled(counts);
  step.run(v.coordination, graphs, {}, false);
  json ranks = json::array();
  for (std::size_t i = 0; i < counts.size(); ++i)
    ranks.push_back({{"idle", counts[i] == 0},
                     {"graph_num_tokens", step.decided[i].num_tokens},
                     {"num_tokens_across_dp", step.list()}});
  return {{"out", {{"ranks", ranks}}}};
}

json answer_vllm_dp_coordinate(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  const auto dp_size = in.get<std::size_t>("dp_size");
  Microbatching micro{in.get<bool>("enable_dbo"), 2, in.get<std::int64_t>("dbo_decode_token_threshold"),
                      in.get<std::int64_t>("dbo_prefill_token_threshold")};
  micro.is_on &= in.get<bool>("allow_microbatching");
  const Counts unpadded = in.get<Counts>("num_tokens_unpadded"), padded = in.get<Counts>("num_tokens_padded");
  const Counts modes = in.get<Counts>("cudagraph_mode"), uniform = flags(in, "uniform_decode");
  const Counts allows = flags(in, "allow_dp_padding");
  std::vector<Proposal> proposals;
  for (std::size_t i = 0; i < dp_size; ++i)
    proposals.push_back({unpadded[i], padded[i], micro.wants(unpadded[i], uniform[i] != 0),
                         static_cast<GraphMode>(modes[i]), allows[i] != 0});
  const Agreement agreed = agree(v.coordination, proposals);
  json list = json::array(), ranks = json::array();
  for (const Proposal& rank : proposals) list.push_back(agreed.tokens_of(rank));
  for (std::size_t i = 0; i < dp_size; ++i) {
    if (dp_size == 1) {  // nobody to exchange with
      ranks.push_back({{"ubatch", false}, {"num_tokens_across_dp", nullptr}});
      ranks[i]["synced_cudagraph_mode"] = v.coordination.exchanges_mode ? json(modes[i]) : json();
    } else if (asserts_padding(v.coordination, agreed, proposals[i])) {
      ranks.push_back({{"error", "AssertionError:"}});
    } else {
      ranks.push_back({{"ubatch", agreed.microbatches}, {"num_tokens_across_dp", list}});
      ranks[i]["synced_cudagraph_mode"] = v.coordination.exchanges_mode ? json(agreed.mode) : json();
    }
  }
  return {{"out", {{"ranks", ranks}}}};
}

json answer_vllm_dp_step_v1(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  in.ignore({"dp_size"});
  const Graphs graphs = graphs_of_step(in);
  Step step;
  for (const json& rank : in.at("ranks"))
    step.ranks.push_back({rank.at("idle").get<bool>(), rank.at("num_tokens").get<std::int64_t>(),
                          rank.at("num_reqs").get<std::int64_t>(),
                          rank.at("max_num_scheduled_tokens").get<std::int64_t>(),
                          rank.at("use_cascade_attn").get<bool>()});
  step.run(v.coordination, graphs, {.is_on = in.get<bool>("enable_dbo")}, false);
  const Counts list = step.list();
  json ranks = json::array();
  for (const DecidedRank& rank : step.decided) {
    if (rank.raised) {
      ranks.push_back({{"error", std::string(name(rank.raised->kind)) + ":"}});
      continue;
    }
    const bool replays = rank.mode != GraphMode::none;
    ranks.push_back({{"cudagraph_runtime_mode", name(rank.mode)},
                     {"num_tokens", rank.num_tokens},
                     {"ubatch", step.agreed.microbatches},
                     {"num_tokens_across_dp", list},
                     {"dispatch_max_tokens", replays ? rank.num_tokens : std::ranges::max(list)}});
  }
  return {{"out", {{"ranks", ranks}}}};
}

json answer_vllm_dp_step_v2(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  in.ignore({"dp_size"});
  const Candidates candidates(graphs_of_step(in), v.runner_v2.rounds_up_decode_graphs);
  std::vector<ScheduledRankV2> scheduled;
  for (const json& rank : in.at("ranks")) {
    const json& uniform = rank.at("uniform_token_count");
    scheduled.push_back({rank.at("num_reqs").get<std::int64_t>(), rank.at("num_tokens").get<std::int64_t>(),
                         uniform.is_null() ? std::nullopt : std::optional(uniform.get<std::int64_t>()),
                         rank.at("need_eager").get<bool>()});
  }
  std::vector<Candidate> decided(scheduled.size());
  const AgreementV2 agreed = step_v2(v.runner_v2, candidates, scheduled, decided);
  json ranks = json::array();
  for (const Candidate& rank : decided) {
    Counts list(decided.size(), rank.num_tokens);
    if (agreed.mode == GraphMode::none)
      for (std::size_t i = 0; i < list.size(); ++i) list[i] = scheduled[i].num_tokens;
    ranks.push_back({{"cg_mode", name(rank.mode)},
                     {"num_tokens", rank.num_tokens},
                     {"num_reqs", rank.num_reqs ? json(*rank.num_reqs) : json()},
                     {"num_tokens_across_dp", list},
                     {"dispatch_max_tokens", rank.mode != GraphMode::none ? rank.num_tokens : std::ranges::max(list)}});
  }
  return {{"out", {{"ranks", ranks}}}};
}

}  // namespace a2asim::golden
