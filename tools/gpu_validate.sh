#!/usr/bin/env bash
# Everything that needs a GPU, in one command, over all GPUs found: conformance and GPU tests, all shipped scenarios on
# both backends, in one process and in several, compute-sanitizer, benchmark. The last line counts what passed, failed
# and was skipped.
#   tools/gpu_validate.sh                 builds with the cuda preset first, where nvcc and cmake are found
#   tools/gpu_validate.sh --bin DIR       no build: takes the programs from anywhere under DIR
#   tools/gpu_validate.sh --quick         without compute-sanitizer and with one benchmark configuration
#   tools/gpu_validate.sh --no-benchmark  without the benchmark
# Exit code: 0 if nothing failed (skipping is no failure), 1 if something did, 2 if it cannot start.
set -uo pipefail
unset CDPATH
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin="" quick=no benchmark=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --bin) bin=${2:?--bin needs a folder}; shift 2 ;;
    --quick) quick=yes; shift ;;
    --no-benchmark) benchmark=no; shift ;;
    *) sed -n '2,10p' "$0" >&2; exit 2 ;;
  esac
done
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { printf '\n== %s\n' "$*"; }
skip() { printf 'SKIPPED: %s\n' "$*"; skipped=$((skipped + 1)); }
fail() { printf 'FAILED: %s\n' "$*"; failed=$((failed + 1)); }
# add PASSED FAILED SKIPPED
add() { passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3)); }
summary() { printf '\ngpu_validate: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"; }
find_program() { find "$bin" -type f -name "$1" -perm -u+x 2>/dev/null | head -n 1; }

# run NAME COMMAND..: output to the terminal and to $log; sets $code and $seconds
run() {
  local name=$1 start=$SECONDS
  shift
  say "$name"
  "$@" 2>&1 | tee "$log"
  code=${PIPESTATUS[0]} seconds=$((SECONDS - start))
}

# One step, one count: exit code 0 is a pass, 77 a doctest program that skipped everything, anything else a failure.
step() {
  run "$@"
  case $code in
    0) passed=$((passed + 1)) ;;
    77) skip "$1: see above" ;;
    *) fail "$1 (exit code $code)" ;;
  esac
  printf '%s: %d s\n' "$1" "$seconds"
}

# A doctest program counts its test cases; one that prints "SKIPPED: why" has passed nothing.
doctest() {
  run "$@"
  local line skips
  line=$(grep -a '^\[doctest\] test cases:' "$log" | tail -n 1)
  skips=$(grep -ac '^SKIPPED: ' "$log")
  if [[ $line =~ \|\ *([0-9]+)\ passed\ \|\ *([0-9]+)\ failed ]] && [ "${BASH_REMATCH[1]}" -ge "$skips" ]; then
    add $((BASH_REMATCH[1] - skips)) "${BASH_REMATCH[2]}" "$skips"
    [ "$code" = 0 ] || [ "$code" = 77 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || fail "$1 (exit code $code)"
  else
    fail "$1: no count of test cases (exit code $code)"
  fi
  printf '%s: %d s\n' "$1" "$seconds"
}

# a2asim validate counts scenarios, with the guard on and off.
validate() {
  run "$@"
  if [[ $(grep -aE '^validate: [0-9]+ passed' "$log" | tail -n 1) =~ ^validate:\ ([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    add "${BASH_REMATCH[@]:1:3}"
    [ "$code" = 0 ] || [ "${BASH_REMATCH[2]}" -gt 0 ] || fail "$1 (exit code $code)"
  else
    fail "$1: no count of scenarios (exit code $code)"
  fi
  printf '%s: %d s\n' "$1" "$seconds"
}

if [ -z "$bin" ]; then
  if command -v nvcc >/dev/null && command -v cmake >/dev/null; then
    bin=$root/build/cuda
    say "Build: build/cuda"
    (cd "$root" && { cmake --preset cuda || cmake --fresh --preset cuda; } &&
      cmake --build --preset cuda --target conformance_tests gpu_tests a2asim a2asim-bench-gpu) || exit 2
  else
    printf 'gpu_validate.sh: no nvcc or no cmake here; build elsewhere and give --bin DIR\n' >&2
    exit 2
  fi
fi
# Decided here once; after this no exit code means that there is no device.
nvidia-smi -L
gpus=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep -cE '^([89]|[1-9][0-9])\.')
if [ "$gpus" = 0 ]; then
  skip "everything: there is no GPU of compute capability 8.0 or newer"
  summary
  exit 0
fi
conformance=$(find_program conformance_tests) tests=$(find_program gpu_tests)
program=$(find_program a2asim) bench=$(find_program a2asim-bench-gpu)

one_gpu=(-tc='conformance cuda: *')
if [ -n "$conformance" ]; then
  doctest "conformance" "$conformance" -tc='conformance cuda*'
else
  skip "conformance: no program conformance_tests under $bin"
fi
if [ -n "$tests" ]; then doctest "GPU tests" "$tests"; else skip "GPU tests: no program gpu_tests under $bin"; fi

if [ -n "$program" ]; then
  scenarios=("$root"/sim/scenarios/*.yaml)
  validate "validate: a launch a GPU" "$program" validate "${scenarios[@]}" --device cuda
  validate "validate: a launch a rank" "$program" validate "${scenarios[@]}" --device cuda --ranks-per-gpu 1
else
  skip "validate: no program a2asim under $bin"
fi

# Several GPUs: every way to reach a peer's memory, in one process and with a process a GPU.
if [ "$gpus" -lt 2 ]; then
  skip "several GPUs, several processes: there is one GPU"
elif [ -n "$program" ]; then
  validate "validate: one GPU of $gpus" "$program" validate "${scenarios[@]}" --gpus 1
  validate "validate: two ranks a launch" "$program" validate "${scenarios[@]}" --ranks-per-gpu 2
  for way in peer nccl; do
    validate "validate: $gpus GPUs, $way" "$program" validate "${scenarios[@]}" --peer-memory $way
  done
  mpi=(mpirun --allow-run-as-root --oversubscribe --bind-to none -n "$gpus")
  torch=(torchrun --nproc-per-node "$gpus" --master-addr 127.0.0.1 --master-port 29611 --no-python)
  for way in ipc nccl; do
    if command -v mpirun >/dev/null; then
      validate "validate: $gpus processes by mpirun, $way" \
        "${mpi[@]}" "$program" validate "${scenarios[@]}" --peer-memory $way
      [ -n "$conformance" ] && A2ASIM_PEER_MEMORY=$way step "conformance: $gpus processes by mpirun, $way" \
        "${mpi[@]}" "$conformance" "${one_gpu[@]}"
    else
      skip "mpirun, $way: not found"
    fi
  done
  if command -v torchrun >/dev/null; then
    validate "validate: $gpus processes by torchrun" "${torch[@]}" "$program" validate "${scenarios[@]}"
  else
    skip "torchrun: not found"
  fi
fi

if [ "$quick" = yes ]; then
  skip "compute-sanitizer: --quick"
elif ! command -v compute-sanitizer >/dev/null; then
  skip "compute-sanitizer: not found"
else
  # It runs one kernel at a time, so tests whose launches wait for each other leave themselves out; and it is slow, so
  # the conformance cases of many megabytes are left out here.
  export A2ASIM_SERIAL_LAUNCHES=1 A2ASIM_NCCL_LIMIT_S=300  # NCCL starts slowly under it
  large='*SINGLE_GPU*,*MULTI_RANK*,*LARGER_PAYLOADS*,*COMBINE*,*132 tokens*'
  for tool in memcheck racecheck synccheck initcheck; do
    # NCCL asks CUDA for what a machine may not have, and expects the refusal: return codes are no memory errors.
    check=(compute-sanitizer --tool "$tool" --error-exitcode 1)
    [ "$tool" = memcheck ] && check+=(--report-api-errors no)
    [ -n "$conformance" ] && step "$tool: conformance" "${check[@]}" "$conformance" "${one_gpu[@]}" -tce="$large"
    # initcheck sees what this process writes: of a peer that was killed it thinks that nobody wrote its memory.
    left_out=()
    [ "$tool" = initcheck ] && left_out=(-tce='*one is killed*')
    [ -n "$tests" ] && step "$tool: GPU tests" "${check[@]}" "$tests" "${left_out[@]}"
  done
  unset A2ASIM_SERIAL_LAUNCHES A2ASIM_NCCL_LIMIT_S
fi

if [ "$benchmark" = no ]; then
  skip "benchmark: --no-benchmark"
elif [ -z "$bench" ]; then
  skip "benchmark: no program a2asim-bench-gpu under $bin"
elif [ "$quick" = yes ]; then
  step "benchmark (one configuration)" "$bench" --only 2
else
  step "benchmark" "$bench"
fi
if [ "$benchmark" = yes ] && [ -n "$bench" ] && [ "$gpus" -ge 2 ]; then
  step "benchmark: $gpus GPUs" "$bench" --gpus "$gpus"
fi

summary
[ "$failed" -eq 0 ]
