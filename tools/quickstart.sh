#!/usr/bin/env bash
# From a fresh clone to verdicts: installs what is missing, builds the program, and checks the launch commands behind
# sglang #27945, #29461 and #30242 with the SGLang versions before and after each change.
set -euo pipefail
unset CDPATH
# shellcheck source=tools/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
[ $# = 0 ] || die "takes no arguments"

setup
# For a verdict in minutes the program is hardly optimized; `cmake --preset release` and a
# build put the fast one, with all parts, in its place.
build_united quick --target a2asim

program=$A2ASIM_ROOT/build/release/tools/a2asim
unexpected=0

# show WHAT EXAMPLE GENERATION EXPECTED_VERDICT MODEL_OPTION..
show() {
  local what=$1 example=$2 generation=$3 expected=$4 output code=0
  shift 4
  say "$what"
  echo "\$ a2asim check --sglang $generation $* tools/examples/$example"
  output=$(cd "$A2ASIM_ROOT" && "$program" check --sglang "$generation" "$@" "tools/examples/$example") || code=$?
  printf '%s\n' "$output"
  [ $code -le 1 ] || die "a2asim stopped with exit code $code"
  if [[ "${output,,}" != *$'\n'"$expected:"* ]]; then
    echo "UNEXPECTED: the verdict should be $expected"
    unexpected=1
  fi
}

v3=(--num-experts 256 --top-k 8 --hidden-size 7168)
v4=(--num-experts 384 --top-k 6 --hidden-size 7168)
show "sglang #27945, before the fix: ranks disagree in every decode step" collapse.sh pr26643 disagrees "${v3[@]}"
show "sglang #27945, with the fix: one static cap for all" collapse.sh pr27945 agrees "${v3[@]}"
show "sglang #29461: exact sizes again, and the graphs disagree" collapse.sh pr29461 disagrees "${v3[@]}"
show "sglang #30242: the decode worker that crashed" graph_buckets.sh pr22394 disagrees "${v4[@]}"
show "sglang #30450, the cure, on the command of #27945" collapse.sh pr30450 agrees "${v3[@]}"

[ $unexpected = 0 ] || die "some verdict was not as expected (see UNEXPECTED above)"
say "Done. Try your own: build/release/tools/a2asim check YOUR_FILE_OR_FOLDER"
