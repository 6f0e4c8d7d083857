#include "tools/report/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/program/template.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kRanksListed = 128;

// One line for ranks that saw and chose the same.
Json witness_values(const CheckWitness& witness) {
  struct Group {
    std::vector<std::string> cells;
    std::vector<std::size_t> ranks;
  };
  std::vector<Group> groups;
  for (std::size_t rank = 0; rank < witness.tokens_per_dp_rank.size(); ++rank) {
    const auto at = [&](const std::vector<std::string>& from) { return rank < from.size() ? from[rank] : "-"; };
    const auto& sizes = witness.runtime_max_tokens_per_rank;
    const bool has_size = rank < sizes.size() && sizes[rank].has_value();
    std::vector<std::string> cells = {has_size ? std::to_string(*sizes[rank]) : "raises",
                                      std::to_string(witness.tokens_per_dp_rank[rank]), at(witness.modes),
                                      at(witness.paths)};
    const auto same = std::ranges::find(groups, cells, &Group::cells);
    if (same == groups.end())
      groups.push_back({std::move(cells), {rank}});
    else
      same->ranks.push_back(rank);
  }
  std::vector<std::string> seen;
  const bool differ = std::ranges::any_of(groups, [&](const Group& one) { return one.cells[0] != groups[0].cells[0]; });
  Json list = Json::array();
  for (const Group& group : groups)
    list.push_back({{"ranks", ranges(group.ranks)},
                    {"mark", differ ? mark_of(group.cells[0], seen) : ""},
                    {"r", group.cells[0]},
                    {"has", group.cells[1]},
                    {"mode", group.cells[2]},
                    {"runs", group.cells[3]}});
  return {{"groups", std::move(list)}};
}

}  // namespace

std::string phase_title(Phase phase) { return phase == Phase::start ? "at start" : spaced(name(phase)); }

std::string verdict_title(Verdict verdict) { return capitalised(spaced(name(verdict))); }

Json conditions_values(const std::vector<Condition>& conditions) {
  Json list = Json::array();
  for (const Condition& one : conditions)
    list.push_back({{"what", html_flags(one.what)}, {"needed", one.needed}, {"yours", one.yours}});
  return list.empty() ? Json() : Json{{"list", std::move(list)}};
}

Json finding_values(const CheckFinding& finding) {
  Json chain = Json::array();
  for (const std::string& line : finding.chain) chain.push_back(html_flags(line));
  return {{"message", html_flags(capitalised(finding.message))},
          {"witness", finding.witness ? witness_values(*finding.witness) : Json()},
          {"consequence", finding.consequence},
          {"chain", chain.empty() ? Json() : Json{{"lines", chain}}},
          {"conditions", conditions_values(finding.any_of)},
          {"fix", html_flags(capitalised(finding.fix))}};
}

Json setting_values(int level, std::int64_t ranks, const std::optional<ModelShape>& shape) {
  Json out = {{"h", level}, {"ranks", ranks > 0 ? Json(ranks) : Json()}};
  if (shape)
    out.update({{"top_k", shape->top_k}, {"experts", shape->num_experts}, {"each", shape->num_experts / ranks}});
  return out;
}

// Marks first, then letters: distinct for any number of sizes.
std::string mark_of(const std::string& size, std::vector<std::string>& seen) {
  constexpr std::array<std::string_view, 6> kMarks = {"●", "▲", "■", "◆", "★", "✚"};
  auto at = std::ranges::find(seen, size);
  if (at == seen.end()) at = seen.insert(seen.end(), size);
  const auto index = static_cast<std::size_t>(at - seen.begin());
  if (index < kMarks.size()) return std::string(kMarks[index]);
  std::string letters;
  for (std::size_t left = index - kMarks.size() + 1; left > 0; left = (left - 1) / 26)
    letters.insert(letters.begin(), static_cast<char>('A' + (left - 1) % 26));
  return letters;
}

Json topology_values(const Topology& topology) {
  const std::int64_t shown = std::min(topology.tp_size, kRanksListed);
  const auto place = [](std::int64_t at, std::int64_t size) { return Json{{"some", size > 1}, {"at", at}}; };
  Json ranks = Json::array();
  for (std::int64_t rank = 0; rank < shown; ++rank)
    ranks.push_back({{"rank", rank},
                     {"places", Json::array({place(topology.attn_dp_rank(rank), topology.attn_dp_size),
                                             place(topology.attn_tp_rank(rank), topology.attn_tp_size),
                                             place(topology.attn_cp_rank(rank), topology.attn_cp_size),
                                             place(topology.ep_rank(rank), topology.ep_size)})}});
  return {{"tp", topology.tp_size},
          {"dp", topology.dp_size},
          {"ep", topology.ep_size},
          {"attn_tp", topology.attn_tp_size},
          {"attn_cp", topology.attn_cp_size},
          {"dense_tp", topology.moe_dense_tp_size ? Json(*topology.moe_dense_tp_size) : Json()},
          {"dp_attention", topology.enable_dp_attention},
          {"caption", topology.enable_dp_attention
                          ? "Each rank is one GPU, with its place in attention DP, TP and CP and in EP. Ranks of one "
                            "DP rank share a batch."
                          : "Each rank is one GPU, with its place in attention DP, TP and CP and in "
                            "EP. Without DP attention all ranks share one batch."},
          {"ranks", std::move(ranks)},
          {"more_ranks", shown < topology.tp_size ? Json(topology.tp_size - shown) : Json()}};
}

Json bars(std::string_view caption, const std::vector<Bar>& list, double whole) {
  double scale = whole;
  for (const Bar& bar : list) scale = std::max(scale, bar.value);
  Json out = Json::array();
  for (const Bar& bar : list)
    out.push_back({{"name", bar.name},
                   {"words", bar.words},
                   {"emphasised", bar.is_emphasised},
                   {"share", fmt::format("{:.2f}", scale > 0 ? std::clamp(100 * bar.value / scale, 0.0, 100.0) : 0)}});
  return {{"caption", caption}, {"bars", std::move(out)}};
}

Bar bar_of_bytes(std::string_view name, std::int64_t bytes, bool is_emphasised) {
  return {std::string(name), static_cast<double>(bytes), bytes_in_words(bytes), is_emphasised};
}

Json workspace_bars(std::int64_t all_bytes, std::int64_t dispatch_bytes, std::int64_t combine_bytes,
                    std::int64_t max_num_tokens) {
  const std::int64_t rest = std::max<std::int64_t>(all_bytes - dispatch_bytes - combine_bytes, 0);
  return bars(
      fmt::format("Workspace of one rank, for max_num_tokens {}: {}", max_num_tokens, bytes_in_words(all_bytes)),
      {bar_of_bytes("counters, flags, top-k tables", rest), bar_of_bytes("receive buffers (dispatch)", dispatch_bytes),
       bar_of_bytes("expert outputs (combine)", combine_bytes)},
      static_cast<double>(all_bytes));
}

}  // namespace a2asim
