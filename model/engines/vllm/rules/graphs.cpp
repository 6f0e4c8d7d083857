#include "model/engines/vllm/rules/graphs.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace a2asim::vllm {
namespace {

using enum GraphMode;

constexpr std::array kSettings = {
    GraphSetting{"NONE", none, none, false},
    GraphSetting{"PIECEWISE", piecewise, piecewise, false},
    GraphSetting{"FULL", full, full, false},
    GraphSetting{"FULL_DECODE_ONLY", full, none, true},
    GraphSetting{"FULL_AND_PIECEWISE", full, piecewise, true},
};

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, {}, [](unsigned char c) { return std::toupper(c); }, [](unsigned char c) { return std::toupper(c); });
}

enum class FullKeys : std::uint8_t { of_any_batch, of_its_requests, of_its_size };

// The graph of mode FULL that would serve the batch.
bool has_full_graph(const Graphs& graphs, std::int64_t padded, bool uniform_decode, FullKeys keys) {
  const GraphSetting& setting = *graphs.setting;
  if (setting.is_separate)
    return uniform_decode && setting.decode == full && padded >= graphs.width &&
           padded <= graphs.width * graphs.max_num_seqs;
  if (setting.mixed != full) return false;
  if (keys != FullKeys::of_its_requests || !uniform_decode) return true;
  return padded / graphs.width == std::min(padded, graphs.max_num_seqs);
}

Result<Dispatched> dispatch(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode, unsigned allowed,
                            FullKeys keys) {
  const Dispatched eager{none, num_tokens};
  const std::int64_t padded = graphs.padded(num_tokens);
  if (graphs.setting->decode == none || padded == 0 || (allowed & all_but(none)) == 0) return eager;
  const bool counts_requests = uniform_decode && graphs.setting->decode == full &&
                               (graphs.setting->is_separate || keys != FullKeys::of_its_size);
  if (counts_requests && padded % graphs.width != 0)
    return fail(ErrorKind::assertion_error, "num_tokens_padded % uniform_decode_query_len == 0");
  if ((allowed & only(full)) != 0 && has_full_graph(graphs, padded, uniform_decode, keys))
    return Dispatched{full, padded};
  if ((allowed & only(piecewise)) != 0 && graphs.setting->mixed == piecewise) return Dispatched{piecewise, padded};
  if ((allowed & only(none)) != 0) return eager;
  return fail(ErrorKind::assertion_error, "No matching cudagraph found and NONE is not in allowed_modes");
}

}  // namespace

std::string_view name(GraphMode mode) { return mode == none ? "NONE" : mode == piecewise ? "PIECEWISE" : "FULL"; }

const GraphSetting* find_graph_setting(std::string_view name) {
  const auto* const found =
      std::ranges::find_if(kSettings, [&](const GraphSetting& one) { return equal_in_any_case(one.name, name); });
  return found == kSettings.end() ? nullptr : &*found;
}

const GraphSetting& no_graphs() { return kSettings.front(); }

std::int64_t Graphs::padded(std::int64_t num_tokens) const {
  const auto size = std::ranges::lower_bound(sizes, num_tokens);
  return size == sizes.end() ? 0 : *size;
}

Result<Dispatched> dispatch_pr28579(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode,
                                    unsigned allowed) {
  return dispatch(graphs, num_tokens, uniform_decode, allowed | only(none), FullKeys::of_any_batch);
}

Result<Dispatched> dispatch_pr34102(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode,
                                    unsigned allowed) {
  return dispatch(graphs, num_tokens, uniform_decode, allowed, FullKeys::of_its_requests);
}

Result<Dispatched> dispatch_pr36165(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode,
                                    unsigned allowed) {
  return dispatch(graphs, num_tokens, uniform_decode, allowed, FullKeys::of_its_size);
}

Candidates::Candidates(const Graphs& graphs, bool rounds_up) {
  const GraphSetting& setting = *graphs.setting;
  if (setting.decode == none || graphs.sizes.empty()) return;
  const std::int64_t most = graphs.width * graphs.max_num_seqs;
  for (const std::int64_t size : graphs.sizes) {
    const std::int64_t reqs = rounds_up ? (size + graphs.width - 1) / graphs.width : size / graphs.width;
    const std::int64_t tokens = rounds_up ? reqs * graphs.width : size;
    const bool fits = tokens >= graphs.width && tokens <= most && (!rounds_up || tokens <= graphs.sizes.back());
    const Candidate decode{setting.decode, tokens, reqs, graphs.width};
    if (setting.is_separate && fits && std::ranges::find(all_, decode) == all_.end()) all_.push_back(decode);
    if (setting.mixed == none) continue;
    const auto limit = setting.mixed == full ? std::optional(std::min(size, graphs.max_num_seqs)) : std::nullopt;
    all_.push_back({setting.mixed, size, limit, std::nullopt});
  }
  std::ranges::stable_sort(all_, {}, &Candidate::num_tokens);
}

Candidate Candidates::dispatch(std::int64_t num_reqs, std::int64_t num_tokens,
                               std::optional<std::int64_t> uniform_token_count) const {
  const Candidate eager{none, num_tokens, num_reqs, std::nullopt};
  if (num_tokens <= 0) return eager;
  auto at = std::ranges::lower_bound(all_, num_tokens, {}, &Candidate::num_tokens);
  if (at == all_.end()) return eager;
  for (const std::int64_t size = at->num_tokens; at != all_.end() && at->num_tokens == size; ++at) {
    const bool fits = !at->num_reqs || *at->num_reqs >= num_reqs;
    if (fits && (!at->uniform_token_count || at->uniform_token_count == uniform_token_count)) return *at;
  }
  return eager;
}

}  // namespace a2asim::vllm
