#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_alltoall.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "gpu/group/process_group.h"

namespace a2asim::gpu {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::float16:
      return ncclFloat16;
    case DataType::float32:
      return ncclFloat32;
    case DataType::float8_e4m3:
      return ncclFloat8e4m3;
    case DataType::opaque:
      break;
  }
  return ncclInt8;
}

// Bytes per token of the payloads in front of this one.
std::int64_t bytes_before(const AllToAllConfig& config, std::size_t payload) {
  std::int64_t sum = 0;
  for (std::size_t p = 0; p < payload; ++p) sum += config.payload_bytes_per_token[p];
  return sum;
}

// Where rank's slice has the rows of this source, by the rank's own R.
std::int64_t rows_bytes(const AllToAllConfig& config, std::size_t payload, int source, std::int64_t runtime_max) {
  return receive_region(config.layout(), config.ep_size, runtime_max, bytes_before(config, payload)) +
         receive_row(source, 0, runtime_max) * config.payload_bytes_per_token[payload];
}

}  // namespace

Result<std::unique_ptr<NcclAllToAll>> NcclAllToAll::create(std::span<const AllToAllConfig> configs, TwoSided way,
                                                           std::span<const int> devices, ProcessGroup* group) {
  if (configs.empty()) return fail(ErrorKind::bad_input, "an all-to-all needs a configuration");
  std::unique_ptr<NcclAllToAll> made(new NcclAllToAll);
  made->way_ = way;
  made->group_ = group;
  made->configs_.assign(configs.begin(), configs.end());
  if (configs.size() == 1) made->configs_.assign(static_cast<std::size_t>(configs[0].ep_size), configs[0]);
  auto communicator = NcclCommunicator::create(configs[0].ep_size, devices, group);
  if (!communicator) return tl::unexpected(communicator.error());
  made->communicator_ = std::move(*communicator);
  auto ok = made->check_way();
  if (ok) ok = made->set_up(devices);
  if (ok = made->agreed(ok); !ok) return tl::unexpected(ok.error());
  return made;
}

Result<void> NcclAllToAll::check_way() const {
  if (way_ == TwoSided::send_recv) return {};
  const bool one_a_gpu = communicator_->world()->placement().places.size() == configs_.size();
  if (!one_a_gpu) return fail(ErrorKind::bad_input, "all-gather and reduce-scatter: give one rank for each GPU");
  for (int rank = 0; rank < static_cast<int>(configs_.size()); ++rank) {
    if (configs_[0] == config(rank) && takes_part(rank) && config(rank).combine_type != DataType::opaque) continue;
    return fail(ErrorKind::bad_input, "all-gather and reduce-scatter: rank " + number(rank) +
                                          " must be active, with numbers to add, and configured as rank 0");
  }
  return {};
}

Result<void> NcclAllToAll::set_up(std::span<const int> devices) {
  const Placement& placement = communicator_->world()->placement();
  for (std::size_t place = 0; place < devices.size(); ++place) {
    Engine engine;
    CudaOptions options;
    options.devices = {devices[place]};
    options.alone = true;
    options.guard = false;
    const auto ranks = local_ranks();
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      if (place_of(ranks[local]) != placement.first_local + place) continue;
      engine.local.push_back(local);
      options.local_ranks.push_back(ranks[local]);
    }
    auto kernels = CudaAllToAll::create(configs_, options);
    if (!kernels) return tl::unexpected(kernels.error());
    engine.kernels = std::move(*kernels);
    engines_.push_back(std::move(engine));
  }
  sizes_.resize(configs_.size());
  return {};
}

std::size_t NcclAllToAll::place_of(int rank) const {
  return communicator_->world()->placement().place_of_rank(static_cast<std::size_t>(rank), configs_.size());
}

CudaAllToAll& NcclAllToAll::kernels_of(int rank) const {
  return *engines_[place_of(rank) - communicator_->world()->placement().first_local].kernels;
}

Result<void> NcclAllToAll::agreed(const Result<void>& own) const {
  return group_ == nullptr ? own : group_->agree(own);
}

template <class Call>
Result<void> NcclAllToAll::on_each_engine(const Call& call) {
  for (Engine& engine : engines_) {
    if (auto ok = call(engine); !ok) return ok;
  }
  for (Engine& engine : engines_) {
    if (auto ok = engine.kernels->finish(); !ok) return ok;
  }
  return {};
}

Result<void> NcclAllToAll::stage(std::span<const DispatchInput> inputs) {
  Result<void> staged;
  if (inputs.size() != local_ranks().size()) {
    staged = fail(ErrorKind::bad_input, number(static_cast<std::int64_t>(inputs.size())) + " inputs for " +
                                            number(static_cast<std::int64_t>(local_ranks().size())) + " local ranks");
  }
  for (Engine& engine : engines_) {
    if (!staged) break;
    std::vector<DispatchInput> own;
    for (const std::size_t local : engine.local) own.push_back(inputs[local]);
    staged = engine.kernels->stage(own);
  }
  if (staged) inputs_.assign(inputs.begin(), inputs.end());
  return agreed(staged);
}

// Everybody's R, tokens, row sizes and counts. What does not fit together is an error everywhere.
Result<void> NcclAllToAll::exchange_sizes() {
  const std::size_t ranks = configs_.size();
  constexpr std::size_t fixed = 3 + kMaxPayloads;  // R, tokens, combine bytes, payload bytes; then the counts
  const std::size_t width = fixed + ranks;
  std::vector<std::int64_t> rows;
  for (std::size_t local = 0; local < inputs_.size(); ++local) {
    const int rank = local_ranks()[local];
    const AllToAllConfig& own = config(rank);
    std::vector<std::int64_t> row(width, 0);
    row[0] = inputs_[local].runtime_max_tokens_per_rank;
    row[1] = inputs_[local].local_num_tokens;
    row[2] = own.combine_bytes_per_token();
    std::copy(own.payload_bytes_per_token.begin(), own.payload_bytes_per_token.end(), row.begin() + 3);
    std::vector<std::int32_t> counts(ranks);
    const std::byte* from = kernels_of(rank).slice(rank) + own.layout().send_counters;
    const int read = cudaMemcpy(counts.data(), from, ranks * 4, cudaMemcpyDefault);
    if (auto ok = cuda_result(read, "reading counts"); !ok) return ok;
    if (takes_part(rank)) std::copy(counts.begin(), counts.end(), row.begin() + static_cast<std::ptrdiff_t>(fixed));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const auto all = communicator_->all_gather(rows, static_cast<int>(width));
  if (!all) return tl::unexpected(all.error());
  counts_.assign(ranks, {});
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t* row = all->data() + rank * width;
    sizes_[rank] = {row[0], row[1]};
    counts_[rank].assign(row + fixed, row + width);
  }
  return check_sizes(*all, width);
}

Result<void> NcclAllToAll::check_sizes(std::span<const std::int64_t> rows, std::size_t width) const {
  const std::size_t ranks = configs_.size();
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const bool is_one_size = way_ == TwoSided::send_recv || rows[rank * width] == rows[0];
    if (is_one_size && std::equal(rows.begin() + 2, rows.begin() + 3 + kMaxPayloads,
                                  rows.begin() + static_cast<std::ptrdiff_t>(rank * width) + 2)) {
      continue;
    }
    return fail(ErrorKind::runtime_error, "rank 0 and rank " + number(static_cast<std::int64_t>(rank)) +
                                              " have different bytes per token" +
                                              (is_one_size ? "" : " or runtime_max_tokens_per_rank"));
  }
  for (std::size_t source = 0; way_ == TwoSided::send_recv && source < ranks; ++source) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (counts_[source][rank] <= sizes_[rank].runtime_max_tokens_per_rank) continue;
      if (counts_[source][rank] == 0) continue;
      return fail(ErrorKind::runtime_error, "rank " + number(static_cast<std::int64_t>(source)) + " sends " +
                                                number(counts_[source][rank]) + " rows to rank " +
                                                number(static_cast<std::int64_t>(rank)) + ", which has room for " +
                                                number(sizes_[rank].runtime_max_tokens_per_rank));
    }
  }
  return {};
}

// One group: [local place] transfers, in the same order on both sides of every pair.
Result<void> NcclAllToAll::carry(const std::vector<std::vector<Transfer>>& transfers, const char* what) {
  NcclWorld& world = *communicator_->world();
  std::vector<std::pair<ncclComm_t, cudaStream_t>> at;
  for (std::size_t local = 0; local < engines_.size(); ++local)
    at.emplace_back(world.comm(local), engines_[local].kernels->stream(0));
  auto ok = world.grouped(what, [transfers, at](std::size_t local) {
    for (const Transfer& one : transfers[local]) {
      const auto bytes = static_cast<std::size_t>(one.bytes);
      const ncclResult_t code = one.sends
                                    ? ncclSend(one.at, bytes, ncclInt8, one.peer, at[local].first, at[local].second)
                                    : ncclRecv(one.at, bytes, ncclInt8, one.peer, at[local].first, at[local].second);
      if (code != ncclSuccess) return code;
    }
    return ncclSuccess;
  });
  return ok ? wait(what) : ok;
}

Result<void> NcclAllToAll::wait(const char* what) {
  for (std::size_t local = 0; local < engines_.size(); ++local) {
    if (auto ok = communicator_->world()->wait(local, engines_[local].kernels->stream(0), what); !ok) return ok;
  }
  return {};
}

Result<void> NcclAllToAll::send_rows() {
  const Placement& placement = communicator_->world()->placement();
  std::vector<std::vector<Transfer>> transfers(engines_.size());
  const int ranks = static_cast<int>(configs_.size());
  for (int source = 0; source < ranks; ++source) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t from = place_of(source), to = place_of(rank);
      const std::int64_t rows = counts_[static_cast<std::size_t>(source)][static_cast<std::size_t>(rank)];
      if (from == to || rows == 0) continue;
      for (std::size_t p = 0; p < configs_[0].payload_bytes_per_token.size(); ++p) {
        // The box has the sender's geometry, the slice its owner's.
        for (const int side : {source, rank}) {
          if (!placement.is_local(place_of(side))) continue;
          const std::int64_t runtime_max = sizes_[static_cast<std::size_t>(side)].runtime_max_tokens_per_rank;
          std::byte* at = kernels_of(side).slice(rank) + rows_bytes(config(side), p, source, runtime_max);
          transfers[place_of(side) - placement.first_local].push_back({side == source, at,
                                                                       rows * config(side).payload_bytes_per_token[p],
                                                                       static_cast<int>(side == source ? to : from)});
        }
      }
    }
  }
  return carry(transfers, "ncclSend and ncclRecv of rows");
}

// Where rank, by its own R, has or wants the partial sums for this source.
std::int64_t NcclAllToAll::combine_rows_bytes(int rank, int source) const {
  const AllToAllConfig& own = config(rank);
  const std::int64_t runtime_max = sizes_[static_cast<std::size_t>(rank)].runtime_max_tokens_per_rank;
  return combine_region(own.layout(), own.ep_size, runtime_max, own.dispatch_bytes_per_token()) +
         receive_row(source, 0, runtime_max) * own.combine_bytes_per_token();
}

Result<void> NcclAllToAll::send_sums() {
  const Placement& placement = communicator_->world()->placement();
  std::vector<std::vector<Transfer>> transfers(engines_.size());
  const int ranks = static_cast<int>(configs_.size());
  for (int source = 0; source < ranks; ++source) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::size_t home = place_of(source), from = place_of(rank);
      const std::int64_t rows = counts_[static_cast<std::size_t>(source)][static_cast<std::size_t>(rank)];
      if (from == home || rows == 0) continue;
      const std::int64_t bytes = rows * configs_[0].combine_bytes_per_token();
      if (placement.is_local(from)) {
        std::byte* at = kernels_of(rank).slice(rank) + combine_rows_bytes(rank, source);
        transfers[from - placement.first_local].push_back({true, at, bytes, static_cast<int>(home)});
      }
      if (placement.is_local(home)) {
        std::byte* at = kernels_of(source).slice(rank) + combine_rows_bytes(source, source);
        transfers[home - placement.first_local].push_back({false, at, bytes, static_cast<int>(from)});
      }
    }
  }
  return carry(transfers, "ncclSend and ncclRecv of sums");
}

// Counters and flags of what came from other places, as the one-sided kernels would have left them.
Result<void> NcclAllToAll::note_arrival(bool in_combine) {
  const bool gathers = way_ == TwoSided::all_gather;
  for (const int rank : local_ranks()) {
    if (!takes_part(rank)) continue;
    const WorkspaceLayout at = config(rank).layout();
    std::byte* slice = kernels_of(rank).slice(rank);
    std::vector<std::int32_t> control(static_cast<std::size_t>(at.topk_target_ranks / 4));
    const auto word = [&](std::int64_t offset, std::size_t index) -> std::int32_t& {
      return control[static_cast<std::size_t>(offset / 4) + index];
    };
    const int read = cudaMemcpy(control.data(), slice, control.size() * 4, cudaMemcpyDefault);
    if (auto ok = cuda_result(read, "reading counters"); !ok) return ok;
    if (gathers) word(at.flag_val, 0) += 1;
    for (std::size_t source = 0; source < configs_.size(); ++source) {
      if ((config(rank).active_rank_mask >> source & 1) == 0) continue;
      const std::int64_t flags = in_combine ? at.combine_completion_flags : at.dispatch_completion_flags;
      word(flags, source) = word(at.flag_val, 0);
      if (in_combine) continue;
      const auto own = static_cast<std::size_t>(rank);
      word(at.recv_counters, source) =
          static_cast<std::int32_t>(gathers ? sizes_[source].num_tokens : counts_[source][own]);
    }
    const int written = cudaMemcpy(slice, control.data(), control.size() * 4, cudaMemcpyDefault);
    if (auto ok = cuda_result(written, "writing counters"); !ok) return ok;
  }
  return {};
}

Result<void> NcclAllToAll::gather_rows() {
  struct Piece {
    std::byte* region;
    std::int64_t own_bytes, rank_bytes;
  };
  std::vector<std::vector<Piece>> pieces(engines_.size());
  NcclWorld& world = *communicator_->world();
  std::vector<std::pair<ncclComm_t, cudaStream_t>> at;
  for (std::size_t local = 0; local < engines_.size(); ++local) {
    CudaAllToAll& kernels = *engines_[local].kernels;
    const int rank = local_ranks()[local];
    const Sizes sizes = sizes_[static_cast<std::size_t>(rank)];
    if (auto ok = cuda_result(cudaSetDevice(world.device(local)), "cudaSetDevice"); !ok) return ok;
    for (std::size_t p = 0; p < configs_[0].payload_bytes_per_token.size(); ++p) {
      const std::int64_t row = configs_[0].payload_bytes_per_token[p];
      const std::int64_t own = sizes.runtime_max_tokens_per_rank * row * rank;
      std::byte* region = kernels.slice(rank) + rows_bytes(configs_[0], p, 0, sizes.runtime_max_tokens_per_rank);
      const int copied = cudaMemcpyAsync(region + own, kernels.staged_rank(0).payloads[p],
                                         static_cast<std::size_t>(sizes.num_tokens * row), cudaMemcpyDeviceToDevice,
                                         kernels.stream(0));
      if (auto ok = cuda_result(copied, "copying rows"); !ok) return ok;
      pieces[local].push_back({region, own, sizes.runtime_max_tokens_per_rank * row});
    }
    at.emplace_back(world.comm(local), kernels.stream(0));
  }
  auto ok = world.grouped("ncclAllGather of rows", [pieces, at](std::size_t local) {
    for (const Piece& one : pieces[local]) {
      const auto bytes = static_cast<std::size_t>(one.rank_bytes);
      const ncclResult_t code =
          ncclAllGather(one.region + one.own_bytes, one.region, bytes, ncclInt8, at[local].first, at[local].second);
      if (code != ncclSuccess) return code;
    }
    return ncclSuccess;
  });
  return ok ? wait("ncclAllGather of rows") : ok;
}

Result<void> NcclAllToAll::reduce_sums() {
  struct Piece {
    std::byte *from, *to;
    ncclComm_t comm;
    cudaStream_t stream;
  };
  std::vector<Piece> pieces;
  NcclWorld& world = *communicator_->world();
  const std::int64_t rows = sizes_[0].runtime_max_tokens_per_rank;
  for (std::size_t local = 0; local < engines_.size(); ++local) {
    const int rank = local_ranks()[local];
    std::byte* slice = engines_[local].kernels->slice(rank);
    pieces.push_back({slice + combine_rows_bytes(rank, 0), slice + combine_rows_bytes(rank, rank), world.comm(local),
                      engines_[local].kernels->stream(0)});
  }
  const auto count = static_cast<std::size_t>(rows * configs_[0].hidden_size);
  const ncclDataType_t type = nccl_type(configs_[0].combine_type);
  auto ok = world.grouped("ncclReduceScatter of sums", [pieces, count, type](std::size_t local) {
    const Piece& one = pieces[local];
    return ncclReduceScatter(one.from, one.to, count, type, ncclSum, one.comm, one.stream);
  });
  return ok ? wait("ncclReduceScatter of sums") : ok;
}

Result<void> NcclAllToAll::run_dispatch() {
  const bool sends = way_ == TwoSided::send_recv;
  Result<void> ok;
  if (sends) ok = on_each_engine([](Engine& engine) { return engine.kernels->enqueue_dispatch(); });
  if (ok = agreed(ok); !ok) return ok;
  ok = exchange_sizes();
  if (ok) ok = sends ? send_rows() : gather_rows();
  if (ok) ok = note_arrival(false);
  return agreed(ok);
}

Result<void> NcclAllToAll::run_combine() {
  const bool sends = way_ == TwoSided::send_recv;
  auto ok = sends ? send_sums() : reduce_sums();
  if (ok && sends) ok = on_each_engine([](Engine& engine) { return engine.kernels->enqueue_combine(); });
  if (ok) ok = note_arrival(true);
  return agreed(ok);
}

Result<void> NcclAllToAll::dispatch(std::span<const DispatchInput> inputs) {
  if (dispatched_) return fail(ErrorKind::assertion_error, "dispatch before combine of the dispatch in progress");
  auto ok = stage(inputs);
  if (ok) ok = run_dispatch();
  dispatched_ = ok.has_value();
  return ok;
}

Result<void> NcclAllToAll::sanitize(std::int32_t invalid_expert_id) {
  return on_each_engine([&](Engine& engine) { return engine.kernels->enqueue_sanitize(invalid_expert_id); });
}

Result<void> NcclAllToAll::experts(const ExpertPayloads& payloads) {
  return on_each_engine([&](Engine& engine) { return engine.kernels->enqueue_experts(payloads); });
}

Result<void> NcclAllToAll::check_combine(std::span<const std::int64_t> runtime_max_tokens_per_rank) const {
  if (!dispatched_) return fail(ErrorKind::assertion_error, "combine before dispatch");
  const bool same = std::ranges::equal(runtime_max_tokens_per_rank, inputs_, {}, {},
                                       [](const DispatchInput& input) { return input.runtime_max_tokens_per_rank; });
  if (same) return {};
  return fail(ErrorKind::bad_input, "the two-sided baseline combines with dispatch's runtime_max_tokens_per_rank");
}

Result<void> NcclAllToAll::combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                                   std::vector<std::vector<std::byte>>& outputs) {
  if (auto same = agreed(check_combine(runtime_max_tokens_per_rank)); !same) return same;
  dispatched_ = false;
  auto ok = run_combine();
  return ok ? read_outputs(outputs) : ok;
}

Result<void> NcclAllToAll::read_outputs(std::vector<std::vector<std::byte>>& outputs) const {
  outputs.assign(local_ranks().size(), {});
  for (const Engine& engine : engines_) {
    if (way_ == TwoSided::send_recv) {
      std::vector<std::vector<std::byte>> own;
      if (auto ok = engine.kernels->read_outputs(own); !ok) return ok;
      for (std::size_t i = 0; i < own.size(); ++i) outputs[engine.local[i]] = std::move(own[i]);
      continue;
    }
    const std::size_t local = engine.local[0];
    const int rank = local_ranks()[local];
    outputs[local].resize(
        static_cast<std::size_t>(inputs_[local].local_num_tokens * config(rank).combine_bytes_per_token()));
    const std::byte* from = engine.kernels->slice(rank) + combine_rows_bytes(rank, rank);
    const int read = cudaMemcpy(outputs[local].data(), from, outputs[local].size(), cudaMemcpyDefault);
    if (auto ok = cuda_result(read, "reading outputs"); !ok) return ok;
  }
  return {};
}

Result<GraphId> NcclAllToAll::capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                                      const ExpertPayloads& payloads) {
  Baked baked{{}, invalid_expert_id, payloads};
  for (const DispatchInput& input : inputs)
    baked.runtime_max_tokens_per_rank.push_back(input.runtime_max_tokens_per_rank);
  if (inputs.size() != local_ranks().size())
    return fail(ErrorKind::bad_input, "capture needs one input for each local rank");
  captures_.push_back(std::move(baked));
  return static_cast<GraphId>(captures_.size() - 1);
}

Result<void> NcclAllToAll::replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                                  std::vector<std::vector<std::byte>>& outputs) {
  std::vector<DispatchInput> baked(inputs.begin(), inputs.end());
  std::vector<std::int64_t> runtime_max;
  if (captures_.empty() || graphs.size() != inputs.size() || inputs.size() != local_ranks().size())
    return fail(ErrorKind::bad_input, "replay needs a capture, and one graph and one input for each local rank");
  for (std::size_t local = 0; local < graphs.size(); ++local) {
    if (graphs[local] != kEager && static_cast<std::size_t>(graphs[local]) >= captures_.size())
      return fail(ErrorKind::bad_input, "replay: there is no graph " + number(graphs[local]));
    if (graphs[local] != kEager) {
      const Baked& of = captures_[static_cast<std::size_t>(graphs[local])];
      baked[local].runtime_max_tokens_per_rank = of.runtime_max_tokens_per_rank[local];
    }
    runtime_max.push_back(baked[local].runtime_max_tokens_per_rank);
  }
  auto ok = dispatch(baked);
  if (ok) ok = sanitize(captures_.back().invalid_expert_id);
  if (ok) ok = experts(captures_.back().payloads);
  return ok ? combine(runtime_max, outputs) : ok;
}

Result<std::vector<std::byte>> NcclAllToAll::read_slice(int rank) {
  const auto ranks = local_ranks();
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
    return fail(ErrorKind::bad_input, "rank " + number(rank) + " does not live in this process");
  return kernels_of(rank).read_slice(rank);
}

Result<void> NcclAllToAll::poison(std::byte value) {
  for (Engine& engine : engines_) {
    if (auto ok = engine.kernels->poison(value); !ok) return ok;
  }
  return {};
}

}  // namespace a2asim::gpu
#endif
