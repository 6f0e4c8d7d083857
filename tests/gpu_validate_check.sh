#!/usr/bin/env bash
# gpu_validate_check.sh GPU_VALIDATE: tools/gpu_validate.sh with stand-ins for nvidia-smi and the programs that it runs.
set -euo pipefail
validate=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PATH=$folder/path:$PATH

# program FILE LINE..: a stand-in
program() {
  mkdir -p "$(dirname "$folder/$1")"
  { echo '#!/bin/sh' && printf '%s\n' "${@:2}"; } >"$folder/$1"
  chmod +x "$folder/$1"
}
gpu() { program path/nvidia-smi "case \$1 in -L) echo 'GPU 0: stand-in' ;; *) echo $1 ;; esac"; }

# expect WANTED_EXIT_CODE WANTED_LAST_LINE
expect() {
  local code=0
  "$validate" --bin "$folder/bin" --quick >"$folder/out" 2>&1 || code=$?
  [ "$code" = "$1" ] && [ "$(tail -n 1 "$folder/out")" = "gpu_validate: $2" ] && return
  printf 'wanted exit code %s and: %s\ngot exit code %s and:\n' "$1" "$2" "$code" >&2
  cat "$folder/out" >&2
  exit 1
}

program bin/conformance_tests "echo '[doctest] test cases: 5 | 5 passed | 0 failed | 0 skipped'"
program bin/gpu_tests "printf 'SKIPPED: a\nSKIPPED: b\n'" "echo '[doctest] test cases: 2 | 2 passed | 0 failed | 9 skipped'" 'exit 77'
program bin/a2asim "echo 'validate: 7 passed, 0 failed, 1 skipped'"
program bin/a2asim-bench-gpu true

gpu 7.5
expect 0 '0 passed, 0 failed, 1 skipped'
gpu 9.0 # 5 + 2 x 7 + the benchmark; 2 + 2 x 1 + several GPUs, compute-sanitizer
expect 0 '20 passed, 0 failed, 6 skipped'
gpu 12.0
program bin/a2asim "echo 'the scenario cannot be used' >&2" 'exit 2'
expect 1 '6 passed, 2 failed, 4 skipped'
program bin/a2asim-bench-gpu 'exit 2'
expect 1 '5 passed, 3 failed, 4 skipped'
program bin/gpu_tests "echo 'SKIPPED: a'" "echo '[doctest] test cases: 2 | 1 passed | 1 failed | 0 skipped'" 'exit 1'
expect 1 '5 passed, 4 failed, 3 skipped'
