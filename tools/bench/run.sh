#!/usr/bin/env bash
# Benchmarks of the simulator, with what a person would use instead beside it: a table, and one JSON object a line.
#
#   tools/bench/run.sh [--quick] [--json FILE] [--build DIR]
#
# --quick    shorter samples: under a minute, once built
# --json     {"name":..,"value":..,"unit":..} a line
# --build    where to build (default: build/release where it is configured, else build/bench-release)
#
# Peers are optional: OpenMPI (mpicxx, mpirun) and SimGrid (smpicxx, smpirun); without them their rows say so.
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
quick=0 json=/dev/null build=
while [ $# -gt 0 ]; do
  case $1 in
    --quick) quick=1; shift ;;
    --json) json=${2:?--json needs a file}; shift 2 ;;
    --build) build=${2:?--build needs a directory}; shift 2 ;;
    -h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "run.sh: unknown option $1; see --help" >&2; exit 2 ;;
  esac
done
if [ -z "$build" ]; then
  build=$root/build/release
  [ -f "$build/CMakeCache.txt" ] || build=$root/build/bench-release
fi
if ! grep -qs '^CMAKE_ROOT:INTERNAL=' "$build/CMakeCache.txt"; then  # none, or one of a stop in between
  cmake --fresh -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DA2ASIM_CUDA=OFF -DA2ASIM_BUILD_TESTS=OFF >&2
fi
if ! cmake --build "$build" --target a2asim-bench-all >"$build/bench-build.log" 2>&1; then
  tail -20 "$build/bench-build.log" >&2
  echo "run.sh: building failed; Google Benchmark (libbenchmark-dev) is needed, see $build/bench-build.log" >&2
  exit 2
fi
bin=$build/tools/bench
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ $quick = 1 ]; then sample_s=0.1 repetitions=3 peer_s=1; else sample_s=1 repetitions=5 peer_s=6; fi

# sim FILTER: the median of some repetitions, as Google Benchmark's JSON.
sim() {
  "$bin/a2asim-bench" --benchmark_filter="$1" --benchmark_min_time=$sample_s --benchmark_repetitions=$repetitions \
    --benchmark_report_aggregates_only=true --benchmark_format=json >"$work/sim.$2.json" 2>"$work/errors" ||
    { cat "$work/errors" >&2; exit 1; }
  echo "  $1" >&2
}
# A peer that cannot run leaves the reason in place of its answer.
peer() {  # NAME COMMAND..
  local name=$1; shift
  if [ ! -x "$bin/a2asim-bench-${name%%.*}" ]; then echo "not installed" >"$work/$name.why"; return; fi
  if ! timeout 120 "$@" >"$work/$name.json" 2>"$work/$name.log"; then echo "did not run" >"$work/$name.why"; fi
  echo "  $name" >&2
}
mpi() {  # RANKS TOKENS HIDDEN
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    peer "mpi.$1x$2x$3" mpirun --oversubscribe -n "$1" "$bin/a2asim-bench-mpi" "$2" "$3" $peer_s
}
smpi() {
  { echo '<?xml version="1.0"?>'; echo '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    echo '<platform version="4.1"><zone id="all" routing="Full"><cluster id="ranks" prefix="rank" suffix="" radical="0-63"'
    echo ' speed="1Gf" bw="125MBps" lat="50us"/></zone></platform>'; } >"$work/platform.xml"
  for rank in $(seq 0 $(($1 - 1))); do echo "rank$rank"; done >"$work/hosts"
  peer "smpi.$1x$2x$3" smpirun -np "$1" -platform "$work/platform.xml" -hostfile "$work/hosts" \
    "$bin/a2asim-bench-smpi" "$2" "$3" $peer_s
}

echo "measuring .." >&2
sim '^geometry/' geometry
sim '^provenance/.*tokens:128$' provenance
sim '^provenance/.*tokens:4096$' large
# What is divided by each other runs right after each other.
sim '/ranks:8/tokens:128/hidden:64$' small;     mpi 8 128 64
sim '/ranks:8/tokens:128/hidden:7168$' wide;    mpi 8 128 7168
sim 'numeric/ranks:32/tokens:64/hidden:64$' n32; mpi 32 64 64
sim 'numeric/ranks:64/tokens:64/hidden:64$' n64; smpi 64 64 64
"$bin/a2asim-bench-growth" $([ $quick = 0 ] || echo --quick) >"$work/growth.jsonl"
python3 "$here/report.py" "$work" "$json"
