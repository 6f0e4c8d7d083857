#include "tests/conformance/expectation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace a2asim::conformance {
namespace {

// Expert ranges counted out one by one: not the formula that backends use.
int owner(std::int64_t expert, const AllToAllConfig& config) {
  std::int64_t first = 0;
  for (int rank = 0; rank < config.ep_size; ++rank) {
    first += config.num_experts / config.ep_size + (rank < config.num_experts % config.ep_size ? 1 : 0);
    if (expert < first) return rank;
  }
  return -1;
}

bool is_alive(const AllToAllConfig& config, int rank) { return (config.active_rank_mask >> rank & 1) != 0; }

std::int32_t word(const std::vector<std::byte>& slice, std::int64_t at) {
  std::int32_t value;
  std::memcpy(&value, slice.data() + at, sizeof value);
  return value;
}

bool same_bytes(const std::vector<std::byte>& slice, std::int64_t at, std::span<const std::byte> wanted) {
  return std::memcmp(slice.data() + at, wanted.data(), wanted.size()) == 0;
}

void check_tables(const std::vector<std::byte>& slice, const AllToAllConfig& config, const TokenBatch& batch) {
  const WorkspaceLayout at = config.layout();
  std::vector<std::int32_t> next(static_cast<std::size_t>(config.ep_size), 0);
  std::int64_t wrong = 0;
  for (std::int64_t t = 0; t < batch.tokens(); ++t) {
    std::vector<int> seen;
    for (int j = 0; j < config.top_k; ++j) {
      const std::int64_t entry = t * config.top_k + j;
      const int rank = owner(batch.expert_ids()[static_cast<std::size_t>(entry)], config);
      const bool is_new = is_alive(config, rank) && std::find(seen.begin(), seen.end(), rank) == seen.end();
      seen.push_back(rank);
      const std::int32_t target = is_new ? rank : -1;
      const std::int32_t slot = is_new ? next[static_cast<std::size_t>(rank)]++ : -1;
      wrong += word(slice, at.topk_target_ranks + 4 * entry) != target ||
               word(slice, at.topk_send_indices + 4 * entry) != slot;
    }
  }
  CHECK(wrong == 0);
}

std::int64_t wrong_rows(const std::vector<std::byte>& slice, const AllToAllConfig& config, const TokenBatch& batch,
                        const std::vector<std::int64_t>& tokens, std::int64_t first_row, std::int64_t runtime_max) {
  std::int64_t region = config.layout().payload_data, wrong = 0;
  for (int p = 0; p < static_cast<int>(config.payload_bytes_per_token.size()); ++p) {
    const std::int64_t bytes = config.payload_bytes_per_token[static_cast<std::size_t>(p)];
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto row =
          batch.payload(p).subspan(static_cast<std::size_t>(tokens[i] * bytes), static_cast<std::size_t>(bytes));
      wrong += same_bytes(slice, region + (first_row + static_cast<std::int64_t>(i)) * bytes, row) ? 0 : 1;
    }
    region += config.ep_size * runtime_max * bytes;
  }
  return wrong;
}

std::int64_t rows_not_invalid(const std::vector<std::byte>& slice, const AllToAllConfig& config, std::int64_t first_row,
                              std::int64_t end_row, std::int64_t runtime_max, std::int32_t invalid_id) {
  std::int64_t region = config.layout().payload_data, wrong = 0;
  for (int p = 0; p < config.expert_id_payload; ++p) {
    region += config.ep_size * runtime_max * config.payload_bytes_per_token[static_cast<std::size_t>(p)];
  }
  const std::int64_t bytes = config.payload_bytes_per_token[static_cast<std::size_t>(config.expert_id_payload)];
  for (std::int64_t at = region + first_row * bytes; at < region + end_row * bytes; at += 4) {
    wrong += word(slice, at) == invalid_id ? 0 : 1;
  }
  return wrong;
}

}  // namespace

SentTokens sent_tokens(const std::vector<AllToAllConfig>& configs, const std::vector<TokenBatch>& batches) {
  const std::size_t ranks = configs.size();
  SentTokens sent(ranks, std::vector<std::vector<std::int64_t>>(ranks));
  for (std::size_t r = 0; r < ranks; ++r) {
    if (!is_alive(configs[r], static_cast<int>(r))) continue;
    for (std::int64_t t = 0; t < batches[r].tokens(); ++t) {
      for (int j = 0; j < configs[r].top_k; ++j) {
        const int d = owner(batches[r].expert_ids()[static_cast<std::size_t>(t * configs[r].top_k + j)], configs[r]);
        std::vector<std::int64_t>& list = sent[r][static_cast<std::size_t>(d)];
        if (is_alive(configs[r], d) && (list.empty() || list.back() != t)) list.push_back(t);
      }
    }
  }
  return sent;
}

void check_received(AllToAll& all_to_all, const std::vector<AllToAllConfig>& configs,
                    const std::vector<TokenBatch>& batches, std::int64_t runtime_max, const std::int32_t* invalid_id) {
  const SentTokens sent = sent_tokens(configs, batches);
  for (std::size_t d = 0; d < configs.size(); ++d) {
    const AllToAllConfig& config = configs[d];
    if (!is_alive(config, static_cast<int>(d))) continue;
    CAPTURE(d);
    const auto slice = all_to_all.read_slice(static_cast<int>(d));
    REQUIRE(slice.has_value());
    check_tables(*slice, config, batches[d]);
    for (std::size_t s = 0; s < configs.size(); ++s) {
      if (!is_alive(config, static_cast<int>(s))) continue;
      CAPTURE(s);
      const auto count = static_cast<std::int64_t>(sent[s][d].size());
      const std::int64_t first_row = static_cast<std::int64_t>(s) * runtime_max;
      CHECK(word(*slice, config.layout().recv_counters + 4 * static_cast<std::int64_t>(s)) == count);
      CHECK(word(*slice, config.layout().send_counters + 4 * static_cast<std::int64_t>(s)) ==
            static_cast<std::int64_t>(sent[d][s].size()));
      CHECK(wrong_rows(*slice, config, batches[s], sent[s][d], first_row, runtime_max) == 0);
      if (invalid_id == nullptr) continue;
      CHECK(rows_not_invalid(*slice, config, first_row + count, first_row + runtime_max, runtime_max, *invalid_id) ==
            0);
    }
  }
}

void check_outputs(const std::vector<AllToAllConfig>& configs, const std::vector<TokenBatch>& batches,
                   const ExpertPayloads& payloads, const std::vector<std::vector<std::byte>>& outputs) {
  REQUIRE(outputs.size() == configs.size());
  for (std::size_t r = 0; r < configs.size(); ++r) {
    CAPTURE(r);
    const AllToAllConfig& config = configs[r];
    const auto exact = reference_alltoall(config, batches[r].tokens(), batches[r].expert_ids(), batches[r].weights(),
                                          batches[r].payload(payloads.hidden_payload));
    REQUIRE(exact.has_value());
    CHECK((outputs[r] == *exact));
    const auto dense = batches[r].reference(config, payloads, ClosedFormExperts());
    const auto values = decode(config.combine_type, outputs[r]);
    REQUIRE(dense.has_value());
    REQUIRE(values.has_value());
    REQUIRE(values->size() == dense->output.size());
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < values->size(); ++i) {
      const double bound =
          tolerance(Tolerance::accumulated, config.combine_type, dense->output[i], dense->magnitude[i]);
      wrong += std::abs((*values)[i] - dense->output[i]) <= bound ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

std::vector<DispatchInput> inputs_of(const std::vector<TokenBatch>& batches, std::int64_t runtime_max) {
  std::vector<DispatchInput> inputs;
  for (const TokenBatch& batch : batches) inputs.push_back(batch.input(runtime_max));
  return inputs;
}

}  // namespace a2asim::conformance
