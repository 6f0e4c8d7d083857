// Wrong rows as findings and taints; the inspector says which are wrong.
#include <algorithm>

#include "model/base/check_invariant.h"

#include "sim/alltoall/sim_alltoall.h"

namespace a2asim {

RowView SimAllToAll::received(int rank, int source, int payload, std::int64_t slot) const {
  A2ASIM_INVARIANT(is_rank(rank) && is_rank(source), "a row is read by a rank, of a rank");
  return inspector_.view(inspector_.received_rows(rank, source, payload), slot);
}

RowView SimAllToAll::returned(int rank, int from, std::int64_t slot) const {
  A2ASIM_INVARIANT(is_rank(rank) && is_rank(from), "a row is read by a rank, of a rank");
  return inspector_.view(inspector_.returned_rows(rank, from, rows_of(rank).runtime_max), slot);
}

std::optional<Finding> SimAllToAll::wrong_row_of(int rank, std::int64_t token) const {
  A2ASIM_INVARIANT(is_rank(rank) && token >= 0, "a token is of a rank");
  std::vector<RowRead> reads;
  for (int slice = 0; slice < ep_size_; ++slice)
    if (takes_part(slice)) reads.push_back(inspector_.returned_rows(rank, slice, rows_of(rank).runtime_max));
  for (int slice = 0; slice < ep_size_; ++slice)
    for (int p = 0; takes_part(slice) && p < rows_of(slice).regions.num_payloads(); ++p)
      reads.push_back(inspector_.received_rows(slice, rank, p));
  for (const RowRead& read : reads) {
    if (read.run.record == Shadow::kNone) continue;
    const std::span<const std::int32_t> tokens = records_.tokens(read.run.record, read.slice);
    const auto slot = std::ranges::find(tokens, token) - tokens.begin();
    if (slot >= std::min<std::int64_t>(std::ssize(tokens), read.run.count)) continue;
    if (const auto wrong = inspector_.wrong_row(read, slot)) return row_finding(read, slot, *wrong);
  }
  return std::nullopt;
}

void SimAllToAll::inspect_rows(const RowRead& read) {
  A2ASIM_INVARIANT(is_rank(read.source) && has_rows(), "rows are followed from provenance on");
  std::vector<std::uint8_t>&tainted = rank_at(read.source).tainted, &in_doubt = rank_at(read.source).in_doubt;
  bool is_clean = true;
  for (std::int64_t slot = 0; slot < read.run.count; ++slot) {
    const auto wrong = inspector_.wrong_row(read, slot);
    if (!wrong) continue;
    is_clean = false;
    const std::int64_t token = inspector_.token(read, slot);
    if (token >= 0 && token < std::ssize(tainted)) tainted[static_cast<std::size_t>(token)] = 1;
    if (log_.count(wrong->kind)) log_.keep(row_finding(read, slot, *wrong));
  }
  if (is_clean) return;
  // A slot is wrong whichever token it holds.
  for (const std::int32_t token : records_.tokens(read.run.record, read.slice))
    if (token < std::ssize(in_doubt)) in_doubt[static_cast<std::size_t>(token)] = 1;
}

Finding SimAllToAll::row_finding(const RowRead& read, std::int64_t slot, const WrongRow& wrong) const {
  Finding found = finding(wrong.kind, wrong.severity, read.operation, read.reader);
  found.root = root_;
  inspector_.explain(read, slot, wrong, found);
  found.row->dispatch_type = options_.dispatch_type;
  return found;
}

}  // namespace a2asim
