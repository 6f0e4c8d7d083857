// One rank on each of several GPUs: dispatch and combine over the link, one-sided, and what NCCL takes for the same.
//
// One-sided times come from events between the calls of a graph of dispatch, combine, dispatch, ..: ranks then run in
// step and no launch is in the way. A time is of the slowest GPU; a number is the median over the calls. Beside them,
// by wall clock and with everything a caller waits for: one-sided, send and receive, all-gather and reduce-scatter.
#include <cuda_runtime_api.h>

#include <chrono>

#include "tools/bench/gpu_bench.h"
#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_alltoall.h"
#endif

namespace a2asim::bench {
namespace {

constexpr int kPairsPerGraph = 12;
constexpr int kSkipped = 2;  // pairs at the start, before the GPUs are in step
constexpr int kLaunches = 5;
constexpr ExpertPayloads kPayloads = {0, 2};

struct Numbers {
  double dispatch_us = 0, combine_us = 0;  // events
  double dispatch_wall_us = 0, combine_wall_us = 0;
};

struct SizeRow {
  std::int64_t tokens = 0;
  Numbers one_sided, send_recv, all_gather;
  double nccl_alltoall_us = 0;  // of dispatch's bytes
  double published_dispatch_gb_s = 0, published_combine_gb_s = 0;
  double link_dispatch_gb_s = 0, link_combine_gb_s = 0, link_nccl_gb_s = 0;
};

struct EventDestroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using OwnedEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDestroy>;
using Events = std::vector<std::vector<OwnedEvent>>;  // [device][boundary]

class OneSided {
 public:
  OneSided(gpu::CudaAllToAll& all_to_all, const std::vector<int>& devices) : all_(all_to_all), devices_(devices) {
    for (const int device : devices_) {
      must(cudaSetDevice(device), "cudaSetDevice");
      std::vector<OwnedEvent> own;
      for (int i = 0; i < 2 * kPairsPerGraph + 1; ++i) {
        cudaEvent_t event = nullptr;
        must(cudaEventCreate(&event), "creating an event");
        own.emplace_back(event);
      }
      events_.push_back(std::move(own));
    }
  }

  // By a graph where events in graphs work, by plain launches otherwise (said on stderr).
  Numbers measure() {
    must(all_.enqueue_dispatch());
    must(all_.enqueue_experts(kPayloads));
    must(all_.enqueue_combine());
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
      const int code = cudaEventRecordWithFlags(event, all_.stream(static_cast<int>(d)), flags);
      if (auto ok = gpu::cuda_result(code, "recording an event"); !ok) return ok;
    }
    return {};
  }

  Result<void> enqueue(unsigned flags) {
    auto ok = mark(0, flags);
    for (int pair = 0; ok && pair < kPairsPerGraph; ++pair) {
      ok = all_.enqueue_dispatch();
      if (ok) ok = mark(2 * pair + 1, flags);
      if (ok) ok = all_.enqueue_combine();
      if (ok) ok = mark(2 * pair + 2, flags);
    }
    return ok;
  }

  Result<std::vector<gpu::OwnedGraphExec>> record() {
    Result<void> ok;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      must(cudaSetDevice(devices_[d]), "cudaSetDevice");
      must(cudaStreamBeginCapture(all_.stream(static_cast<int>(d)), cudaStreamCaptureModeThreadLocal), "capturing");
    }
    ok = enqueue(cudaEventRecordExternal);
    std::vector<cudaGraph_t> captured(devices_.size(), nullptr);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const int code = cudaStreamEndCapture(all_.stream(static_cast<int>(d)), &captured[d]);
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
      ok = gpu::cuda_result(cudaGraphUpload(exec, all_.stream(static_cast<int>(d))), "uploading a graph");
      if (ok) ok = gpu::cuda_result(cudaStreamSynchronize(all_.stream(static_cast<int>(d))), "uploading a graph");
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
      const int code = cudaGraphLaunch(graphs[d].get(), all_.stream(static_cast<int>(d)));
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

  gpu::CudaAllToAll& all_;
  const std::vector<int>& devices_;
  Events events_;
};

// Medians of what two calls in turn take, from the host's point of view.
void time_in_turn(const std::function<void()>& dispatch, const std::function<void()>& combine, Numbers& numbers) {
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration taken) { return std::chrono::duration<double, std::micro>(taken).count(); };
  std::vector<double> dispatches, combines;
  constexpr int warm_ups = 2, repetitions = 10;
  for (int i = 0; i < warm_ups + repetitions; ++i) {
    const auto start = Clock::now();
    dispatch();
    const auto middle = Clock::now();
    combine();
    if (i < warm_ups) continue;
    dispatches.push_back(us(middle - start));
    combines.push_back(us(Clock::now() - middle));
  }
  numbers.dispatch_wall_us = median(dispatches);
  numbers.combine_wall_us = median(combines);
}

void OneSided::by_wall_clock(Numbers& numbers) {
  const auto run = [&](Result<void> enqueued) {
    must(enqueued);
    must(all_.finish());
  };
  time_in_turn([&] { run(all_.enqueue_dispatch()); }, [&] { run(all_.enqueue_combine()); }, numbers);
}

// GB/s of large copies from the first device to the second, and both ways at once (each way's rate).
struct Link {
  double one_way_gb_s = 0, both_ways_gb_s = 0;
};

Link measure_link(const std::vector<int>& devices) {
  constexpr std::int64_t bytes = std::int64_t{512} << 20;
  constexpr int copies = 8;
  std::vector<gpu::DeviceMemory> from, to;
  std::vector<gpu::OwnedStream> streams;
  std::vector<OwnedEvent> starts, stops;
  for (int d = 0; d < 2; ++d) {
    must(cudaSetDevice(devices[static_cast<std::size_t>(d)]), "cudaSetDevice");
    const int code = cudaDeviceEnablePeerAccess(devices[static_cast<std::size_t>(1 - d)], 0);
    if (code == cudaErrorPeerAccessAlreadyEnabled)
      static_cast<void>(cudaGetLastError());
    else
      must(code, "cudaDeviceEnablePeerAccess");
    for (auto* list : {&from, &to}) {
      auto memory = gpu::allocate_device(bytes);
      if (!memory) must(tl::unexpected(memory.error()));
      must(cudaMemset(memory->get(), 0x5a, static_cast<std::size_t>(bytes)), "filling");
      list->push_back(std::move(*memory));
    }
    must(cudaDeviceSynchronize(), "filling");
    cudaStream_t stream = nullptr;
    cudaEvent_t start = nullptr, stop = nullptr;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    must(cudaEventCreate(&start), "creating an event");
    must(cudaEventCreate(&stop), "creating an event");
    streams.emplace_back(stream);
    starts.emplace_back(start);
    stops.emplace_back(stop);
  }
  const auto rate = [&](int ways) {
    double slowest_ms = 0;
    for (int d = 0; d < ways; ++d) {
      const auto at = static_cast<std::size_t>(d);
      must(cudaSetDevice(devices[at]), "cudaSetDevice");
      must(cudaEventRecord(starts[at].get(), streams[at].get()), "recording an event");
      for (int i = 0; i < copies; ++i) {
        must(cudaMemcpyPeerAsync(to[1 - at].get(), devices[1 - at], from[at].get(), devices[at],
                                 static_cast<std::size_t>(bytes), streams[at].get()),
             "copying to a peer");
      }
      must(cudaEventRecord(stops[at].get(), streams[at].get()), "recording an event");
    }
    for (int d = 0; d < ways; ++d) {
      const auto at = static_cast<std::size_t>(d);
      must(cudaEventSynchronize(stops[at].get()), "waiting");
      float ms = 0;
      must(cudaEventElapsedTime(&ms, starts[at].get(), stops[at].get()), "reading events");
      slowest_ms = std::max(slowest_ms, static_cast<double>(ms));
    }
    return static_cast<double>(bytes) * copies / slowest_ms / 1e6;
  };
  Link link;
  rate(2);
  link.one_way_gb_s = rate(1);
  link.both_ways_gb_s = rate(2);
  return link;
}

// Rows of one rank that go over the link: of the rank with most.
std::int64_t remote_rows(const Configuration& shape, const Batch& batch) {
  std::int64_t most = 0;
  for (int rank = 0; rank < shape.ep_size; ++rank) {
    const auto& experts = batch.experts[static_cast<std::size_t>(rank)];
    std::int64_t rows = 0;
    std::vector<std::int32_t> targets(static_cast<std::size_t>(shape.top_k));
    for (std::size_t at = 0; at < experts.size(); at += targets.size()) {
      distinct_targets(experts.data() + at, shape.top_k, shape.num_experts, shape.ep_size, targets.data());
      rows += std::count_if(targets.begin(), targets.end(), [&](int to) { return to >= 0 && to != rank; });
    }
    most = std::max(most, rows);
  }
  return most;
}

#if defined(A2ASIM_HAS_NCCL)
Numbers measure_two_sided(const AllToAllConfig& config, gpu::TwoSided way, const std::vector<int>& devices,
                          const std::vector<DispatchInput>& inputs) {
  auto made = gpu::NcclAllToAll::create(std::span(&config, 1), way, devices);
  if (!made) must(tl::unexpected(made.error()));
  gpu::NcclAllToAll& all = **made;
  must(all.poison(std::byte{0}));  // reduce-scatter adds every row, also those that nobody filled
  must(all.stage(inputs));
  must(all.run_dispatch());
  must(all.experts(kPayloads));
  Numbers numbers;
  time_in_turn([&] { must(all.run_dispatch()); }, [&] { must(all.run_combine()); }, numbers);
  return numbers;
}

// ncclAlltoAll of so many bytes to each peer, a number of calls in a row.
double measure_nccl_alltoall(const std::vector<int>& devices, std::int64_t bytes_per_peer) {
  constexpr int calls = 20;
  const auto places = gpu::describe_places(devices);
  if (!places) must(tl::unexpected(places.error()));
  const auto placement = gpu::exchange_places(*places, nullptr);
  const auto world = gpu::NcclWorld::get(*placement, nullptr, std::chrono::milliseconds(15'000));
  if (!world) must(tl::unexpected(world.error()));
  const auto gpus = static_cast<std::int64_t>(devices.size());
  std::vector<gpu::DeviceMemory> from, to;
  std::vector<gpu::OwnedStream> streams;
  std::vector<OwnedEvent> starts, stops;
  for (const int device : devices) {
    must(cudaSetDevice(device), "cudaSetDevice");
    cudaStream_t stream = nullptr;
    cudaEvent_t start = nullptr, stop = nullptr;
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    must(cudaEventCreate(&start), "creating an event");
    must(cudaEventCreate(&stop), "creating an event");
    auto source = gpu::allocate_device(bytes_per_peer * gpus);
    auto target = gpu::allocate_device(bytes_per_peer * gpus);
    if (!source || !target) must(fail(ErrorKind::runtime_error, "no memory for NCCL's all-to-all"));
    must(cudaMemset(source->get(), 0x5a, static_cast<std::size_t>(bytes_per_peer * gpus)), "filling");
    must(cudaDeviceSynchronize(), "filling");
    streams.emplace_back(stream);
    starts.emplace_back(start);
    stops.emplace_back(stop);
    from.push_back(std::move(*source));
    to.push_back(std::move(*target));
  }
  const auto run = [&](int count) {
    for (int call = 0; call < count; ++call) {
      must(gpu::nccl_result(ncclGroupStart(), "ncclGroupStart"));
      for (std::size_t d = 0; d < devices.size(); ++d) {
        must(gpu::nccl_result(ncclAlltoAll(from[d].get(), to[d].get(), static_cast<std::size_t>(bytes_per_peer),
                                           ncclInt8, (*world)->comm(d), streams[d].get()),
                              "ncclAlltoAll"));
      }
      must(gpu::nccl_result(ncclGroupEnd(), "ncclGroupEnd"));
    }
  };
  const auto mark = [&](std::vector<OwnedEvent>& events) {
    for (std::size_t d = 0; d < devices.size(); ++d) {
      must(cudaSetDevice(devices[d]), "cudaSetDevice");
      must(cudaEventRecord(events[d].get(), streams[d].get()), "recording an event");
    }
  };
  run(kSkipped);
  mark(starts);
  run(calls);
  mark(stops);
  double slowest = 0;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    must((*world)->wait(d, streams[d].get(), "ncclAlltoAll"));
    float ms = 0;
    must(cudaEventElapsedTime(&ms, starts[d].get(), stops[d].get()), "reading events");
    slowest = std::max(slowest, static_cast<double>(ms) * 1000 / calls);
  }
  return slowest;
}
#endif

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
    row.one_sided = OneSided(**made, devices).measure();
  }
  const auto remote = static_cast<double>(remote_rows(shape, batch));
  const auto row_bytes = static_cast<double>(config.dispatch_bytes_per_token());
  const auto sum_bytes = static_cast<double>(config.combine_bytes_per_token());
  // As TensorRT-LLM's table counts: every token once a destination, its own rank's too, hidden states alone.
  const double published = static_cast<double>(row.tokens * std::min(shape.ep_size, shape.top_k)) * sum_bytes;
  row.published_dispatch_gb_s = published / row.one_sided.dispatch_us / 1000;
  row.published_combine_gb_s = published / row.one_sided.combine_us / 1000;
  row.link_dispatch_gb_s = remote * row_bytes / row.one_sided.dispatch_us / 1000;
  row.link_combine_gb_s = remote * sum_bytes / row.one_sided.combine_us / 1000;
#if defined(A2ASIM_HAS_NCCL)
  const auto peers = static_cast<std::int64_t>(devices.size()) - 1;
  const auto per_peer = (static_cast<std::int64_t>(remote * row_bytes) + peers - 1) / peers;
  row.nccl_alltoall_us = measure_nccl_alltoall(devices, (per_peer + 15) / 16 * 16);
  row.link_nccl_gb_s = remote * row_bytes / row.nccl_alltoall_us / 1000;
  row.send_recv = measure_two_sided(config, gpu::TwoSided::send_recv, devices, inputs);
  row.all_gather = measure_two_sided(config, gpu::TwoSided::all_gather, devices, inputs);
#endif
  return row;
}

void print_json(const SizeRow& row, const Link& link) {
  std::printf(
      "{\"tokens\":%lld,\"dispatch_us\":%.2f,\"combine_us\":%.2f,\"published_dispatch_gb_s\":%.1f,"
      "\"published_combine_gb_s\":%.1f,\"link_dispatch_gb_s\":%.1f,\"link_combine_gb_s\":%.1f,"
      "\"dispatch_of_link\":%.3f,\"combine_of_link\":%.3f,\"nccl_alltoall_us\":%.2f,\"nccl_alltoall_of_link\":%.3f,",
      static_cast<long long>(row.tokens), row.one_sided.dispatch_us, row.one_sided.combine_us,
      row.published_dispatch_gb_s, row.published_combine_gb_s, row.link_dispatch_gb_s, row.link_combine_gb_s,
      row.link_dispatch_gb_s / link.one_way_gb_s, row.link_combine_gb_s / link.one_way_gb_s, row.nccl_alltoall_us,
      row.link_nccl_gb_s / link.one_way_gb_s);
  std::printf("\"wall_us\":{\"one_sided\":[%.1f,%.1f],\"send_recv\":[%.1f,%.1f],\"all_gather\":[%.1f,%.1f]}}\n",
              row.one_sided.dispatch_wall_us, row.one_sided.combine_wall_us, row.send_recv.dispatch_wall_us,
              row.send_recv.combine_wall_us, row.all_gather.dispatch_wall_us, row.all_gather.combine_wall_us);
  std::fflush(stdout);
}

void print_table(const std::vector<SizeRow>& rows, const Link& link) {
  std::printf("\nlink, cudaMemcpyPeer: %.1f GB/s one way, %.1f GB/s each way at once\n", link.one_way_gb_s,
              link.both_ways_gb_s);
  std::printf("%6s | %8s %8s | %9s %9s | %8s %8s %8s %8s | %8s %8s | %9s %9s %9s\n", "tokens", "disp us", "comb us",
              "publ disp", "publ comb", "disp GB", "of link", "comb GB", "of link", "nccl us", "of link", "wall one",
              "send/recv", "gather");
  for (const SizeRow& row : rows) {
    std::printf("%6lld | %8.1f %8.1f | %9.1f %9.1f | %8.1f %8.2f %8.1f %8.2f | %8.1f %8.2f | %9.1f %9.1f %9.1f\n",
                static_cast<long long>(row.tokens), row.one_sided.dispatch_us, row.one_sided.combine_us,
                row.published_dispatch_gb_s, row.published_combine_gb_s, row.link_dispatch_gb_s,
                row.link_dispatch_gb_s / link.one_way_gb_s, row.link_combine_gb_s,
                row.link_combine_gb_s / link.one_way_gb_s, row.nccl_alltoall_us, row.link_nccl_gb_s / link.one_way_gb_s,
                row.one_sided.dispatch_wall_us + row.one_sided.combine_wall_us,
                row.send_recv.dispatch_wall_us + row.send_recv.combine_wall_us,
                row.all_gather.dispatch_wall_us + row.all_gather.combine_wall_us);
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
