#include "tools/validate/validate_expected.h"

#include <fmt/format.h>

#include <algorithm>

namespace a2asim {
namespace {

// A payload's receive region is off the boundary of the widest vectors that divide its rows; FlashInfer faults there.
std::optional<AllToAllError> misaligned(const AllToAllConfig& config, std::int64_t runtime_max) {
  const RegionView regions = config.regions(runtime_max);
  for (int p = 0; p < regions.num_payloads(); ++p) {
    std::int64_t width = 16;
    while (regions.bytes_per_token(p) % width != 0) width /= 2;
    if (regions.region(p) % width != 0)
      return AllToAllError{
          .kind = AllToAllErrorKind::misaligned, .payload = p, .own = regions.region(p), .other = width};
  }
  return std::nullopt;
}

}  // namespace

bool disagrees(const MirroredLayer& layer) { return !layer.outcome.geometry.agrees(); }

bool is_usual(const MirroredLayer& layer) {
  return !disagrees(layer) && layer.outcome.geometry.receive_overflow.empty();
}

std::optional<AllToAllError> expected_refusal(const MirroredLayer& layer, RankMask ranks) {
  using Kind = AllToAllErrorKind;
  for (const int r : ranks) {
    const auto at = static_cast<std::size_t>(r);
    const AllToAllConfig& config = layer.configs[at];
    const std::int64_t rows = layer.inputs[at].local_num_tokens;
    const std::int64_t runtime_max = layer.inputs[at].runtime_max_tokens_per_rank;
    const std::int64_t held = config.max_num_tokens * config.max_top_k;
    const auto refuses = [&](Kind kind, std::int64_t own, std::int64_t other) {
      return AllToAllError{.kind = kind, .rank = r, .own = own, .other = other};
    };
    if (runtime_max > config.max_num_tokens) return refuses(Kind::over_cap, runtime_max, config.max_num_tokens);
    if (rows > runtime_max) return refuses(Kind::rows_over_r, rows, runtime_max);
    if (rows * config.top_k > held) return refuses(Kind::tables_full, rows * config.top_k, held);
    if (auto where = misaligned(config, runtime_max)) {
      where->rank = r;
      return where;
    }
  }
  return std::nullopt;
}

bool names(const Error& error, const AllToAllError& expected) {
  const std::vector<AllToAllError> said = all_to_all_errors(error);
  return std::ranges::find(said, expected) != said.end();
}

bool names_disagreement(const Error& error, const MirroredLayer& layer) {
  const auto value = [&](const AllToAllError& said, int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const AllToAllConfig& config = layer.configs[at];
    switch (said.field) {
      case AllToAllField::runtime_max:
        return layer.inputs[at].runtime_max_tokens_per_rank;
      case AllToAllField::max_num_tokens:
        return config.max_num_tokens;
      case AllToAllField::payload_bytes:
        return config.payload_bytes_per_token.at(static_cast<std::size_t>(said.payload));
      default:
        return std::int64_t{-1};
    }
  };
  return std::ranges::any_of(all_to_all_errors(error), [&](const AllToAllError& said) {
    return said.kind == AllToAllErrorKind::differs && said.rank >= 0 && said.peer >= 0 &&
           layer.outcome.taking_part.contains(said.rank) && layer.outcome.taking_part.contains(said.peer) &&
           said.own != said.other && said.own >= 0 && said.own == value(said, said.rank) &&
           said.other == value(said, said.peer);
  });
}

std::string unnamed_wait(const Error& error, const MirroredLayer& layer) {
  const std::vector<AllToAllError> said = all_to_all_errors(error);
  const RankMask missing = layer.outcome.group - layer.outcome.taking_part;
  for (const int rank : layer.outcome.taking_part) {
    for (const int peer : missing) {
      const bool named = std::ranges::any_of(said, [&](const AllToAllError& one) {
        return one.kind == AllToAllErrorKind::waits && one.rank == rank && one.peer == peer;
      });
      if (!named) return fmt::format("rank {} waits for rank {}", rank, peer);
    }
  }
  return {};
}

std::string place_in_slice(const AllToAllConfig& config, std::int64_t runtime_max, std::int64_t at_bytes) {
  const WorkspaceLayout at = config.layout();
  const std::pair<const char*, std::int64_t> fields[] = {{"top-k send indices", at.topk_send_indices},
                                                         {"top-k target ranks", at.topk_target_ranks},
                                                         {"combine completion flags", at.combine_completion_flags},
                                                         {"dispatch completion flags", at.dispatch_completion_flags},
                                                         {"receive counters", at.recv_counters},
                                                         {"send counters", at.send_counters},
                                                         {"local token counter", at.local_token_counter},
                                                         {"round counter", at.flag_val}};
  if (at_bytes < at.payload_data) {
    for (const auto& [what, begin] : fields)
      if (at_bytes >= begin) return fmt::format("{}, entry {}", what, (at_bytes - begin) / 4);
  }
  const auto row = [&](const std::string& what, std::int64_t region, std::int64_t pitch) {
    const std::int64_t index = (at_bytes - region) / pitch;
    return fmt::format("{}, rank {}, slot {}, byte {}", what, index / runtime_max, index % runtime_max,
                       (at_bytes - region) % pitch);
  };
  const RegionView regions = config.regions(runtime_max);
  for (int p = 0; p < regions.num_payloads(); ++p) {
    if (at_bytes >= regions.region(p) && at_bytes < regions.row(p, config.ep_size, 0))
      return row(fmt::format("payload {}", p), regions.region(p), regions.bytes_per_token(p));
  }
  if (at_bytes >= regions.combine_region() && at_bytes < regions.end())
    return row("expert output", regions.combine_region(), config.combine_bytes_per_token());
  return "outside this rank's regions";
}

}  // namespace a2asim
