// a2asim-bench-gpu: the CUDA all-to-all's dispatch, combine and sanitize on the ten configurations that FlashInfer's
// kernels were timed with, all ranks on one device; with --gpus N one rank on each of N devices, in
// several_gpus_bench.cpp.
//
// Times are medians of 30 after a warm-up, from CUDA events around the call, for all ranks together: a plain launch; a
// graph of one call; and a tenth of a graph of ten calls (without the launch). Beside them a device-to-device copy of
// the same number of bytes (half read, half written), timed in the same three ways in the same run. One JSON line a
// row, a table last. Nothing is timed on zeros: payloads are random bits, outputs poisoned before.
#include "tools/bench/gpu_bench.h"

#include <cuda_runtime_api.h>

#include <string>

#include "gpu/launch.h"

namespace a2asim::bench {
namespace {

constexpr int kRepetitions = 30;
constexpr int kWarmUps = 5;
constexpr int kCallsPerGraph = 10;

const std::vector<Configuration> kConfigurations = {
    {8, {1}, 7168, 8, 256, 20.6, 17.2},      {8, {16}, 7168, 8, 256, 22.6, 17.8},
    {8, {128}, 7168, 8, 256, 45.8, 48.1},    {8, {1024}, 7168, 8, 256, 249.2, 283.3},
    {8, {4096}, 7168, 8, 256, 934.4, 1077},  {4, {1024}, 7168, 8, 256, 87.0, 135.5},
    {16, {256}, 7168, 8, 256, 151.0, 160.6}, {8, {1024}, 4096, 10, 512, 190.9, 187.9},
    {32, {64}, 7168, 8, 256, 105.8, 103.2},  {8, {0, 128, 7, 64, 1, 100, 33, 128}, 7168, 8, 256, 27.5, 26.2},
};

struct Times {
  double plain_us = 0;
  double graph_us = 0;
  double in_row_us = 0;  // one of kCallsPerGraph in a graph
};

// What is to be timed, put on a stream.
using Enqueue = std::function<Result<void>()>;

double time_us(gpu::Stream stream, const std::function<void()>& run) {
  static cudaEvent_t start = nullptr, stop = nullptr;
  if (start == nullptr) {
    must(cudaEventCreate(&start), "creating an event");
    must(cudaEventCreate(&stop), "creating an event");
  }
  std::vector<double> times;
  for (int i = 0; i < kWarmUps + kRepetitions; ++i) {
    must(cudaStreamSynchronize(stream), "waiting");
    must(cudaEventRecord(start, stream), "recording an event");
    run();
    must(cudaEventRecord(stop, stream), "recording an event");
    must(cudaEventSynchronize(stop), "waiting");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, start, stop), "reading events");
    if (i >= kWarmUps) times.push_back(static_cast<double>(ms) * 1000);
  }
  return median(times);
}

gpu::OwnedGraphExec record(gpu::Stream stream, const Enqueue& enqueue, int calls) {
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  for (int i = 0; i < calls; ++i) must(enqueue());
  cudaGraph_t graph = nullptr;
  must(cudaStreamEndCapture(stream, &graph), "ending a capture");
  cudaGraphExec_t exec = nullptr;
  must(cudaGraphInstantiate(&exec, graph, 0), "instantiating a graph");
  must(cudaGraphDestroy(graph), "destroying a graph");
  return gpu::OwnedGraphExec(exec);
}

Times measure(gpu::Stream stream, const Enqueue& enqueue) {
  Times times;
  times.plain_us = time_us(stream, [&] { must(enqueue()); });
  const gpu::OwnedGraphExec one = record(stream, enqueue, 1);
  times.graph_us = time_us(stream, [&] { must(cudaGraphLaunch(one.get(), stream), "launching a graph"); });
  const gpu::OwnedGraphExec many = record(stream, enqueue, kCallsPerGraph);
  times.in_row_us =
      time_us(stream, [&] { must(cudaGraphLaunch(many.get(), stream), "launching a graph"); }) / kCallsPerGraph;
  return times;
}

struct Copy {
  Times times;
  double gb_per_s() const { return bytes / times.in_row_us / 1000; }
  double bytes = 0;
};

// cudaMemcpyAsync may be half as fast again at one size as at the next (seen on an H200), so a fair opponent is the
// best of a few sizes nearby, its times scaled to the bytes asked for.
Copy measure_copy(gpu::Stream stream, double bytes_moved) {
  Copy best;
  best.bytes = bytes_moved;
  for (const std::int64_t granule :
       {std::int64_t{1} << 16, std::int64_t{1} << 20, std::int64_t{1} << 21, std::int64_t{3} << 20}) {
    const auto wanted = static_cast<std::int64_t>(bytes_moved / 2);
    if (granule > wanted && best.times.in_row_us > 0) break;
    const std::int64_t half = (wanted + granule - 1) / granule * granule;
    auto from = gpu::allocate_device(half);
    auto to = gpu::allocate_device(half);
    if (!from || !to) must(fail(ErrorKind::runtime_error, "no memory for the copy that times are compared with"));
    must(cudaMemset(from->get(), 0x5a, static_cast<std::size_t>(half)), "filling");
    must(cudaDeviceSynchronize(), "filling");
    Times times = measure(stream, [&] {
      return gpu::cuda_result(
          cudaMemcpyAsync(to->get(), from->get(), static_cast<std::size_t>(half), cudaMemcpyDeviceToDevice, stream),
          "copying");
    });
    const double scale = bytes_moved / 2 / static_cast<double>(half);
    times = {times.plain_us * scale, times.graph_us * scale, times.in_row_us * scale};
    if (best.times.in_row_us == 0 || times.in_row_us < best.times.in_row_us) best.times = times;
  }
  return best;
}

struct Row {
  std::string name, op;
  Times times;
  Copy copy;
  double published_us = 0;
  bool guard = true;
};

std::string name_of(const Configuration& shape) {
  std::string tokens;
  for (const std::int64_t count : shape.tokens) tokens += (tokens.empty() ? "" : " ") + std::to_string(count);
  return std::to_string(shape.ep_size) + ", " + (shape.tokens.size() > 1 ? "[" + tokens + "]" : tokens) + ", " +
         std::to_string(shape.hidden_size) + ", " + std::to_string(shape.top_k) + ", " +
         std::to_string(shape.num_experts);
}

void print_json(const Row& row, double floor_us) {
  std::printf(
      "{\"configuration\":\"%s\",\"op\":\"%s\",\"guard\":%s,\"plain_us\":%.2f,\"graph_us\":%.2f,"
      "\"in_row_us\":%.2f,\"bytes\":%.0f,\"copy_plain_us\":%.2f,\"copy_graph_us\":%.2f,\"copy_in_row_us\":%.2f,"
      "\"of_copy_graph\":%.3f,\"of_copy_in_row\":%.3f,\"published_graph_us\":%.1f,\"launch_floor_graph_us\":%.2f}\n",
      row.name.c_str(), row.op.c_str(), row.guard ? "true" : "false", row.times.plain_us, row.times.graph_us,
      row.times.in_row_us, row.copy.bytes, row.copy.times.plain_us, row.copy.times.graph_us, row.copy.times.in_row_us,
      row.copy.times.graph_us / row.times.graph_us, row.copy.times.in_row_us / row.times.in_row_us, row.published_us,
      floor_us);
  std::fflush(stdout);
}

void measure_configuration(const Configuration& shape, double floor_us, std::vector<Row>& rows) {
  const Batch batch = draw(shape);
  const AllToAllConfig config = config_of(shape, batch);
  const std::vector<DispatchInput> inputs = inputs_of(shape, batch);
  const auto moved = static_cast<double>(batch.tokens + batch.copies);
  const double dispatch_bytes = moved * static_cast<double>(config.dispatch_bytes_per_token());
  const double combine_bytes = moved * static_cast<double>(config.combine_bytes_per_token());
  for (const bool guard : {true, false}) {
    gpu::CudaOptions options;
    options.guard = guard;
    auto made = gpu::CudaAllToAll::create(std::span(&config, 1), options);
    if (!made) must(tl::unexpected(made.error()));
    gpu::CudaAllToAll& all_to_all = **made;
    must(all_to_all.poison(std::byte{0xff}));
    must(all_to_all.stage(inputs));
    const gpu::Stream stream = all_to_all.stream(0);
    const auto add = [&](const char* op, double bytes, double published_us, const Enqueue& enqueue) {
      Row row{name_of(shape), op, measure(stream, enqueue), {}, published_us, guard};
      must(all_to_all.finish());
      if (bytes > 0) row.copy = measure_copy(stream, bytes);
      print_json(row, floor_us);
      rows.push_back(row);
    };
    add("dispatch", dispatch_bytes, shape.published_dispatch_us, [&] { return all_to_all.enqueue_dispatch(); });
    if (guard) add("sanitize", 0, 0, [&] { return all_to_all.enqueue_sanitize(-1); });
    must(all_to_all.enqueue_experts({0, 2}));
    must(all_to_all.finish());
    add("combine", combine_bytes, shape.published_combine_us, [&] { return all_to_all.enqueue_combine(); });
  }
}

void print_table(const std::vector<Row>& rows, const Times& floor) {
  std::printf("\nlaunch floor: plain %.1f us, graph %.1f us, in a row %.2f us\n", floor.plain_us, floor.graph_us,
              floor.in_row_us);
  std::printf("%-48s %-8s %-5s %8s %8s %8s | %8s %8s %6s %6s | %9s %6s\n", "ep, tokens, hidden, top_k, experts", "op",
              "guard", "plain us", "graph us", "row us", "copy gr", "copy row", "of gr", "of row", "published",
              "faster");
  for (const Row& row : rows) {
    std::printf("%-48s %-8s %-5s %8.1f %8.1f %8.1f | ", row.name.c_str(), row.op.c_str(), row.guard ? "on" : "off",
                row.times.plain_us, row.times.graph_us, row.times.in_row_us);
    if (row.copy.bytes > 0) {
      std::printf("%8.1f %8.1f %6.2f %6.2f | %9.1f %5.2fx\n", row.copy.times.graph_us, row.copy.times.in_row_us,
                  row.copy.times.graph_us / row.times.graph_us, row.copy.times.in_row_us / row.times.in_row_us,
                  row.published_us, row.published_us / row.times.graph_us);
    } else {
      std::printf("%8s %8s %6s %6s | %9s %6s\n", "-", "-", "-", "-", "-", "-");
    }
  }
}

}  // namespace
}  // namespace a2asim::bench

int main(int argc, char** argv) {
  using namespace a2asim;
  using namespace a2asim::bench;
  int gpus = 1, only = -1;
  gpu::PeerMemory peer_memory = gpu::PeerMemory::automatic;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto way = gpu::parse_peer_memory(i + 1 < argc ? argv[i + 1] : "");
    if (argument == "--gpus" && i + 1 < argc) {
      gpus = std::atoi(argv[++i]);
    } else if (argument == "--only" && i + 1 < argc) {
      only = std::atoi(argv[++i]);
    } else if (argument == "--peer-memory" && way) {
      peer_memory = *way;
      ++i;
    } else {
      std::fprintf(stderr,
                   "usage: a2asim-bench-gpu [--gpus N] [--only CONFIGURATION] [--peer-memory auto|nccl|peer]\n"
                   "  --gpus N  one rank on each of the first N devices, beside NCCL; default 1: all ranks on one\n"
                   "  --only I  only configuration I, counted from 0\n");
      return 2;
    }
  }
  const auto usable = gpu::usable_devices();
  if (!usable || gpus < 1 || gpus > *usable) {
    std::fprintf(stderr, "a2asim-bench-gpu: %s\n",
                 usable ? "there are not so many devices; lower --gpus" : usable.error().message.c_str());
    return 2;
  }
  std::vector<int> devices;
  for (int device = 0; device < gpus; ++device) devices.push_back(device);
  cudaDeviceProp card;
  must(cudaGetDeviceProperties(&card, 0), "reading the card's name");
  std::printf("{\"card\":\"%s\",\"multiprocessors\":%d,\"gpus\":%d}\n", card.name, card.multiProcessorCount, gpus);
  if (gpus > 1) {
    measure_several_gpus(devices, peer_memory, only);
    return 0;
  }
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  const Times floor = measure(stream, [&] { return gpu::cuda_result(gpu::launch_nothing(stream), "launching"); });
  std::vector<Row> rows;
  for (std::size_t i = 0; i < kConfigurations.size(); ++i) {
    if (only < 0 || only == static_cast<int>(i)) measure_configuration(kConfigurations[i], floor.graph_us, rows);
  }
  print_table(rows, floor);
  return 0;
}
