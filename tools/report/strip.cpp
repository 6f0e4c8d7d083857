#include "tools/report/strip.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kStripWidth = 600, kMostBlocks = 6;

// Blocks of `size` rows, one for each source up to `last`, in pixels.
Json blocks_of(std::int64_t size, std::int64_t first, std::int64_t last, double pixels_a_row) {
  Json out = Json::array();
  for (std::int64_t source = first; source <= last; ++source) {
    const double width = pixels_a_row * static_cast<double>(size);
    const double left = pixels_a_row * static_cast<double>((source - first) * size);
    out.push_back({{"x", fmt::format("{:.1f}", left)},
                   {"width", fmt::format("{:.1f}", std::max(width - 2, 1.0))},
                   {"middle", fmt::format("{:.1f}", left + width / 2)},
                   {"colour", source % 8},
                   {"label", width >= 64   ? fmt::format("from rank {}", source)
                             : width >= 18 ? fmt::format("{}", source)
                                           : ""},
                   {"meant", source == last}});
  }
  return out;
}

}  // namespace

Json strip_values(std::int64_t reader, std::int64_t reader_size, std::int64_t writer, std::int64_t writer_size,
                  std::int64_t ranks_per_writer) {
  if (reader_size == writer_size || reader_size < 1 || writer_size < 1) return nullptr;
  const std::int64_t source = writer * ranks_per_writer;
  const std::int64_t first = std::max<std::int64_t>(source - kMostBlocks, 0);
  const double rows = static_cast<double>((source - first + 1) * std::max(reader_size, writer_size));
  const double scale = static_cast<double>(kStripWidth) / rows;
  const auto at = [&](std::int64_t size) {
    return fmt::format("{:.1f}", scale * static_cast<double>((source - first) * size) + 8);
  };
  return {{"reader", reader},
          {"reader_size", reader_size},
          {"writer", writer},
          {"writer_size", writer_size},
          {"reads", blocks_of(reader_size, first, source, scale)},
          {"writes", blocks_of(writer_size, first, source, scale)},
          {"read_x", at(reader_size)},
          {"write_x", at(writer_size)},
          {"words",
           fmt::format("Rank {0} writes its first row at {1} × {2} = {3}. Rank {4} looks for it at {1} × {5} = {6}.",
                       writer, source, grouped(writer_size), grouped(source * writer_size), reader,
                       grouped(reader_size), grouped(source * reader_size))}};
}

Json strip_of(const CheckReport& report) {
  for (const CheckFinding& finding : report.findings) {
    if (finding.severity != Severity::error || !finding.witness) continue;
    const auto& sizes = finding.witness->runtime_max_tokens_per_rank;
    if (finding.kind != FindingKind::geometry_disagreement || sizes.empty() || !sizes[0]) continue;
    for (std::size_t rank = 1; rank < sizes.size(); ++rank)
      if (sizes[rank] && *sizes[rank] != *sizes[0])
        return strip_values(0, *sizes[0], static_cast<std::int64_t>(rank), *sizes[rank], report.topology.attn_tp_size);
  }
  return nullptr;
}

}  // namespace a2asim
