#!/usr/bin/env bash
# Does the conformance suite notice broken kernels? Each fault below goes into a copy of our CUDA backend, which is
# built and put under `a2asim conformance --backend cuda` through the calls of a plug-in: the suite must fail it, and
# pass the unchanged one.
#   tools/gpu_mutants.sh               builds and runs all; needs nvcc, cmake and a GPU
#   tools/gpu_mutants.sh --build       only builds: build/gpu_mutants/a2asim.FAULT (needs no GPU)
#   tools/gpu_mutants.sh --run DIR     only runs those that lie in DIR
#   tools/gpu_mutants.sh --check       only whether each fault's text stands in the sources, once
# Exit code: 0 if every fault is noticed, 1 if one is not, 2 if it cannot start. The first build takes minutes, a fault
# recompiles a file.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=build/gpu_mutants

# name | file | text | what takes its place
faults=(
  'slot_stride|gpu/dispatch.cuh|rank.row_number(rank.rank, slot);|rank.row_number(rank.rank, slot / 2);'
  'counters_not_zeroed|gpu/dispatch.cuh|recv_counters)[rank.rank] = total;|recv_counters)[rank.rank] += total;'
  'signal_before_data|gpu/dispatch.cu|  wait_for_previous_kernel();
  // All that route left|  // All that route left'
  'wrong_peer|gpu/dispatch.cuh|args.slices[target.to] + rank.row(p, row)|args.slices[rank.rank] + rank.row(p, row)'
  'combine_reads_another_slot|gpu/combine.cuh|rank.row_number(rank.rank, slot));|rank.row_number(rank.rank, slot / 2));'
)

die() {
  echo "gpu_mutants.sh: $*" >&2
  exit 2
}

# Sets name, file, before and after: the file around the fault's text, which must be there exactly once; and new.
locate() {
  local rest=$1 old text
  name=${rest%%|*} rest=${rest#*|}
  file=${rest%%|*} rest=${rest#*|}
  old=${rest%%|*} new=${rest#*|}
  text=$(<"$file")
  before=${text%%"$old"*} after=${text#*"$old"}
  [ "$before" != "$text" ] && [ "${after%%"$old"*}" = "$after" ] || die "$name: its text is not in $file exactly once"
}

build_one() {
  cmake --build "$out/build" --target a2asim >"$out/build.log" 2>&1 || {
    tail -n 20 "$out/build.log" >&2
    die "$1 does not build: $out/build.log"
  }
  cp "$out/build/tools/a2asim" "$out/a2asim.$1"
  echo "built: $1"
}

build_all() {
  command -v cmake >/dev/null || die "no cmake"
  mkdir -p "$out/source"
  tar -c --exclude=./build --exclude=./.git . | tar -x -C "$out/source"
  cmake -S "$out/source" -B "$out/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DA2ASIM_CUDA=ON -DA2ASIM_BUILD_TESTS=OFF \
    -DA2ASIM_PYTHON_MODULE=OFF -DA2ASIM_UNITY=ON >/dev/null || die "cannot be configured: is nvcc there?"
  build_one unchanged
  local fault
  for fault in "${faults[@]}"; do
    locate "$fault"
    printf '%s\n' "$before$new$after" >"$out/source/$file"
    build_one "$name"
    cp "$file" "$out/source/$file"
  done
}

# Sets code. 0: the suite passes, 1: a case failed, 2: the device gave up (an illegal address), which is noticed, too.
run_one() {
  local said
  code=0
  said=$(timeout 600 "$1/a2asim.$2" conformance --backend cuda 2>&1) || code=$?
  printf '%s: exit code %s, %s\n' "$2" "$code" "$(tail -n 1 <<<"$said")"
}

run_all() {
  local missed=0 fault
  run_one "$1" unchanged
  [ "$code" = 0 ] || die "the unchanged kernels do not pass here: is there a GPU?"
  for fault in "${faults[@]}"; do
    run_one "$1" "${fault%%|*}"
    [ "$code" = 1 ] || [ "$code" = 2 ] || missed=$((missed + 1))
  done
  echo "gpu_mutants: $((${#faults[@]} - missed)) of ${#faults[@]} broken backends fail the suite"
  [ "$missed" = 0 ]
}

case ${1:-} in
  --check) for fault in "${faults[@]}"; do locate "$fault"; done ;;
  --build) build_all ;;
  --run) run_all "${2:?--run needs a folder}" ;;
  '') build_all && run_all "$out" ;;
  *) sed -n '2,12p' "$0" >&2 && exit 2 ;;
esac
