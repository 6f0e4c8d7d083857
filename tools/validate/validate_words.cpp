#include "tools/validate/validate_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace a2asim {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The number, not digits of a longer one.
bool names_number(const std::string& text, std::int64_t number) {
  const std::string digits = std::to_string(number);
  for (std::size_t at = text.find(digits); at != std::string::npos; at = text.find(digits, at + 1)) {
    const auto is_digit = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
    if (!(at > 0 && is_digit(at - 1)) && !is_digit(at + digits.size())) return true;
  }
  return false;
}

struct Sizes {
  std::string what;
  std::vector<std::int64_t> of_rank;
};

std::vector<Sizes> sizes(const MirroredLayer& layer) {
  std::vector<Sizes> all = {{"runtime_max_tokens_per_rank", {}}, {"max_num_tokens", {}}};
  for (std::size_t p = 0; p < layer.configs[0].payload_bytes_per_token.size(); ++p)
    all.push_back({fmt::format("bytes per token of payload {}", p), {}});
  for (std::size_t r = 0; r < layer.configs.size(); ++r) {
    all[0].of_rank.push_back(layer.inputs[r].runtime_max_tokens_per_rank);
    all[1].of_rank.push_back(layer.configs[r].max_num_tokens);
    for (std::size_t p = 2; p < all.size(); ++p)
      all[p].of_rank.push_back(layer.configs[r].payload_bytes_per_token[p - 2]);
  }
  return all;
}

}  // namespace

std::vector<int> ranks_in(std::uint64_t mask) {
  std::vector<int> ranks;
  for (int r = 0; r < kMaxRanks; ++r)
    if (has_rank(mask, r)) ranks.push_back(r);
  return ranks;
}

bool disagrees(const MirroredLayer& layer) {
  return !layer.outcome.geometry.same_r || !layer.outcome.geometry.same_layout;
}

std::optional<std::vector<std::int64_t>> misaligned(const AllToAllConfig& config, std::int64_t runtime_max) {
  std::int64_t before = 0;
  for (const std::int64_t bytes : config.payload_bytes_per_token) {
    std::int64_t width = 16;
    while (bytes % width != 0) width /= 2;
    const std::int64_t region = receive_region(config.layout(), config.ep_size, runtime_max, before);
    if (region % width != 0) return std::vector<std::int64_t>{region, width};
    before += bytes;
  }
  return std::nullopt;
}

std::optional<Refusal> expected_refusal(const MirroredLayer& layer, std::uint64_t ranks) {
  for (const int r : ranks_in(ranks)) {
    const auto at = static_cast<std::size_t>(r);
    const AllToAllConfig& config = layer.configs[at];
    const std::int64_t rows = layer.inputs[at].local_num_tokens;
    const std::int64_t runtime_max = layer.inputs[at].runtime_max_tokens_per_rank;
    const std::int64_t held = config.max_num_tokens * config.max_top_k;
    if (runtime_max > config.max_num_tokens)
      return Refusal{r, "R is above the cap", {runtime_max, config.max_num_tokens}, false};
    if (rows > runtime_max) return Refusal{r, "more rows than R", {rows, runtime_max}, false};
    if (rows * config.top_k > held)
      return Refusal{r, "more rows than the top-k tables hold", {rows * config.top_k, held}, false};
    if (const auto where = misaligned(config, runtime_max)) return Refusal{r, "a misaligned payload", *where, true};
  }
  return std::nullopt;
}

bool names_refusal(const std::string& message, const Refusal& refusal) {
  return contains(message, fmt::format("rank {}: ", refusal.rank)) &&
         std::ranges::all_of(refusal.numbers, [&](std::int64_t number) { return names_number(message, number); });
}

bool names_disagreement(const std::string& message, const MirroredLayer& layer) {
  const std::vector<int> ranks = ranks_in(layer.outcome.taking_part);
  for (const Sizes& size : sizes(layer)) {
    for (const int a : ranks) {
      for (const int b : ranks) {
        const std::int64_t own = size.of_rank[static_cast<std::size_t>(a)];
        const std::int64_t theirs = size.of_rank[static_cast<std::size_t>(b)];
        if (own != theirs &&
            contains(message, fmt::format("rank {} has {} {}, rank {} has {};", a, size.what, own, b, theirs)))
          return true;
      }
    }
  }
  return false;
}

std::string unnamed_wait(const std::string& message, const MirroredLayer& layer) {
  const std::uint64_t missing = layer.outcome.group & ~layer.outcome.taking_part;
  for (const int rank : ranks_in(layer.outcome.taking_part)) {
    for (const int peer : ranks_in(missing)) {
      const std::string wanted = fmt::format("rank {} waits for rank {} ", rank, peer);
      if (!contains(message, wanted)) return wanted;
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
  std::int64_t before = 0;
  for (std::size_t p = 0; p < config.payload_bytes_per_token.size(); ++p) {
    const std::int64_t pitch = config.payload_bytes_per_token[p];
    const std::int64_t region = receive_region(at, config.ep_size, runtime_max, before);
    if (at_bytes < region + config.ep_size * runtime_max * pitch)
      return row(fmt::format("payload {}", p), region, pitch);
    before += pitch;
  }
  const std::int64_t region = combine_region(at, config.ep_size, runtime_max, before);
  const std::int64_t pitch = config.combine_bytes_per_token();
  if (at_bytes >= region && at_bytes < region + config.ep_size * runtime_max * pitch)
    return row("expert output", region, pitch);
  return "outside this rank's regions";
}

}  // namespace a2asim
