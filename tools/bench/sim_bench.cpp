// a2asim-bench: the simulator's speed at the three fidelities, single thread, and memcpy beside it.
//
// Every benchmark is one step of all ranks. run.sh makes the table and the ratios.
#include <benchmark/benchmark.h>

#include <cstring>

#include "tools/bench/workloads.h"

namespace a2asim::bench {
namespace {

void geometry(benchmark::State& state) {
  GeometryWorld world(static_cast<int>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(world.step());
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(geometry)->ArgName("ranks")->Arg(8)->Arg(64);

Shape shape_of(const benchmark::State& state) {
  Shape shape;
  shape.ranks = static_cast<int>(state.range(0));
  shape.tokens = state.range(1);
  return shape;
}

void provenance(benchmark::State& state) {
  AllToAllWorld world(shape_of(state), Fidelity::provenance);
  for (auto _ : state) world.step();
  state.counters["pairs"] = static_cast<double>(world.pairs());
}
BENCHMARK(provenance)->ArgNames({"ranks", "tokens"})->Args({8, 128})->Args({64, 128})->Args({64, 4096});

void numeric(benchmark::State& state) {
  Shape shape = shape_of(state);
  shape.hidden = state.range(2);
  AllToAllWorld world(shape, Fidelity::numeric);
  for (auto _ : state) world.step();
  state.counters["pairs"] = static_cast<double>(world.pairs());
  state.SetBytesProcessed(state.iterations() * world.bytes_copied());
}

// The same bytes as numeric, copied a rank at a time from one buffer to another.
void copy(benchmark::State& state) {
  Shape shape = shape_of(state);
  shape.hidden = state.range(2);
  const std::int64_t bytes = AllToAllWorld(shape, Fidelity::numeric).bytes_copied();
  const auto each = static_cast<std::size_t>(bytes / shape.ranks);
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  std::vector<std::byte> from(each * ranks, std::byte{1}), to(each * ranks, std::byte{2});
  for (auto _ : state) {
    for (std::size_t r = 0; r < ranks; ++r) std::memcpy(to.data() + r * each, from.data() + r * each, each);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(each * ranks));
}

void numeric_shapes(benchmark::internal::Benchmark* registered) {
  registered->ArgNames({"ranks", "tokens", "hidden"})
      ->Args({8, 128, 64})
      ->Args({8, 128, 7168})
      ->Args({32, 64, 64})
      ->Args({64, 64, 64});
}
BENCHMARK(numeric)->Apply(numeric_shapes);
BENCHMARK(copy)->Apply(numeric_shapes);

}  // namespace
}  // namespace a2asim::bench

BENCHMARK_MAIN();
