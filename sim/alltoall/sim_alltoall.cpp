#include "sim/alltoall/sim_alltoall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "model/alltoall/error.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

std::int64_t resident_bytes(const AllToAllConfig& config, Fidelity fidelity) {
  // Counters and flags are real at every fidelity; only bytes are summed by the top-k tables, whose reservation may be
  // larger than the machine.
  return fidelity == Fidelity::numeric ? config.workspace_bytes() : config.layout().topk_target_ranks;
}

std::vector<SymmetricMemory::Size> memory_sizes(const std::vector<AllToAllConfig>& configs, Fidelity fidelity) {
  std::vector<SymmetricMemory::Size> sizes;
  for (const AllToAllConfig& config : configs) {
    sizes.push_back({config.workspace_bytes(), resident_bytes(config, fidelity)});
  }
  return sizes;
}

}  // namespace

Result<std::unique_ptr<SimAllToAll>> SimAllToAll::create(std::vector<AllToAllConfig> configs,
                                                         const SimOptions& options) {
  if (configs.empty()) return fail(ErrorKind::bad_input, "simulated all-to-all: no ranks; give one config per rank");
  for (std::size_t r = 0; r < configs.size(); ++r) {
    if (auto ok = validate(configs[r]); !ok) return tl::unexpected(ok.error());
    if (configs[r].ep_size != static_cast<int>(configs.size())) {
      return fail(ErrorKind::bad_input,
                  fmt::format("simulated all-to-all: rank {} has ep_size {}; give {}, one config per rank", r,
                              configs[r].ep_size, configs.size()));
    }
    if (options.fidelity == Fidelity::numeric && configs[r].combine_type == DataType::opaque) {
      return fail(ErrorKind::bad_input,
                  "simulated all-to-all: opaque bytes cannot be summed; give a float combine_type");
    }
  }
  return std::unique_ptr<SimAllToAll>(new SimAllToAll(std::move(configs), options));
}

SimAllToAll::SimAllToAll(std::vector<AllToAllConfig> configs, const SimOptions& options)
    : ep_size_(static_cast<int>(configs.size())),
      options_(options),
      local_ranks_(configs.size()),
      ranks_(configs.size()),
      memory_(memory_sizes(configs, options.fidelity)),
      records_(ep_size_),
      rows_(configs.size()),
      inspector_(rows_, shadows_, records_),
      rank_geometry_(configs.size()),
      log_(options.findings_per_kind) {
  A2ASIM_INVARIANT(ep_size_ >= 1 && ep_size_ <= kMaxRanks, "a mask has a bit a rank");
  std::iota(local_ranks_.begin(), local_ranks_.end(), 0);
  for (const int r : local_ranks_) shadows_.emplace_back(r, records_);
  for (std::size_t r = 0; r < configs.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.config = configs[r];
    equal_configs_ = equal_configs_ && configs[r] == configs[0];
    const AllToAllConfig& config = rank.config;
    rank.at = config.layout();
    rank.rank_of_expert.resize(static_cast<std::size_t>(config.num_experts));
    for (std::int64_t e = 0; e < config.num_experts; ++e) {
      rank.rank_of_expert[static_cast<std::size_t>(e)] =
          static_cast<std::int8_t>(target_rank(e, config.num_experts, ep_size_));
    }
    rows_[r].send_counters = counters(static_cast<int>(r), rank.at.send_counters);
    rows_[r].recv_counters = counters(static_cast<int>(r), rank.at.recv_counters);
    rank.kernels = row_kernels(config.combine_type, config.top_k);
    rank.zero_row.assign(static_cast<std::size_t>(config.combine_bytes_per_token()), std::byte{0});
    rank_geometry_[r] = {0,
                         0,
                         config.max_num_tokens,
                         rank.at.payload_data,
                         config.dispatch_bytes_per_token(),
                         config.combine_bytes_per_token(),
                         memory_.slice_bytes(static_cast<int>(r))};
  }
  if (is_numeric() && options_.poison) static_cast<void>(poison(*options_.poison));
}

void SimAllToAll::reset() {
  memory_.zero();
  A2ASIM_INVARIANT(memory_.guards_intact(), "guard bytes of a slice were overwritten");
  for (Shadow& shadow : shadows_) shadow.clear();
  round_ = 0;
  is_dispatched_ = false;
  stuck_.reset();
  if (is_numeric() && options_.poison) static_cast<void>(poison(*options_.poison));
}

Result<void> SimAllToAll::poison(std::byte value) {
  for (Shadow& shadow : shadows_) shadow.clear();
  if (!is_numeric()) return {};
  for (int r = 0; r < ep_size_; ++r) {
    const std::int64_t begin = rank_at(r).at.payload_data;
    const std::int64_t bytes = memory_.resident_bytes(r) - begin;
    A2ASIM_INVARIANT(bytes >= 0, "regions lie behind the tables");
    std::memset(memory_.at(r, begin, bytes), static_cast<int>(value), static_cast<std::size_t>(bytes));
  }
  return {};
}

void SimAllToAll::settle_race(int rank, std::int64_t at_bytes, std::span<const std::byte> bytes) {
  A2ASIM_INVARIANT(is_numeric() && is_dispatched_, "a race is settled between dispatch and experts, in bytes");
  std::ranges::copy(bytes, memory_.at(rank, at_bytes, static_cast<std::int64_t>(bytes.size())));
}

Result<std::vector<std::byte>> SimAllToAll::read_slice(int rank) {
  if (rank < 0 || rank >= ep_size_) {
    return fail(ErrorKind::bad_input, fmt::format("read_slice: there is no rank {}; give 0..{}", rank, ep_size_ - 1));
  }
  if (!is_numeric()) return fail(ErrorKind::bad_input, "read_slice: only numeric fidelity keeps payload bytes");
  const std::byte* bytes = memory_.at(rank, 0, memory_.slice_bytes(rank));
  return std::vector<std::byte>(bytes, bytes + memory_.slice_bytes(rank));
}

std::int64_t SimAllToAll::recv_counter(int rank, int source) const {
  A2ASIM_INVARIANT(is_rank(rank) && is_rank(source), "counters are of ranks");
  return counters(rank, rank_at(rank).at.recv_counters)[source];
}

RankMask SimAllToAll::ranks_not_absent() const {
  RankMask mask = RankMask::all(ep_size_) - absent_;
  for (const int r : mask)
    if (!is_active(rank_at(r), r)) mask.remove(r);
  return mask;
}

Finding SimAllToAll::finding(FindingKind kind, Severity severity, Operation operation, int rank) const {
  A2ASIM_INVARIANT(rank < ep_size_, "a finding is of a rank, or of all");
  Finding result;
  result.kind = kind;
  result.severity = severity;
  result.step = context_.step;
  result.layer = context_.layer;
  result.phase = context_.phase;
  result.operation = operation;
  result.rank = rank;
  return result;
}

// MoeAlltoAll goes idle -> dispatched -> idle and asserts it.
Result<void> SimAllToAll::check_turn(bool wants_dispatched, std::string_view call) const {
  if (stuck_) return tl::unexpected(*stuck_);
  if (is_dispatched_ == wants_dispatched) return {};
  return fail(ErrorKind::assertion_error,
              fmt::format("{}: called {} dispatch", call,
                          wants_dispatched ? "without a" : "again before combine ended the last"));
}

// The prepare kernel: each rank's round counter.
void SimAllToAll::advance_flags() {
  A2ASIM_INVARIANT(!taking_part_.empty(), "a round has somebody in it");
  ++round_;
  for (int r = 0; r < ep_size_; ++r) {
    if (takes_part(r)) ++*memory_.words(r, rank_at(r).at.flag_val, 1);
  }
}

// Everybody writes its round counter into every active peer's slice, then waits until all active peers' equal its own.
Result<void> SimAllToAll::exchange_flags(Operation operation, std::int64_t WorkspaceLayout::*flags) {
  A2ASIM_INVARIANT(round_ > 0 && flags != nullptr, "flags are exchanged in a round");
  for (int r = 0; r < ep_size_; ++r) {
    if (!takes_part(r)) continue;
    const Rank& rank = rank_at(r);
    const std::int32_t value = *memory_.words(r, rank.at.flag_val, 1);
    for (int d = 0; d < ep_size_; ++d) {
      if (is_active(rank, d)) counters(d, rank.at.*flags)[r] = value;
    }
  }
  std::vector<AllToAllError> waits;
  for (int r = 0; r < ep_size_; ++r) {
    if (!takes_part(r)) continue;
    const Rank& rank = rank_at(r);
    const std::int32_t value = *memory_.words(r, rank.at.flag_val, 1);
    const std::int32_t* seen = counters(r, rank.at.*flags);
    for (int peer = 0; peer < ep_size_; ++peer) {
      if (!is_active(rank, peer) || seen[peer] == value) continue;
      Finding missing = finding(FindingKind::missing_rank, Severity::error, operation, r);
      missing.root = root_;
      missing.peer = peer;
      missing.value = seen[peer];
      missing.limit = value;
      missing.subject = "completion flag";
      log_.add(std::move(missing));
      waits.push_back({.kind = AllToAllErrorKind::waits,
                       .rank = r,
                       .peer = peer,
                       .in_combine = operation == Operation::combine,
                       .own = seen[peer],
                       .other = value});
    }
  }
  A2ASIM_INVARIANT(memory_.guards_intact(), "guard bytes of a slice were overwritten");
  if (waits.empty()) return {};
  stuck_ = to_error(waits);
  return tl::unexpected(*stuck_);
}

Result<GraphId> SimAllToAll::capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                                     const ExpertPayloads& payloads) {
  if (auto ok = check_inputs(inputs); !ok) return tl::unexpected(ok.error());
  std::vector<GraphNode> nodes;
  for (int r = 0; r < ep_size_; ++r) {
    if (auto ok = check_payloads(rank_at(r), payloads); !ok) return tl::unexpected(ok.error());
    const DispatchInput& input = inputs[static_cast<std::size_t>(r)];
    nodes.push_back({input.runtime_max_tokens_per_rank, input.local_num_tokens, invalid_expert_id, payloads});
  }
  graphs_.push_back(std::move(nodes));
  return static_cast<GraphId>(graphs_.size()) - 1;
}

Result<void> SimAllToAll::replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                                 std::vector<std::vector<std::byte>>& outputs) {
  if (graphs.size() != ranks_.size() || inputs.size() != ranks_.size()) {
    return fail(ErrorKind::bad_input, fmt::format("replay: {} graphs and {} inputs for {} ranks; give one each a rank",
                                                  graphs.size(), inputs.size(), ep_size_));
  }
  std::vector<DispatchInput> baked(inputs.begin(), inputs.end());
  std::vector<std::int64_t> runtime_max(ranks_.size());
  const GraphNode* any = nullptr;
  std::vector<const GraphNode*> nodes(ranks_.size(), nullptr);
  for (std::size_t r = 0; r < graphs.size(); ++r) {
    const GraphId id = graphs[r];
    if (id >= static_cast<GraphId>(graphs_.size()) || id < kEager) {
      return fail(ErrorKind::bad_input,
                  fmt::format("replay: rank {} names graph {}; capture gave 0..{}", r, id, graphs_.size()));
    }
    if (id != kEager) {
      nodes[r] = any = &graphs_[static_cast<std::size_t>(id)][r];
      if (nodes[r]->tokens != inputs[r].local_num_tokens) {
        return fail(ErrorKind::bad_input,
                    fmt::format("replay: rank {} gives {} rows to a graph of {}; pad to the bucket", r,
                                inputs[r].local_num_tokens, nodes[r]->tokens));
      }
      baked[r].runtime_max_tokens_per_rank = nodes[r]->runtime_max;
    }
    runtime_max[r] = baked[r].runtime_max_tokens_per_rank;
  }
  if (any == nullptr) return fail(ErrorKind::bad_input, "replay: no rank replays; call dispatch and the rest instead");
  // A rank that runs eagerly makes the same calls with the same constants.
  for (const GraphNode*& node : nodes) node = node == nullptr ? any : node;
  A2ASIM_INVARIANT(nodes.size() == ranks_.size() && any->tokens >= 0, "every rank has a record to follow");

  if (auto ok = dispatch(baked); !ok) return ok;
  for (int r = 0; r < ep_size_; ++r) {
    const GraphNode& node = *nodes[static_cast<std::size_t>(r)];
    if (!takes_part(r)) continue;
    sanitize_rank(r, node.invalid_expert_id);
    experts_rank(r, node.payloads);
  }
  return combine(runtime_max, outputs);
}

void SimAllToAll::add_to(Digest& digest) const {
  A2ASIM_INVARIANT(rows_.size() == ranks_.size(), "every rank has its rows");
  digest.add(round_);
  for (int r = 0; r < ep_size_; ++r) {
    digest.add(rows_of(r).runtime_max);
    digest.add(rank_at(r).tokens);
    for (int s = 0; s < ep_size_; ++s) digest.add(recv_counter(r, s));
  }
  for (const std::int64_t count : log_.counts()) digest.add(count);
  for (const Finding& found : log_.findings()) digest.add(std::string_view(describe(found)));
}

}  // namespace a2asim
