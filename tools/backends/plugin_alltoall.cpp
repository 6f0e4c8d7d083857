#include "tools/backends/plugin_alltoall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "model/alltoall/error.h"
#include "model/base/check_invariant.h"
#include "sim/conformance/results.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMostWorkspace_bytes = std::int64_t{8} << 30;
constexpr std::int64_t kRedZone_bytes = 4096;
constexpr std::byte kRedZone{0xA5}, kUnwritten{0xFF};

a2asim_rank_v1 rank_of(const AllToAllConfig& config) {
  A2ASIM_INVARIANT(config.payload_bytes_per_token.size() <= A2ASIM_BACKEND_MAX_PAYLOADS,
                   "a configuration was validated");
  a2asim_rank_v1 rank = {};
  rank.top_k = config.top_k;
  rank.num_payloads = static_cast<std::int32_t>(config.payload_bytes_per_token.size());
  rank.num_experts = config.num_experts;
  rank.max_num_tokens = config.max_num_tokens;
  rank.expert_id_payload = config.expert_id_payload;
  rank.combine_type = static_cast<std::int32_t>(config.combine_type);
  rank.hidden_size = config.hidden_size;
  rank.max_top_k = config.max_top_k;
  rank.payload_alignment = static_cast<std::int32_t>(config.payload_alignment);
  rank.skips_invalid_ids = config.skips_invalid_ids ? 1 : 0;
  rank.active_rank_mask = config.active_rank_mask;
  for (std::size_t p = 0; p < config.payload_bytes_per_token.size(); ++p) {
    const std::int64_t bytes = config.payload_bytes_per_token[p];
    rank.payload_bytes_per_token[p] = bytes;
    rank.payload_element_bytes[p] = bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1;
  }
  return rank;
}

}  // namespace

Result<std::unique_ptr<PluginAllToAll>> PluginAllToAll::create(std::shared_ptr<PluginSession> session,
                                                               const DeviceRequest& request, std::int64_t timeout_ms) {
  std::unique_ptr<PluginAllToAll> made(new PluginAllToAll(std::move(session)));
  for (const AllToAllConfig& config : request.configs)
    if (auto ok = validate(config); !ok) return tl::unexpected(ok.error());
  if (auto ok = made->construct(request, timeout_ms); !ok) return tl::unexpected(ok.error());
  return made;
}

Result<void> PluginAllToAll::construct(const DeviceRequest& request, std::int64_t timeout_ms) {
  A2ASIM_INVARIANT(!request.configs.empty() && object_ == nullptr,
                   "an object is made once, with a configuration a rank");
  session_->object_made();
  capabilities_ = session_->capabilities();
  capabilities_ = request.guard && capabilities_.has(Capability::guard) ? capabilities_.without(Capability::unequal_r)
                                                                        : capabilities_.without(Capability::guard);
  configs_ = request.configs;
  local_ranks_ = request.local_ranks;
  if (local_ranks_.empty()) {
    local_ranks_.resize(configs_.size());
    std::iota(local_ranks_.begin(), local_ranks_.end(), 0);
  }
  const auto ranks = std::ssize(configs_), local = std::ssize(local_ranks_);
  session_->memory().begin();
  auto* const group = session_->memory().take<a2asim_group_v1>(1);
  auto* const rank = session_->memory().take<a2asim_rank_v1>(ranks);
  auto* const locals = session_->memory().take<std::int32_t>(local);
  auto* const memory = session_->memory().take<void*>(local);
  if (memory == nullptr) return no_room();
  std::ranges::transform(configs_, rank, rank_of);
  std::ranges::copy(local_ranks_, locals);
  std::fill_n(memory, local, nullptr);
  *group = {};
  group->ep_size = static_cast<std::int32_t>(ranks);
  group->num_local = static_cast<std::int32_t>(local);
  group->ranks = rank;
  group->local_ranks = locals;
  group->memory = memory;
  group->guard = request.guard ? 1 : 0;
  group->timeout_ms = timeout_ms;
  group_ = group;
  session_->memory().keep();
  if (auto ok = give_memory(*group); !ok) return ok;
  PluginCall& call = begin(PluginOp::create);
  if (auto ok = session_->run(call); !ok) return ok;
  object_ = call.object;
  runtime_max_.assign(local_ranks_.size(), 0);
  tokens_.assign(local_ranks_.size(), 0);
  return {};
}

// Host memory where the plug-in wants it, between red zones.
Result<void> PluginAllToAll::give_memory(a2asim_group_v1& group) {
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    PluginCall& call = begin(PluginOp::workspace_bytes);
    call.a = static_cast<std::int32_t>(local);
    if (auto ok = session_->run(call); !ok) return ok;
    const std::int64_t bytes = call.number;
    if (bytes < 0 || bytes > kMostWorkspace_bytes)
      return session_->distrust(fmt::format("a workspace of {} bytes for rank {}", bytes, local_ranks_[local]));
    memory_.emplace_back();
    if (bytes == 0) continue;
    session_->memory().begin();
    auto* const zone = session_->memory().take<std::byte>(bytes + 2 * kRedZone_bytes);
    if (zone == nullptr) return no_room();
    session_->memory().keep();
    std::memset(zone, std::to_integer<int>(kRedZone), static_cast<std::size_t>(bytes + 2 * kRedZone_bytes));
    std::memset(zone + kRedZone_bytes, 0, static_cast<std::size_t>(bytes));
    memory_.back() = {zone + kRedZone_bytes, static_cast<std::size_t>(bytes)};
    const_cast<void**>(group.memory)[local] = zone + kRedZone_bytes;  // NOLINT: ours, const to the plug-in
  }
  return {};
}

PluginAllToAll::~PluginAllToAll() {
  if (object_ != nullptr && !session_->ended()) static_cast<void>(session_->run(begin(PluginOp::destroy)));
  session_->object_gone();
}

PluginCall& PluginAllToAll::begin(PluginOp op) {
  PluginCall& call = session_->begin(op);
  call.object = object_;
  call.group = group_;
  return call;
}

std::size_t PluginAllToAll::local_of(int rank) const {
  const auto at = std::ranges::find(local_ranks_, rank) - local_ranks_.begin();
  A2ASIM_INVARIANT(at < std::ssize(local_ranks_), "the rank is driven here");
  return static_cast<std::size_t>(at);
}

Result<void> PluginAllToAll::need(Capability capability) const {
  if (capabilities_.has(capability)) return {};
  return fail(ErrorKind::runtime_error, fmt::format("{} lacks '{}'", session_->name(), name(capability)));
}

void PluginAllToAll::set_active_rank_mask(RankMask mask) {
  if (!need(Capability::rank_mask)) return;
  PluginCall& call = begin(PluginOp::set_rank_mask);
  call.mask = mask.bits();
  static_cast<void>(session_->run(call));
  for (AllToAllConfig& config : configs_) config.active_rank_mask = mask.bits();
}

Result<void> PluginAllToAll::check_red_zones() {
  for (std::size_t local = 0; local < memory_.size(); ++local) {
    const std::span<std::byte> own = memory_[local];
    if (own.empty()) continue;
    const std::span before(own.data() - kRedZone_bytes, kRedZone_bytes), after(own.data() + own.size(), kRedZone_bytes);
    const auto is_touched = [](std::byte byte) { return byte != kRedZone; };
    if (std::ranges::any_of(before, is_touched) || std::ranges::any_of(after, is_touched))
      return fail(ErrorKind::runtime_error,
                  fmt::format("bytes beside the memory of rank {} were written", local_ranks_[local]));
  }
  return session_->run(begin(PluginOp::check));
}

// Copies of the inputs where the plug-in can see them.
Result<const a2asim_input_v1*> PluginAllToAll::share(std::span<const DispatchInput> inputs) {
  if (inputs.size() != local_ranks_.size())
    return fail(ErrorKind::bad_input,
                fmt::format("{} inputs for {} ranks; give one a rank", inputs.size(), local_ranks_.size()));
  SharedMemory& memory = session_->memory();
  auto* const shared = memory.take<a2asim_input_v1>(std::ssize(inputs));
  if (shared == nullptr) return no_room();
  for (std::size_t local = 0; local < inputs.size(); ++local) {
    const DispatchInput& input = inputs[local];
    shared[local] = {};
    shared[local].runtime_max_tokens_per_rank = input.runtime_max_tokens_per_rank;
    shared[local].num_tokens = input.local_num_tokens;
    auto* const ids = memory.take<std::int32_t>(std::ssize(input.token_selected_experts));
    if (ids == nullptr) return no_room();
    std::ranges::copy(input.token_selected_experts, ids);
    shared[local].expert_ids = ids;
    for (std::size_t p = 0; p < input.payloads.size() && p < A2ASIM_BACKEND_MAX_PAYLOADS; ++p) {
      auto* const bytes = memory.take<std::byte>(std::ssize(input.payloads[p]));
      if (bytes == nullptr) return no_room();
      std::ranges::copy(input.payloads[p], bytes);
      shared[local].payloads[p] = bytes;
    }
  }
  return shared;
}

Result<void> PluginAllToAll::dispatch(std::span<const DispatchInput> inputs) {
  PluginCall& call = begin(PluginOp::dispatch);
  const auto shared = share(inputs);
  if (!shared) return tl::unexpected(shared.error());
  for (std::size_t local = 0; local < inputs.size(); ++local)
    if (auto ok = check_spans(config_of(local), local_ranks_[local], inputs[local], true); !ok) return ok;
  call.inputs = *shared;
  if (auto ok = session_->run(call); !ok) return ok;
  for (std::size_t local = 0; local < inputs.size(); ++local) {
    runtime_max_[local] = inputs[local].runtime_max_tokens_per_rank;
    tokens_[local] = inputs[local].local_num_tokens;
  }
  return {};
}

Result<void> PluginAllToAll::sanitize(std::int32_t invalid_expert_id) {
  if (!capabilities_.has(Capability::sanitize)) return {};  // the experts here look at rows that were received only
  PluginCall& call = begin(PluginOp::sanitize);
  call.a = invalid_expert_id;
  return session_->run(call);
}

Result<void> PluginAllToAll::experts(const ExpertPayloads& payloads) {
  if (capabilities_.has(Capability::experts) && !payloads.is_quantised()) {  // a table's experts know no scales
    PluginCall& call = begin(PluginOp::experts);
    call.a = payloads.hidden_payload;
    call.b = payloads.weight_payload;
    return session_->run(call);
  }
  for (const int rank : local_ranks_) {
    const auto& config = configs_[static_cast<std::size_t>(rank)];
    if ((config.active_rank_mask >> rank & 1) == 0) continue;
    const auto rows = received(rank);
    if (!rows) return tl::unexpected(rows.error());
    const auto results = conformance::closed_form_results(config, rank, *rows, payloads);
    if (auto ok = give_results(rank, results); !ok) return ok;
  }
  return {};
}

// Room for every local rank's outputs, filled so that what nobody writes shows.
void** PluginAllToAll::share_outputs() {
  auto* const shared = session_->memory().take<void*>(std::ssize(local_ranks_));
  for (std::size_t local = 0; shared != nullptr && local < local_ranks_.size(); ++local) {
    const std::int64_t bytes = tokens_[local] * config_of(local).combine_bytes_per_token();
    shared[local] = session_->memory().take<std::byte>(bytes);
    if (shared[local] == nullptr) return nullptr;
    std::memset(shared[local], std::to_integer<int>(kUnwritten), static_cast<std::size_t>(bytes));
  }
  return shared;
}

void PluginAllToAll::take_outputs(void** shared, std::vector<std::vector<std::byte>>& outputs) const {
  outputs.assign(local_ranks_.size(), {});
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    const AllToAllConfig& config = config_of(local);
    if ((config.active_rank_mask >> local_ranks_[local] & 1) == 0) continue;
    const auto* const begin = static_cast<const std::byte*>(shared[local]);
    outputs[local].assign(begin, begin + tokens_[local] * config.combine_bytes_per_token());
  }
}

Result<void> PluginAllToAll::combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                                     std::vector<std::vector<std::byte>>& outputs) {
  if (runtime_max_tokens_per_rank.size() != local_ranks_.size())
    return fail(ErrorKind::bad_input, "combine needs one R for each local rank");
  PluginCall& call = begin(PluginOp::combine);
  auto* const sizes = session_->memory().take<std::int64_t>(std::ssize(runtime_max_tokens_per_rank));
  void** const shared = share_outputs();
  if (sizes == nullptr || shared == nullptr) return no_room();
  std::ranges::copy(runtime_max_tokens_per_rank, sizes);
  call.runtime_max = sizes;
  call.outputs = shared;
  std::vector<void*> kept(shared, shared + local_ranks_.size());
  if (auto ok = session_->run(call); !ok) return ok;
  take_outputs(kept.data(), outputs);
  return check_red_zones();
}

Result<GraphId> PluginAllToAll::capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                                        const ExpertPayloads& payloads) {
  if (auto ok = need(Capability::graphs); !ok) return tl::unexpected(ok.error());
  if (payloads.is_quantised())
    return fail(ErrorKind::runtime_error,
                "SKIPPED: experts of quantised rows run on the host, which a graph cannot capture");
  PluginCall& call = begin(PluginOp::capture);
  const auto shared = share(inputs);
  if (!shared) return tl::unexpected(shared.error());
  auto* const graph = session_->memory().take<std::int32_t>(1);
  if (graph == nullptr) return no_room();
  call.inputs = *shared;
  call.a = invalid_expert_id;
  call.b = payloads.hidden_payload;
  call.c = payloads.weight_payload;
  call.words = graph;
  *graph = -1;
  if (auto ok = session_->run(call); !ok) return tl::unexpected(ok.error());
  if (*graph < 0) return session_->distrust(fmt::format("graph {}", *graph));
  std::vector<std::int64_t> sizes;
  for (const DispatchInput& input : inputs) sizes.push_back(input.runtime_max_tokens_per_rank);
  captured_[*graph] = std::move(sizes);
  return *graph;
}

Result<void> PluginAllToAll::replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                                    std::vector<std::vector<std::byte>>& outputs) {
  if (auto ok = need(Capability::graphs); !ok) return ok;
  if (graphs.size() != local_ranks_.size())
    return fail(ErrorKind::bad_input, "replay needs one graph for each local rank");
  PluginCall& call = begin(PluginOp::replay);
  const auto shared = share(inputs);
  if (!shared) return tl::unexpected(shared.error());
  for (std::size_t local = 0; local < inputs.size(); ++local) {
    tokens_[local] = inputs[local].local_num_tokens;
    const auto known = captured_.find(graphs[local]);
    runtime_max_[local] = known == captured_.end() ? inputs[local].runtime_max_tokens_per_rank : known->second[local];
  }
  auto* const words = session_->memory().take<std::int32_t>(std::ssize(graphs));
  void** const room = share_outputs();
  if (words == nullptr || room == nullptr) return no_room();
  std::ranges::copy(graphs, words);
  call.words = words;
  call.inputs = *shared;
  call.outputs = room;
  std::vector<void*> kept(room, room + local_ranks_.size());
  if (auto ok = session_->run(call); !ok) return ok;
  take_outputs(kept.data(), outputs);
  return check_red_zones();
}

Result<std::vector<std::byte>> PluginAllToAll::read_slice(int rank) {
  if (auto ok = need(Capability::readable_workspace); !ok) return tl::unexpected(ok.error());
  if (rank < 0 || rank >= static_cast<int>(configs_.size()))
    return fail(ErrorKind::bad_input, fmt::format("there is no rank {}", rank));
  PluginCall& call = begin(PluginOp::read_workspace);
  const std::int64_t bytes = configs_[static_cast<std::size_t>(rank)].workspace_bytes();
  auto* const to = session_->memory().take<std::byte>(bytes);
  if (to == nullptr) return no_room();
  call.a = rank;
  call.to = to;
  call.bytes = bytes;
  if (auto ok = session_->run(call); !ok) return tl::unexpected(ok.error());
  return std::vector<std::byte>(to, to + bytes);
}

SliceView PluginAllToAll::slice_view(int rank) const {
  A2ASIM_INVARIANT(rank >= 0 && rank < static_cast<int>(configs_.size()), "a slice is of a rank");
  const auto at = std::ranges::find(local_ranks_, rank) - local_ranks_.begin();
  return {&configs_[static_cast<std::size_t>(rank)],
          at < std::ssize(local_ranks_) ? runtime_max_[static_cast<std::size_t>(at)] : 0};
}

Result<void> PluginAllToAll::poison(std::byte value) {
  if (auto ok = need(Capability::readable_workspace); !ok) return ok;
  PluginCall& call = begin(PluginOp::poison);
  call.a = std::to_integer<std::int32_t>(value);
  return session_->run(call);
}

Result<std::vector<std::int32_t>> PluginAllToAll::slots(int rank) {
  if (auto ok = need(Capability::told_slots); !ok) return tl::unexpected(ok.error());
  const std::size_t local = local_of(rank);
  PluginCall& call = begin(PluginOp::slots);
  const std::int64_t entries = tokens_[local] * config_of(local).top_k;
  auto* const words = session_->memory().take<std::int32_t>(entries);
  if (words == nullptr) return no_room();
  std::fill_n(words, entries, -1);
  call.a = static_cast<std::int32_t>(local);
  call.words = words;
  if (auto ok = session_->run(call); !ok) return tl::unexpected(ok.error());
  return std::vector<std::int32_t>(words, words + entries);
}

}  // namespace a2asim
