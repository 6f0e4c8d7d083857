// What the device has against what the simulator has: slices, received rows, outputs.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/validate/validate_expected.h"
#include "tools/validate/validate_mirror.h"

namespace a2asim {

std::string ValidationMirror::compare_received(const MirroredLayer& layer, AllToAll& device, SimAllToAll& alltoall) {
  for (const int rank : layer.outcome.taking_part) {
    const auto got = device.received(rank), wanted = alltoall.received(rank);
    if (!got || !wanted) return (got ? wanted : got).error().message;
    const auto& bytes = layer.configs[static_cast<std::size_t>(rank)].payload_bytes_per_token;
    if (got->counters != wanted->counters || got->rows != wanted->rows)
      return fmt::format("rank {} counts other rows than the simulator", rank);
    const auto rows_of = [&](const Received& from, std::size_t source) {
      std::vector<std::string> rows(static_cast<std::size_t>(from.rows[source]));
      for (std::size_t p = 0; p < bytes.size(); ++p) {
        const auto width = static_cast<std::size_t>(bytes[p]);
        for (std::size_t i = 0; i < rows.size(); ++i)
          rows[i].append(reinterpret_cast<const char*>(from.payloads[p][source].data()) + i * width, width);
        out_.bytes_compared += from.rows[source] * bytes[p];
      }
      if (!can_.has(Capability::slot_order)) std::ranges::sort(rows);
      return rows;
    };
    for (std::size_t source = 0; source < layer.configs.size(); ++source)
      if (rows_of(*got, source) != rows_of(*wanted, source))
        return fmt::format("rank {} reads other rows of rank {} than the simulator", rank, source);
  }
  return "";
}

std::string ValidationMirror::compare_slices(const MirroredLayer& layer, AllToAll& device, SimAllToAll& alltoall,
                                             const DispatchWrites* writes, bool only_races) {
  std::string first;
  std::int64_t different = 0;
  for (int rank = 0; rank < static_cast<int>(layer.configs.size()); ++rank) {
    const auto got = device.read_slice(rank);
    const auto wanted = alltoall.read_slice(rank);
    if (!got || !wanted) return (got ? wanted : got).error().message;
    if (got->size() != wanted->size())
      return fmt::format("rank {}: a slice of {} bytes, the simulator has {}", rank, got->size(), wanted->size());
    out_.bytes_compared += only_races ? 0 : static_cast<std::int64_t>(got->size());
    if (std::memcmp(got->data(), wanted->data(), got->size()) == 0) continue;
    for (std::size_t i = 0; i < got->size(); ++i) {
      if ((*got)[i] == (*wanted)[i]) continue;
      const auto at = static_cast<std::int64_t>(i);
      if (writes != nullptr && writes->may_be(rank, at, (*got)[i])) {
        ++out_.bytes_raced;
        alltoall.settle_race(rank, at, std::span(&(*got)[i], 1));
        continue;
      }
      if (only_races || ++different != 1) continue;
      const auto runtime_max = layer.inputs[static_cast<std::size_t>(rank)].runtime_max_tokens_per_rank;
      first = fmt::format(
          "rank {}, byte {} ({}): {:02x}, the simulator has {:02x}", rank, i,
          place_in_slice(layer.configs[static_cast<std::size_t>(rank)], std::max<std::int64_t>(runtime_max, 1), at),
          std::to_integer<int>((*got)[i]), std::to_integer<int>((*wanted)[i]));
    }
  }
  return different == 0 ? "" : fmt::format("{}; {} bytes differ in all", first, different);
}

void ValidationMirror::compare_outputs(const MirroredLayer& layer, std::span<const std::vector<std::byte>> outputs) {
  if (!is_usual(layer) && lacks(Capability::sum_order, CheckKind::output, layer)) return;
  std::string first;
  for (std::size_t rank = 0; rank < outputs.size() && first.empty(); ++rank) {
    const std::vector<std::byte>& got = outputs_[rank];
    const std::vector<std::byte>& wanted = outputs[rank];
    const auto pitch = static_cast<std::size_t>(layer.configs[rank].combine_bytes_per_token());
    out_.tokens_compared += static_cast<std::int64_t>(wanted.size() / pitch);
    if (got == wanted) continue;
    const auto differs = std::ranges::mismatch(got, wanted);
    const auto at = static_cast<std::size_t>(differs.in1 - got.begin());
    first = fmt::format("rank {}, {} of {} bytes equal: first other at token {}, byte {}", rank, at, wanted.size(),
                        at / pitch, at % pitch);
  }
  add(CheckKind::output, first.empty(), layer, first);
}

}  // namespace a2asim
