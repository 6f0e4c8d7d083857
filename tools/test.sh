#!/usr/bin/env bash
# Set-up, then build and run every test.
#   tools/test.sh               release build, all tests
#   tools/test.sh --sanitize    and again under address and undefined-behaviour sanitizers, 30 s of fuzzing for each fuzz
#                               target, and the tests labelled thread under the thread sanitizer
set -euo pipefail
unset CDPATH
# shellcheck source=tools/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

sanitize=no
case "$#:${1:-}" in
  0:) ;;
  1:--sanitize) sanitize=yes ;;
  *) die "usage: tools/test.sh [--sanitize]" ;;
esac
FUZZ_SECONDS=30
jobs=$(nproc)

# run_tests PRESET [CTEST OPTION..]; ctest lists what was skipped, but not why.
run_tests() {
  local preset=$1
  shift
  say "Test: build/$preset"
  ctest --test-dir "$A2ASIM_ROOT/build/$preset" --output-on-failure --no-tests=error -j "$jobs" "$@" ||
    die "tests failed in build/$preset (see above)"
  grep -aE '^(-- )?SKIPPED: ' "$A2ASIM_ROOT/build/$preset/Testing/Temporary/LastTest.log" | sort | uniq -c || true
}

fuzz() {
  local target name corpus scratch
  scratch=$(mktemp -d)
  for target in "$A2ASIM_ROOT"/build/sanitize/tests/fuzz/*_fuzz; do
    [ -x "$target" ] || continue
    name=$(basename "$target")
    corpus=$A2ASIM_ROOT/tests/fuzz/corpus/${name%_fuzz}
    say "Fuzz: $name, $FUZZ_SECONDS s"
    mkdir -p "$scratch/$name"
    # New inputs go to the scratch folder; the corpus in the repository is only read.
    # An input may take 5 s of a busy machine and 512 MiB.
    (cd "$scratch" && ASAN_OPTIONS=quarantine_size_mb=16 "$target" -max_total_time=$FUZZ_SECONDS -timeout=5 \
      -rss_limit_mb=512 -malloc_limit_mb=256 -verbosity=0 -print_final_stats=1 "$scratch/$name" "$corpus") || die "$name found a failing input; it is kept in $scratch"
  done
  rm -rf "$scratch"
}

if [ $sanitize = yes ]; then setup --sanitize; else setup; fi
setup_browser
setup_test_packages
if grep -qs '^A2ASIM_UNITY:BOOL=OFF' "$A2ASIM_ROOT/build/release/CMakeCache.txt"; then
  configure release  # who works in this folder builds file by file
  build release
else
  build_united release  # from scratch, and what quickstart.sh left in this folder
fi
run_tests release

if [ $sanitize = yes ]; then
  clang=$(find_clang)
  [ -n "$clang" ] || die "the sanitizer build needs clang 16 or newer with its libclang-rt package"
  configure sanitize "-DCMAKE_CXX_COMPILER=$clang"
  build sanitize
  run_tests sanitize -LE browser  # pages do not depend on the build
  fuzz
  if compgen -G "$A2ASIM_ROOT/tests/thread/*_test.cpp" >/dev/null; then
    configure thread "-DCMAKE_CXX_COMPILER=$clang"
    build thread --target thread_tests
    run_tests thread -L thread
  fi
fi
say "All tests passed"
