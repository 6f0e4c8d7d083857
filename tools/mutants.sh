#!/usr/bin/env bash
# Do the tests notice? Each fault of tools/mutants.txt is put into a copy of the sources, built and tested; a fault that no
# test notices, or whose text is no longer there, fails the script.
#   tools/mutants.sh                all of them
#   tools/mutants.sh NAME..         only these
#   tools/mutants.sh --list         names, files and why
#   tools/mutants.sh --check        only whether each fault's text is still there
#   tools/mutants.sh --sample 200 --seed 7    instead, faults drawn from all expressions of the sources, all in one build;
#                                             --area FOLDER, --list (mutate.py says how)
# The copy and its build stay in build/mutants, so that a second run compiles only what a fault touches. On two quiet cores
# a full run takes about 20 minutes, the first one about 5 more.
set -euo pipefail
unset CDPATH
cd "$(dirname "${BASH_SOURCE[0]}")/.."

list=tools/mutants.txt
copy=build/mutants/source
out=build/mutants/build
jobs=${A2ASIM_JOBS:-$(nproc)}
TEST_SECONDS=900  # a machine may be busy

die() {
  echo "mutants.sh: $*" >&2
  exit 2
}

# --- the list: blocks of `key: value` lines, `-` and `+` the text before and after, parted by empty lines ----------------
names=() files=() whys=() bugs=() olds=() news=()
read_list() {
  local line name= file= why= bug= old= new=
  flush() {
    [ -n "$name" ] || return 0
    [ -n "$file" ] && [ -n "$why" ] && [ -n "$old" ] && [ "$old" != "$new" ] || die "$list: $name is not complete"
    names+=("$name") files+=("$file") whys+=("$why") bugs+=("${bug:--}") olds+=("$old") news+=("$new")
    name= file= why= bug= old= new=
  }
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      '#'*) ;;
      '') flush ;;
      'mutant: '*) name=${line#mutant: } ;;
      'file: '*) file=${line#file: } ;;
      'why: '*) why=${line#why: } ;;
      'bug: '*) bug=${line#bug: } ;;
      '- '*) old=${line#- } ;;
      '+ '*) new=${line#+ } ;;
      '+') new= ;;
      *) die "$list: what is \"$line\"?" ;;
    esac
  done <"$list"
  flush
}

# --- one mutant -----------------------------------------------------------------------------------------------------------
# Sets before and after: the file of mutant $1 around the text that it changes, which must be there exactly once.
locate() {
  local text
  text=$(<"${files[$1]}")
  before=${text%%"${olds[$1]}"*}
  [ "$before" != "$text" ] || return 1
  after=${text#*"${olds[$1]}"}
  [ "${after#*"${olds[$1]}"}" = "$after" ]
}

# Writes the file of mutant $1 with its fault.
apply() {
  local before after
  locate "$1" && printf '%s\n' "$before${news[$1]}$after" >"$copy/${files[$1]}"
}

lost() { echo "its text is not in ${files[$1]} exactly once"; }

build() { nice ninja -C "$out" -j "$jobs" "$@" >build/mutants/log 2>&1; }

# Runs the property tests that a filter selects; on a failure prints the test and the case in which it failed.
property_test() {
  local log=build/mutants/log
  (cd "$out" && timeout "$TEST_SECONDS" property_tests/property_tests --abort-after=1 "$@") >$log 2>&1 && return 1
  local test case
  test=$(sed -n 's/^TEST CASE: *//p' $log | head -1)
  case=$(sed -n 's/.*PROPERTY FAILED: [^|]* | \([^|]*\) | case \([0-9]*\)$/\1, case \2/p' $log | head -1)
  [ -n "$case" ] || case=$(grep -m1 -oE "known failure of [a-z0-9]+ is not found|internal error: [^;]*|CRASHED: [A-Z]*" $log || true)
  echo "${test:-property tests}${case:+ ($case)}"
}

golden_test() {
  local log=build/mutants/log table
  for table in "$out"/tests/golden/data/*.jsonl; do
    timeout "$TEST_SECONDS" "$out/tests/golden_check" "$table" >$log 2>&1 && continue
    echo "golden: $(basename "$table" .jsonl) ($(grep -m1 -oE 'row [0-9]+' $log || echo crashed))"
    return 0
  done
  return 1
}

# The unit tests of the model and the simulator, which need no program. What they say counts only where they pass
# without the fault.
unit_test() {
  local log=build/mutants/log
  build unit_tests || { echo "the compiler"; return 0; }
  (cd "$out" && timeout "$TEST_SECONDS" tests/unit_tests --abort-after=1 \
    --source-file="*/tests/sim/*,*/tests/step/*,*/tests/alltoall/*,*/tests/flashinfer/*,*/tests/sglang/*") >$log 2>&1 &&
    return 1
  sed -n 's/^TEST CASE: */unit: /p' $log | head -1
}

# Prints who killed mutant $1, or fails. Quick tests first: each decides only what those before it did not.
killer() {
  build property_tests || { echo "the compiler"; return 0; }
  property_test --test-case="random*" && return 0
  build golden_check || { echo "the compiler"; return 0; }
  golden_test && return 0
  property_test --test-case-exclude="random*" && return 0
  unit_test
}

# Unit tests are not tried before the first fault, because few faults need them.
passes_without() {
  [ "${2#unit: }" != "$2" ] || return 0
  cp "${files[$1]}" "$copy/${files[$1]}"
  ! unit_test >/dev/null
}

prepare() {
  mkdir -p "$copy"
  # Contents that did not change keep their times, so that the build stays warm.
  git ls-files -co --exclude-standard | while IFS= read -r file; do
    [ -f "$file" ] || continue
    cmp -s "$file" "$copy/$file" || { mkdir -p "$copy/$(dirname "$file")" && cp "$file" "$copy/$file"; }
  done
  rm -f "$out/CMakeCache.txt"  # a stop may have left half of one
  cmake -S "$copy" -B "$out" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DA2ASIM_CUDA=OFF \
    -DA2ASIM_INSTALL=OFF -DA2ASIM_WERROR=OFF >build/mutants/log 2>&1 || { cat build/mutants/log; die "cmake failed"; }
  build property_tests golden_check golden_data || { tail -20 build/mutants/log; die "the sources do not build"; }
  local who
  who=$(property_test) && die "without a fault already: $who"
  who=$(golden_test) && die "without a fault already: $who"
  return 0
}

[ "${1:-}" != --sample ] || exec python3 tools/mutate.py "$@"
read_list
if [ "${1:-}" = --list ]; then
  for i in "${!names[@]}"; do printf '%-28s %-28s %s (%s)\n' "${names[i]}" "${files[i]}" "${whys[i]}" "${bugs[i]}"; done
  exit 0
fi
[ "${#names[@]}" -ge 30 ] || die "$list: ${#names[@]} mutants; it has at least 30"
if [ "${1:-}" = --check ]; then
  missing=0
  for i in "${!names[@]}"; do locate "$i" || { echo "${names[i]}: $(lost "$i")" >&2 && missing=$((missing + 1)); }; done
  echo "${#names[@]} mutants, $missing whose text is not there"
  exit $((missing > 0))
fi
for wanted in "$@"; do
  [[ " ${names[*]} " == *" $wanted "* ]] || die "no mutant is called $wanted; see tools/mutants.sh --list"
done

prepare
killed=0 total=0 failed=0
printf '%-28s %7s  %s\n' mutant seconds "killed by"
for i in "${!names[@]}"; do
  [ $# -eq 0 ] || [[ " $* " == *" ${names[i]} "* ]] || continue
  total=$((total + 1))
  start=$SECONDS
  if ! apply "$i"; then
    who="NOT APPLIED: $(lost "$i")"
    failed=1
  elif who=$(killer) && passes_without "$i" "$who"; then
    killed=$((killed + 1))
  else
    who="SURVIVED: ${whys[i]}"
    failed=1
  fi
  printf '%-28s %7d  %s\n' "${names[i]}" $((SECONDS - start)) "$who"
  cp "${files[i]}" "$copy/${files[i]}"
done
echo "killed $killed of $total"
[ $failed -eq 0 ] && echo "killed = total"
exit $failed
