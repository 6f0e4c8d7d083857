#include "model/engines/trtllm/rules/chunks.h"

#include <algorithm>
#include <numeric>

#include "model/base/clamped_math.h"

namespace a2asim::trtllm {
namespace {

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// Whether the lane can carry the step; where not, the layer's communication is replaced for good.
bool is_feasible(Lane lane, std::int64_t num_chunks, std::int64_t most, const ChunkInputs& in) {
  if (lane == Lane::deepep) return num_chunks == 1;
  if (lane == Lane::deepep_low_latency) return num_chunks == 1 && most <= in.low_latency_tokens;
  return true;
}

RankChunks of_rank(const ChunkRules& rules, const StepPlan& plan, std::size_t rank) {
  RankChunks out{split_chunk(plan.counts[rank], plan.num_chunks), {}, {}};
  const std::int64_t first = out.rows.front();
  for (std::int64_t chunk = 0; chunk < plan.num_chunks; ++chunk)
    out.sizes.push_back(chunk_sizes(rules, plan.counts, plan.num_chunks, chunk, rank, is_alltoall(plan.lane)));
  if (rules.patch == ChunkRules::Patch::none) return out;
  if (first == 0) out.raised = Raised{"AssertionError", "chunk 0 shouldn't be empty"};
  for (std::int64_t& rows : out.rows)
    if (rows == 0) rows = first;
  return out;
}

}  // namespace

Counts split_chunk(std::int64_t tokens, std::int64_t chunks) {
  Counts out;
  for (std::int64_t i = 0; i < chunks; ++i) out.push_back(tokens / chunks + (i < tokens % chunks ? 1 : 0));
  return out;
}

Counts RankChunks::largest() const {
  Counts out;
  for (const Counts& chunk : sizes) out.push_back(*std::ranges::max_element(chunk));
  return out;
}

Counts chunk_sizes(const ChunkRules& rules, std::span<const std::int64_t> counts, std::int64_t num_chunks,
                   std::int64_t chunk, std::size_t rank, bool no_zeros) {
  Counts out;
  for (std::size_t other = 0; other < counts.size(); ++other) {
    const std::int64_t each = counts[other] / num_chunks, more = counts[other] % num_chunks;
    const std::int64_t own = each + (chunk < more ? 1 : 0);
    const bool patches = rules.patch == ChunkRules::Patch::every_entry ||
                         (rules.patch == ChunkRules::Patch::own_entry && other == rank);
    if (own > 0)
      out.push_back(own);
    else if (patches)
      out.push_back(each + (more > 0 ? 1 : 0));
    else
      out.push_back(no_zeros ? 1 : 0);
  }
  return out;
}

StepPlan plan_step(const ChunkRules& rules, Lane lane, const ChunkInputs& in) {
  StepPlan out{1, lane, {in.all_rank_num_tokens.begin(), in.all_rank_num_tokens.end()}};
  const std::int64_t most = *std::ranges::max_element(out.counts);
  const bool has_zero = std::ranges::count(out.counts, 0) > 0;
  if (in.pads) std::ranges::fill(out.counts, most);
  const std::int64_t rows = rules.rows == ChunkRules::Rows::sum ? sum(out.counts) : std::ssize(out.counts) * most;
  out.num_chunks = std::max<std::int64_t>(ceil_div(rows, in.most_tokens), 1);
  if (rules.fills_zero_ranks && has_zero) std::ranges::fill(out.counts, most);
  if (!is_feasible(lane, out.num_chunks, most, in)) out.lane = Lane::all_gather;
  return out;
}

StepChunks cut(const ChunkRules& rules, Lane lane, const ChunkInputs& in) {
  const StepPlan plan = plan_step(rules, lane, in);
  StepChunks out{plan.num_chunks, plan.lane, {}};
  for (std::size_t rank = 0; rank < plan.counts.size(); ++rank)
    out.ranks.push_back(plan.num_chunks == 1 ? RankChunks{{plan.counts[rank]}, {plan.counts}, {}}
                                             : of_rank(rules, plan, rank));
  return out;
}

std::int64_t wideep_chunks(const WideEpInputs& in) {
  return std::max<std::int64_t>(ceil_div(sum(in.all_rank_num_tokens), in.most_tokens), 1);
}

bool wideep_sends(const WideEpInputs& in, std::size_t rank) {
  const std::int64_t asked =
      in.asks_own_rows ? in.all_rank_num_tokens[rank] : *std::ranges::max_element(in.all_rank_num_tokens);
  const std::int64_t chunks = wideep_chunks(in);
  return is_feasible(in.lane, chunks, asked, in) && (in.nvlink_cuts || chunks == 1);
}

}  // namespace a2asim::trtllm
