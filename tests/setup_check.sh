#!/usr/bin/env bash
# What tools/setup.sh does where CDPATH is set, and where a stop left half a CMake cache; cmake is a stand-in.
#   tests/setup_check.sh TOOLS_FOLDER
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/elsewhere/tools" "$work/project"
cp -r "$1" "$work/project/tools"
cat >"$work/bin/cmake" <<'STANDIN'
#!/usr/bin/env bash
mkdir -p "build/$2/CMakeFiles"
[ -z "${DIES:-}" ] || { echo half >"build/$2/CMakeCache.txt"; exit 1; }
[ ! -e "build/$2/CMakeCache.txt" ] || echo kept
printf 'CMAKE_GENERATOR:INTERNAL=Ninja\nCMAKE_HOME_DIRECTORY:INTERNAL=x\nCMAKE_ROOT:INTERNAL=y\n' >"build/$2/CMakeCache.txt"
echo x >"build/$2/build.ninja"
echo "a2asim: $(ls "build/$2" | tr '\n' ' ')"
STANDIN
chmod +x "$work/bin/cmake"
cd "$work/project"

fail() {
  printf 'setup_check: %s\n' "$*" >&2
  exit 1
}
configure() { PATH="$work/bin:$PATH" bash -c '. tools/setup.sh; echo "root $A2ASIM_ROOT"; configure release'; }

out=$(CDPATH="$work/elsewhere" configure)
[[ $out == *"root $work/project"* && $out != *afresh* ]] || fail "CDPATH: $out"
[[ $(configure) != *afresh* ]] || fail "a whole cache is kept"
! DIES=1 configure >/dev/null 2>&1 || fail "a failure is a failure"
[[ $(configure) == *afresh* ]] || fail "a configure that was stopped is done afresh"
head -c 60 build/release/CMakeCache.txt >cut && mv cut build/release/CMakeCache.txt
[[ $(configure) == *afresh* ]] || fail "half a cache is done afresh"
rm build/release/build.ninja
[[ $(configure) == *afresh* ]] || fail "a cache without what it generates is done afresh"
[[ $(configure) != *afresh* ]] || fail "and then it is whole"
for script in tools/*.sh tools/bench/*.sh; do
  grep -q '^unset CDPATH' "$script" || fail "$script listens to CDPATH"
done
echo "setup_check: passed"
