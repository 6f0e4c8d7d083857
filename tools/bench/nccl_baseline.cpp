// What NCCL takes for the bytes of a dispatch and a combine, one rank a GPU. Nobody packs, nobody adds: bytes alone.
#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_world.h"
#include "tools/bench/gpu_bench.h"

namespace a2asim::bench {
namespace {

struct Sizes {
  std::int64_t per_peer = 0;  // bytes that ncclAlltoAll sends to each peer for the rows of a dispatch
  std::int64_t room = 0;      // bytes of one rank's buffer
};
Sizes sizes_of(const RowCounts& rows, std::int64_t dispatch_bytes, std::int64_t combine_bytes) {
  std::int64_t most_rows = 0, most_remote = 0;  // to or from one rank
  for (std::size_t a = 0; a < rows.size(); ++a) {
    std::int64_t sent = 0, received = 0;
    for (std::size_t b = 0; b < rows.size(); ++b) {
      sent += rows[a][b];
      received += rows[b][a];
    }
    most_rows = std::max({most_rows, sent, received});
    most_remote = std::max(most_remote, sent - rows[a][a]);
  }
  const std::int64_t peers = static_cast<std::int64_t>(rows.size()) - 1;
  Sizes out;
  out.per_peer = ((most_remote * dispatch_bytes + peers - 1) / peers + 15) / 16 * 16;
  out.room = std::max(most_rows * std::max(dispatch_bytes, combine_bytes), out.per_peer * (peers + 1));
  return out;
}

}  // namespace

NcclNumbers measure_nccl(const std::vector<int>& devices, const RowCounts& rows, std::int64_t dispatch_bytes,
                         std::int64_t combine_bytes) {
  const auto places = gpu::describe_places(devices);
  if (!places) must(tl::unexpected(places.error()));
  const auto placement = gpu::exchange_places(*places, nullptr);
  const auto world = gpu::NcclWorld::get(*placement, nullptr, std::chrono::milliseconds(15'000));
  if (!world) must(tl::unexpected(world.error()));
  const std::size_t gpus = devices.size();
  const Sizes sizes = sizes_of(rows, dispatch_bytes, combine_bytes);
  std::vector<Lane> lanes;
  for (const int device : devices) lanes.push_back(make_lane(device, std::max<std::int64_t>(sizes.room, 4096)));

  const auto grouped = [&](const auto& calls_of) {
    must(gpu::nccl_result(ncclGroupStart(), "ncclGroupStart"));
    for (std::size_t d = 0; d < gpus; ++d) calls_of(d, (*world)->comm(d), lanes[d].stream.get());
    must(gpu::nccl_result(ncclGroupEnd(), "ncclGroupEnd"));
  };
  const auto finish = [&] {
    for (const Lane& lane : lanes) must(cudaStreamSynchronize(lane.stream.get()), "waiting for NCCL");
  };
  const auto all_to_all = [&] {
    grouped([&](std::size_t d, ncclComm_t comm, cudaStream_t stream) {
      must(gpu::nccl_result(ncclAlltoAll(lanes[d].from.get(), lanes[d].to.get(),
                                         static_cast<std::size_t>(sizes.per_peer), ncclInt8, comm, stream),
                            "ncclAlltoAll"));
    });
  };
  // Rows of one rank lie one peer's behind the other's. back: from where dispatch brought them.
  const auto exchange = [&](std::int64_t row_bytes, bool back) {
    grouped([&](std::size_t d, ncclComm_t comm, cudaStream_t stream) {
      std::byte *from = lanes[d].from.get(), *to = lanes[d].to.get();
      for (std::size_t peer = 0; peer < gpus; ++peer) {
        const std::int64_t sent = (back ? rows[peer][d] : rows[d][peer]) * row_bytes;
        const std::int64_t received = (back ? rows[d][peer] : rows[peer][d]) * row_bytes;
        const int other = static_cast<int>(peer);
        const auto size = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes); };
        must(gpu::nccl_result(ncclSend(from, size(sent), ncclInt8, other, comm, stream), "ncclSend"));
        must(gpu::nccl_result(ncclRecv(to, size(received), ncclInt8, other, comm, stream), "ncclRecv"));
        from += sent;
        to += received;
      }
    });
    finish();
  };
  // A receiver learns its counts, on the host, before it can ask for rows.
  const auto exchange_counts = [&] {
    grouped([&](std::size_t d, ncclComm_t comm, cudaStream_t stream) {
      must(gpu::nccl_result(ncclAllGather(lanes[d].from.get(), lanes[d].to.get(), gpus, ncclInt64, comm, stream),
                            "ncclAllGather"));
    });
    finish();
  };

  NcclNumbers numbers;
  constexpr int skipped = 2, calls = 20;
  for (int call = -skipped; call < calls; ++call) {
    for (std::size_t d = 0; call == 0 && d < gpus; ++d) mark(lanes[d].start, devices[d], lanes[d].stream);
    all_to_all();
  }
  for (std::size_t d = 0; d < gpus; ++d) mark(lanes[d].stop, devices[d], lanes[d].stream);
  for (const Lane& lane : lanes) numbers.alltoall_us = std::max(numbers.alltoall_us, us_between(lane) / calls);
  const auto dispatch = [&] {
    exchange_counts();
    exchange(dispatch_bytes, false);
  };
  time_in_turn(
      dispatch, [&] { exchange(combine_bytes, true); }, numbers.dispatch_wall_us, numbers.combine_wall_us);
  return numbers;
}

}  // namespace a2asim::bench
#endif
