// One rank on each of several GPUs: dispatch and combine over the link, one-sided, and what NCCL takes for the same.
//
// One-sided times come from events between the calls of a graph of dispatch, combine, dispatch, ..: ranks then run in
// step and no launch is in the way. A time is of the slowest GPU; a number is the median over the calls. Beside them,
// by wall clock and with everything a caller waits for: one-sided, and NCCL's send and receive of the same bytes.
#include <cuda_runtime_api.h>

#include <numeric>

#include "tools/bench/gpu_bench.h"

namespace a2asim::bench {
namespace {

constexpr int kPairsPerGraph = 12;
constexpr int kSkipped = 2;  // pairs at the start, before the GPUs are in step
constexpr int kLaunches = 5;
struct Numbers {
  double dispatch_us = 0, combine_us = 0;  // events
  double dispatch_wall_us = 0, combine_wall_us = 0;
};

struct SizeRow {
  std::int64_t tokens = 0;
  Numbers one_sided, flashinfer;
  NcclNumbers nccl;
  double published_dispatch_gb_s = 0, published_combine_gb_s = 0;
  double link_dispatch_gb_s = 0, link_combine_gb_s = 0, link_nccl_gb_s = 0;
};

using Events = std::vector<std::vector<OwnedEvent>>;  // [device][boundary]

class OneSided {
 public:
  OneSided(Exchange exchange, const std::vector<int>& devices) : all_(std::move(exchange)), devices_(devices) {
    for (const int device : devices_) {
      must(cudaSetDevice(device), "cudaSetDevice");
      std::vector<OwnedEvent> own;
      for (int i = 0; i < 2 * kPairsPerGraph + 1; ++i) own.push_back(make_event());
      events_.push_back(std::move(own));
    }
  }

  // By a graph where events in graphs work, by plain launches otherwise (said on stderr).
  Numbers measure() {
    must(all_.dispatch());
    must(all_.combine());
    must(all_.finish());
    auto graphs = record();
    if (!graphs) {
      std::fprintf(stderr, "a2asim-bench-gpu: no graph (%s): plain launches instead\n", graphs.error().message.c_str());
      static_cast<void>(cudaGetLastError());
    }
    std::vector<double> dispatch, combine;
    for (int launch = 0; launch < kLaunches; ++launch) {
      must(graphs ? launch_graphs(*graphs) : enqueue(0));
      must(all_.finish());
      for (int pair = kSkipped; pair < kPairsPerGraph; ++pair) {
        dispatch.push_back(slowest_us(2 * pair));
        combine.push_back(slowest_us(2 * pair + 1));
      }
    }
    Numbers numbers{median(dispatch), median(combine), 0, 0};
    by_wall_clock(numbers);
    return numbers;
  }

 private:
  Result<void> mark(int boundary, unsigned flags) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (auto ok = gpu::cuda_result(cudaSetDevice(devices_[d]), "cudaSetDevice"); !ok) return ok;
      const cudaEvent_t event = events_[d][static_cast<std::size_t>(boundary)].get();
      const int code = cudaEventRecordWithFlags(event, all_.streams[d], flags);
      if (auto ok = gpu::cuda_result(code, "recording an event"); !ok) return ok;
    }
    return {};
  }

  Result<void> enqueue(unsigned flags) {
    auto ok = mark(0, flags);
    for (int pair = 0; ok && pair < kPairsPerGraph; ++pair) {
      ok = all_.dispatch();
      if (ok) ok = mark(2 * pair + 1, flags);
      if (ok) ok = all_.combine();
      if (ok) ok = mark(2 * pair + 2, flags);
    }
    return ok;
  }

  Result<std::vector<gpu::OwnedGraphExec>> record() {
    Result<void> ok;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      must(cudaSetDevice(devices_[d]), "cudaSetDevice");
      must(cudaStreamBeginCapture(all_.streams[d], cudaStreamCaptureModeThreadLocal), "capturing");
    }
    ok = enqueue(cudaEventRecordExternal);
    std::vector<cudaGraph_t> captured(devices_.size(), nullptr);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const int code = cudaStreamEndCapture(all_.streams[d], &captured[d]);
      if (ok) ok = gpu::cuda_result(code, "ending a capture");
    }
    std::vector<gpu::OwnedGraphExec> graphs;
    for (std::size_t d = 0; ok && d < devices_.size(); ++d) {
      cudaGraphExec_t exec = nullptr;
      ok = gpu::cuda_result(cudaSetDevice(devices_[d]), "cudaSetDevice");
      if (ok) ok = gpu::cuda_result(cudaGraphInstantiate(&exec, captured[d], 0), "instantiating a graph");
      if (!ok) break;
      graphs.emplace_back(exec);
      // Its first launch would do this, beside another GPU's that already waits.
      ok = gpu::cuda_result(cudaGraphUpload(exec, all_.streams[d]), "uploading a graph");
      if (ok) ok = gpu::cuda_result(cudaStreamSynchronize(all_.streams[d]), "uploading a graph");
    }
    for (cudaGraph_t graph : captured) {
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
    if (!ok) return tl::unexpected(ok.error());
    return graphs;
  }

  Result<void> launch_graphs(const std::vector<gpu::OwnedGraphExec>& graphs) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (auto ok = gpu::cuda_result(cudaSetDevice(devices_[d]), "cudaSetDevice"); !ok) return ok;
      const int code = cudaGraphLaunch(graphs[d].get(), all_.streams[d]);
      if (auto ok = gpu::cuda_result(code, "launching a graph"); !ok) return ok;
    }
    return {};
  }

  double slowest_us(int boundary) const {
    double slowest = 0;
    for (const auto& own : events_) {
      float ms = 0;
      must(cudaEventElapsedTime(&ms, own[static_cast<std::size_t>(boundary)].get(),
                                own[static_cast<std::size_t>(boundary + 1)].get()),
           "reading events");
      slowest = std::max(slowest, static_cast<double>(ms) * 1000);
    }
    return slowest;
  }

  void by_wall_clock(Numbers& numbers);

  const Exchange all_;
  const std::vector<int>& devices_;
  Events events_;
};

void OneSided::by_wall_clock(Numbers& numbers) {
  const auto run = [&](Result<void> enqueued) {
    must(enqueued);
    must(all_.finish());
  };
  time_in_turn([&] { run(all_.dispatch()); }, [&] { run(all_.combine()); }, numbers.dispatch_wall_us,
               numbers.combine_wall_us);
}

// GB/s of large copies from the first device to the second, and both ways at once (each way's rate).
struct Link {
  double one_way_gb_s = 0, both_ways_gb_s = 0;
};

Link measure_link(const std::vector<int>& devices) {
  constexpr std::int64_t bytes = std::int64_t{512} << 20;
  constexpr int copies = 8;
  std::vector<Lane> lanes;
  for (std::size_t d = 0; d < 2; ++d) {
    lanes.push_back(make_lane(devices[d], bytes));
    const int code = cudaDeviceEnablePeerAccess(devices[1 - d], 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled)
      static_cast<void>(cudaGetLastError());
    else
      must(code, "cudaDeviceEnablePeerAccess");
  }
  const auto rate = [&](std::size_t ways) {
    double slowest_us = 0;
    for (std::size_t at = 0; at < ways; ++at) {
      mark(lanes[at].start, devices[at], lanes[at].stream);
      for (int i = 0; i < copies; ++i) {
        must(cudaMemcpyPeerAsync(lanes[1 - at].to.get(), devices[1 - at], lanes[at].from.get(), devices[at],
                                 static_cast<std::size_t>(bytes), lanes[at].stream.get()),
             "copying to a peer");
      }
      mark(lanes[at].stop, devices[at], lanes[at].stream);
    }
    for (std::size_t at = 0; at < ways; ++at) slowest_us = std::max(slowest_us, us_between(lanes[at]));
    return static_cast<double>(bytes) * copies / slowest_us / 1e3;
  };
  Link link;
  rate(2);
  link.one_way_gb_s = rate(1);
  link.both_ways_gb_s = rate(2);
  return link;
}

RowCounts rows_between(const Configuration& shape, const Batch& batch) {
  const auto ranks = static_cast<std::size_t>(shape.ep_size);
  RowCounts rows(ranks, std::vector<std::int64_t>(ranks));
  std::vector<std::int32_t> targets(static_cast<std::size_t>(shape.top_k));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto& experts = batch.experts[rank];
    for (std::size_t at = 0; at < experts.size(); at += targets.size()) {
      distinct_targets(experts.data() + at, shape.top_k, shape.num_experts, shape.ep_size, targets.data());
      for (const std::int32_t to : targets) {
        if (to >= 0) ++rows[rank][static_cast<std::size_t>(to)];
      }
    }
  }
  return rows;
}

// Rows of one rank that go over the link: of the rank with most.
std::int64_t remote_rows(const RowCounts& rows) {
  std::int64_t most = 0;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    most = std::max(most, std::accumulate(rows[rank].begin(), rows[rank].end(), -rows[rank][rank]));
  }
  return most;
}

// Slices hold what experts made of rows: nothing is timed on zeros.
Exchange own_exchange(gpu::CudaAllToAll& all, std::size_t gpus) {
  must(all.enqueue_dispatch());
  must(all.enqueue_experts({0, 2}));
  must(all.enqueue_combine());
  must(all.finish());
  Exchange exchange;
  for (std::size_t d = 0; d < gpus; ++d) exchange.streams.push_back(all.stream(static_cast<int>(d)));
  exchange.dispatch = [&all] { return all.enqueue_dispatch(); };
  exchange.combine = [&all] { return all.enqueue_combine(); };
  exchange.finish = [&all] { return all.finish(); };
  return exchange;
}

SizeRow measure_size(const Configuration& shape, const std::vector<int>& devices, gpu::PeerMemory peer_memory) {
  const Batch batch = draw(shape);
  const AllToAllConfig config = config_of(shape, batch);
  const std::vector<DispatchInput> inputs = inputs_of(shape, batch);
  SizeRow row;
  row.tokens = shape.tokens[0];
  {
    gpu::CudaOptions options;
    options.devices = devices;
    options.peer_memory = peer_memory;
    auto made = gpu::CudaAllToAll::create(std::span(&config, 1), options);
    if (!made) must(tl::unexpected(made.error()));
    static bool told = false;
    if (!told) std::printf("{\"peer_memory\":\"%s\"}\n", (*made)->peer_memory().c_str());
    told = true;
    must((*made)->poison(std::byte{0xff}));
    must((*made)->stage(inputs));
    row.one_sided = OneSided(own_exchange(**made, devices.size()), devices).measure();
  }
#if defined(A2ASIM_HAS_FLASHINFER)
  row.flashinfer = OneSided(flashinfer_exchange(config, inputs), devices).measure();
#endif
  const RowCounts rows = rows_between(shape, batch);
  const auto remote = static_cast<double>(remote_rows(rows));
  const auto row_bytes = static_cast<double>(config.dispatch_bytes_per_token());
  const auto sum_bytes = static_cast<double>(config.combine_bytes_per_token());
  // As TensorRT-LLM's table counts: every token once a destination, its own rank's too, hidden states alone.
  const double published = static_cast<double>(row.tokens * std::min(shape.ep_size, shape.top_k)) * sum_bytes;
  row.published_dispatch_gb_s = published / row.one_sided.dispatch_us / 1000;
  row.published_combine_gb_s = published / row.one_sided.combine_us / 1000;
  row.link_dispatch_gb_s = remote * row_bytes / row.one_sided.dispatch_us / 1000;
  row.link_combine_gb_s = remote * sum_bytes / row.one_sided.combine_us / 1000;
#if defined(A2ASIM_HAS_NCCL)
  row.nccl = measure_nccl(devices, rows, config.dispatch_bytes_per_token(), config.combine_bytes_per_token());
  row.link_nccl_gb_s = remote * row_bytes / row.nccl.alltoall_us / 1000;
#endif
  return row;
}

void print_json(const SizeRow& row, const Link& link) {
  std::printf(
      "{\"tokens\":%lld,\"dispatch_us\":%.2f,\"combine_us\":%.2f,\"published_dispatch_gb_s\":%.1f,"
      "\"published_combine_gb_s\":%.1f,\"link_dispatch_gb_s\":%.1f,\"link_combine_gb_s\":%.1f,"
      "\"dispatch_of_link\":%.3f,\"combine_of_link\":%.3f,\"nccl_alltoall_us\":%.2f,\"nccl_alltoall_of_link\":%.3f,"
      "\"flashinfer_dispatch_us\":%.2f,\"flashinfer_combine_us\":%.2f,",
      static_cast<long long>(row.tokens), row.one_sided.dispatch_us, row.one_sided.combine_us,
      row.published_dispatch_gb_s, row.published_combine_gb_s, row.link_dispatch_gb_s, row.link_combine_gb_s,
      row.link_dispatch_gb_s / link.one_way_gb_s, row.link_combine_gb_s / link.one_way_gb_s, row.nccl.alltoall_us,
      row.link_nccl_gb_s / link.one_way_gb_s, row.flashinfer.dispatch_us, row.flashinfer.combine_us);
  std::printf("\"wall_us\":{\"one_sided\":[%.1f,%.1f],\"send_recv\":[%.1f,%.1f]}}\n", row.one_sided.dispatch_wall_us,
              row.one_sided.combine_wall_us, row.nccl.dispatch_wall_us, row.nccl.combine_wall_us);
  std::fflush(stdout);
}

void print_table(const std::vector<SizeRow>& rows, const Link& link) {
  std::printf("\nlink, cudaMemcpyPeer: %.1f GB/s one way, %.1f GB/s each way at once\n", link.one_way_gb_s,
              link.both_ways_gb_s);
  std::printf("%6s | %8s %8s | %8s %8s | %9s %9s | %8s %8s %8s %8s | %8s %8s | %9s %9s\n", "tokens", "disp us",
              "comb us", "fi disp", "fi comb", "publ disp", "publ comb", "disp GB", "of link", "comb GB", "of link",
              "nccl us", "of link", "wall one", "send/recv");
  for (const SizeRow& row : rows) {
    std::printf(
        "%6lld | %8.1f %8.1f | %8.1f %8.1f | %9.1f %9.1f | %8.1f %8.2f %8.1f %8.2f | %8.1f %8.2f | %9.1f %9.1f\n",
        static_cast<long long>(row.tokens), row.one_sided.dispatch_us, row.one_sided.combine_us,
        row.flashinfer.dispatch_us, row.flashinfer.combine_us, row.published_dispatch_gb_s, row.published_combine_gb_s,
        row.link_dispatch_gb_s, row.link_dispatch_gb_s / link.one_way_gb_s, row.link_combine_gb_s,
        row.link_combine_gb_s / link.one_way_gb_s, row.nccl.alltoall_us, row.link_nccl_gb_s / link.one_way_gb_s,
        row.one_sided.dispatch_wall_us + row.one_sided.combine_wall_us,
        row.nccl.dispatch_wall_us + row.nccl.combine_wall_us);
  }
}

}  // namespace

void measure_several_gpus(const std::vector<int>& devices, gpu::PeerMemory peer_memory, int only) {
  const Link link = measure_link(devices);
  std::printf("{\"link_one_way_gb_s\":%.1f,\"link_both_ways_gb_s\":%.1f}\n", link.one_way_gb_s, link.both_ways_gb_s);
  const std::vector<std::int64_t> sizes = {2048, 16, 128, 512, 1024, 4096};
  std::vector<SizeRow> rows;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (only >= 0 && only != static_cast<int>(i)) continue;
    const Configuration shape{static_cast<int>(devices.size()), {sizes[i]}, 7168, 8, 256, 0, 0};
    rows.push_back(measure_size(shape, devices, peer_memory));
    print_json(rows.back(), link);
  }
  print_table(rows, link);
}

}  // namespace a2asim::bench
