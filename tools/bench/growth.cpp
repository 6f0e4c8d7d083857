// a2asim-bench-growth: time and memory of one step against ranks, tokens and hidden size, one JSON object a line.
//
// Every point runs in a process of its own, so that the largest resident size is the point's. Times are CPU time, the
// least of several; run.sh fits the exponents.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>

#include "tools/bench/workloads.h"

namespace a2asim::bench {
namespace {

struct Measured {
  double seconds = 0;
  std::int64_t pairs = 0;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seconds of one step: the least over samples of some milliseconds.
template <class Step>
double seconds_of(double budget_s, const Step& step) {
  std::int64_t steps = 1;
  double least = std::numeric_limits<double>::max();
  for (double spent = 0; spent < budget_s;) {
    const double start = cpu_seconds();
    for (std::int64_t i = 0; i < steps; ++i) step();
    const double took = cpu_seconds() - start;
    spent += took;
    least = std::min(least, took / static_cast<double>(steps));
    if (took < 0.005) steps *= 2;
  }
  return least;
}

Measured measure(Fidelity fidelity, const Shape& shape, double budget_s) {
  if (fidelity == Fidelity::geometry) {
    GeometryWorld world(shape.ranks);
    return {seconds_of(budget_s, [&] { world.step(); }), 0};
  }
  AllToAllWorld world(shape, fidelity);
  return {seconds_of(budget_s, [&] { world.step(); }), world.pairs()};
}

void report(const char* series, const char* variable, std::int64_t value, Fidelity fidelity, const Shape& shape,
            double budget_s) {
  int ends[2];
  if (pipe(ends) != 0) stop("no pipe");
  const pid_t child = fork();
  if (child < 0) stop("no process for a measurement");
  if (child == 0) {
    const Measured measured = measure(fidelity, shape, budget_s);
    const bool written = write(ends[1], &measured, sizeof measured) == sizeof measured;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  Measured measured;
  const bool complete = read(ends[0], &measured, sizeof measured) == sizeof measured;
  close(ends[0]);
  int status = 0;
  rusage usage{};
  if (wait4(child, &status, 0, &usage) != child || status != 0 || !complete)
    stop(fmt::format("the measurement of {} at {} {} failed", series, variable, value));
  fmt::print("{{\"series\":\"{}\",\"variable\":\"{}\",\"value\":{},\"pairs\":{},\"seconds\":{:.4g},\"peak_kib\":{}}}\n",
             series, variable, value, measured.pairs, measured.seconds, usage.ru_maxrss);
  std::fflush(stdout);
}

}  // namespace
}  // namespace a2asim::bench

int main(int argc, char** argv) {
  using namespace a2asim;
  using bench::report;
  const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
  if (argc > 2 || (argc == 2 && !quick)) bench::stop("usage: a2asim-bench-growth [--quick]");
  const double budget_s = quick ? 0.1 : 1.0;
  for (const int ranks : {8, 16, 32, 64})
    report("geometry", "ranks", ranks, Fidelity::geometry, {.ranks = ranks}, budget_s);
  for (const bool numeric : {false, true}) {
    const Fidelity fidelity = numeric ? Fidelity::numeric : Fidelity::provenance;
    const char* series = numeric ? "numeric" : "provenance";
    for (const int ranks : {8, 16, 32, 64})
      report(series, "ranks", ranks, fidelity, {.ranks = ranks, .tokens = numeric ? 128 : 512}, budget_s);
    for (const std::int64_t tokens : {128, 256, 512, 1024, 2048})
      report(series, "tokens", tokens, fidelity, {.ranks = 8, .tokens = tokens}, budget_s);
  }
  for (const std::int64_t hidden : {512, 1024, 2048, 4096, 8192})
    report("numeric", "hidden", hidden, Fidelity::numeric, {.ranks = 8, .tokens = 128, .hidden = hidden}, budget_s);
  return 0;
}
