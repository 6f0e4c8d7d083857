#include "model/step/unused_rows.h"

#include <algorithm>

#include "model/alltoall/routing.h"
#include "model/alltoall/workspace.h"
#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

// Bytes from where the receive regions begin, which is a multiple of 128.
struct Regions {
  Regions(std::int64_t ep_size, std::int64_t runtime_max, const RowShape& shape)
      : ids(ep_size * runtime_max * shape.hidden_bytes),
        weights(ids + ep_size * runtime_max * 4 * shape.top_k),
        outputs(pad128(weights + ep_size * runtime_max * 4 * shape.top_k)) {}
  std::int64_t hidden = 0, ids, weights, outputs;
};

struct Bytes {
  std::int64_t begin, end;
  bool meets(const Bytes& other) const { return begin < other.end && other.begin < end; }
};

// Every token can go past some rank: then none of that rank's rows need be filled.
bool may_pass_a_rank(std::int64_t ep_size, const RowShape& shape) {
  const std::int64_t fewest =
      num_local_experts(static_cast<int>(ep_size - 1), shape.num_experts, static_cast<int>(ep_size));
  return ep_size > 1 && shape.num_experts - fewest >= shape.top_k;
}

}  // namespace

SentRows surely_delivered(SentRows sent, const RowShape& shape) {
  const auto ep_size = static_cast<std::int64_t>(sent.rows.size());
  for (std::int64_t& rows : sent.rows)
    rows = std::min(rows, std::max<std::int64_t>(rows * std::min(shape.top_k, ep_size) / (2 * ep_size), 1));
  return sent;
}

bool reads_foreign_bytes(const SentRows& before, const SentRows& now, const RowShape& shape) {
  A2ASIM_INVARIANT(before.rows.size() == now.rows.size(), "two steps of the same ranks");
  const std::int64_t was = before.runtime_max_tokens_per_rank, is = now.runtime_max_tokens_per_rank;
  if (was == is) return false;
  const auto ep_size = static_cast<std::int64_t>(now.rows.size());
  const Regions left(ep_size, was, shape), read(ep_size, is, shape);
  const std::int64_t id_bytes = 4 * shape.top_k;
  const bool passes = may_pass_a_rank(ep_size, shape);
  const bool ids_are_split = (read.ids - left.ids) % 4 != 0;  // halves of two ids are no id
  for (std::int64_t source = 0; source < ep_size; ++source) {
    const std::int64_t filled = passes ? 0 : now.rows[static_cast<std::size_t>(source)];
    const Bytes unfilled{read.ids + receive_row(static_cast<int>(source), filled, is) * id_bytes,
                         read.ids + receive_row(static_cast<int>(source), is, is) * id_bytes};
    if (unfilled.begin >= unfilled.end) continue;
    for (std::int64_t writer = 0; writer < ep_size; ++writer) {
      const std::int64_t first = receive_row(static_cast<int>(writer), 0, was);
      const std::int64_t end = first + std::min(before.rows[static_cast<std::size_t>(writer)], was);
      const auto rows_at = [&](std::int64_t region, std::int64_t pitch) {
        return Bytes{region + first * pitch, region + end * pitch};
      };
      if (end > first && (unfilled.meets(rows_at(left.hidden, shape.hidden_bytes)) ||
                          unfilled.meets(rows_at(left.weights, id_bytes)) ||
                          unfilled.meets(rows_at(left.outputs, shape.hidden_bytes)) ||
                          (ids_are_split && unfilled.meets(rows_at(left.ids, id_bytes)))))
        return true;
    }
  }
  return false;
}

}  // namespace a2asim
