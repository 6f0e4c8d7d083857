#!/usr/bin/env bash
# completion_check.sh bash|zsh|man PROGRAM: what the program writes is read by the shell, or by man, without complaint, and
# completes what a person would type.
set -euo pipefail
what=$1 program=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

skip() { printf 'SKIPPED: %s\n' "$*" && exit 77; }
fail() { printf 'completion_check: %s\n' "$*" >&2 && exit 1; }

command -v "$what" >/dev/null || skip "there is no $what here"
# Minimized systems have a man that only says how to get one.
[ "$what" != man ] || [[ $(man --version 2>/dev/null) =~ ^man\ [0-9] ]] || skip "man is not man-db's"

# bash_completes "WORDS" WANTED..: what is offered for the last word; "" begins a new one.
bash_completes() {
  local -a COMP_WORDS=("${@:1:$#-1}") COMPREPLY=()
  local COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) wanted=${!#}
  _a2asim || true  # no match is no success, which counts only under `set -e`
  [ "${COMPREPLY[*]}" = "$wanted" ] || fail "'${COMP_WORDS[*]}' gives '${COMPREPLY[*]}', not '$wanted'"
}

case $what in
bash)
  "$program" completion bash >"$folder/a2asim"
  # shellcheck disable=SC1091
  source "$folder/a2asim"
  complete -p a2asim | grep -q _a2asim || fail "nothing is registered"
  bash_completes a2asim ch check
  bash_completes a2asim re replay
  bash_completes a2asim check --form --format
  bash_completes a2asim check --format "" "text json sarif github junit"
  bash_completes a2asim check --format = "text json sarif github junit"
  bash_completes a2asim check --format = js json
  bash_completes a2asim check --sglang pr304 pr30450
  bash_completes a2asim replay --fidelity g geometry
  bash_completes a2asim check -- --form ""
  touch "$folder/b.yaml" "$folder/b c.yaml"
  bash_completes a2asim replay "$folder/b.y" "$folder/b.yaml"
  bash_completes a2asim replay "$folder/b c" "$folder/b c.yaml"
  # Every command and every long option of every --help is offered.
  COMP_WORDS=(a2asim "") COMP_CWORD=1 COMPREPLY=()
  _a2asim || true
  for command in "${COMPREPLY[@]}"; do
    [[ $command != -* ]] || continue
    COMP_WORDS=(a2asim "$command" --) COMP_CWORD=2 COMPREPLY=()
    _a2asim || true
    diff <(printf '%s\n' "${COMPREPLY[@]}" | sort -u) \
      <("$program" "$command" --help | grep -oE '^  -[^ ]*' | grep -oE -- '--[a-z-]+' | sort -u) ||
      fail "$command: options and --help differ"
  done
  ;;
zsh)
  "$program" completion zsh >"$folder/_a2asim"
  zsh -f -n "$folder/_a2asim"
  # compinit finds it; then stand-ins for the completion system show what it is asked.
  # shellcheck disable=SC2016
  zsh -f -c '
    fpath=($1 $fpath)
    autoload -Uz compinit && compinit -D -u
    [[ $_comps[a2asim] == _a2asim ]] || exit 3
    _arguments() { print -rl -- "$@"; state=$wanted_state }
    _describe() { print -rl -- ${(P)2} }
    words=(check) wanted_state=argument
    _a2asim
    wanted_state=command
    _a2asim
  ' zsh "$folder" >"$folder/out" || fail "zsh cannot use it"
  for line in '--version[' '--format=[text, json, sarif, github or junit; default text]:FORMAT:(text json sarif github junit)' 'replay:Run scenarios'; do
    grep -q -F -- "$line" "$folder/out" || fail "nothing like $line in $(cat "$folder/out")"
  done
  ;;
man)
  "$program" man >"$folder/a2asim.1"
  LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings=w -E UTF-8 -l -Tutf8 "$folder/a2asim.1" \
    >"$folder/out" 2>"$folder/warnings"
  [ ! -s "$folder/warnings" ] || fail "man warns: $(cat "$folder/warnings")"
  col -bx <"$folder/out" >"$folder/plain" 2>/dev/null || sed 's/.\x08//g' "$folder/out" >"$folder/plain"
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS COMMANDS; do
    grep -q "^$section\$" "$folder/plain" || fail "no section $section"
  done
  grep -q -- '--sglang VERSION' "$folder/plain" || fail "--sglang is not explained"
  ;;
esac
echo "$what: fine"
