#!/usr/bin/env bash
# Installs with apt what the build needs and this machine lacks; does nothing when all is there.
#   tools/setup.sh [--sanitize]     --sanitize: also clang with its sanitizers and libFuzzer
# Known to work on Debian 12; Ubuntu 24.04 has the same package names. quickstart.sh and test.sh source this file.
set -euo pipefail
unset CDPATH  # cd would go elsewhere, and print where

A2ASIM_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD_PACKAGES=(g++ cmake ninja-build libeigen3-dev libcli11-dev libkainjow-mustache-dev nlohmann-json3-dev libyaml-cpp-dev
  libtomlplusplus-dev libfmt-dev libexpected-dev doctest-dev librapidcheck-dev python3 python3-jsonschema python3-yaml)
# Without these some tests are skipped, and say so. Only test.sh asks for them.
TEST_PACKAGES=(pkg-config dpkg-dev doxygen zsh man-db universal-ctags pybind11-dev python3-dev python3-venv python3-pytest
  python3-hypothesis)
CLANG_VERSIONS="20 19 18 17 16 15 14"

say() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 2
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# These say what is wrong and return 1; install_missing stops.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "needs root for: $*. Run it as root, or install sudo." >&2
    return 1
  fi
}

apt_updated=no
apt_update() {
  [ $apt_updated != failed ] || return 1
  [ $apt_updated = no ] || return 0
  if as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update >&2; then
    apt_updated=yes
  else
    apt_updated=failed
    echo "apt-get update failed: is there a network?" >&2
    return 1
  fi
}

# try_install PACKAGE..: those of them that are missing
try_install() {
  local missing=() package
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} != 0 ] || return 0
  echo "installing: ${missing[*]}"
  apt_update || return 1
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
}

install_missing() {
  try_install "$@" || die "apt-get could not install what is missing of: $*"
  echo "all $# packages are there"
}

# What some tests look at packages with; never a reason to stop, and none is a reason to go without the others.
setup_test_packages() {
  local package
  command -v apt-get >/dev/null || return 0
  for package in "${TEST_PACKAGES[@]}"; do
    try_install "$package" || echo "cannot be had here: $package; some tests are skipped"
  done
}

# The newest clang++ that has libFuzzer installed, or nothing.
find_clang() {
  local version
  for version in $CLANG_VERSIONS; do
    if command -v "clang++-$version" >/dev/null && installed "libclang-rt-$version-dev"; then
      echo "clang++-$version"
      return 0
    fi
  done
}

install_clang() {
  local version
  [ -z "$(find_clang)" ] || return 0
  apt_update || die "cannot look for clang"
  for version in $CLANG_VERSIONS; do
    if apt-cache policy "clang-$version" | grep 'Candidate: [0-9]' >/dev/null; then
      install_missing "clang-$version" "libclang-rt-$version-dev"
      return 0
    fi
  done
  die "apt offers none of clang $CLANG_VERSIONS; the sanitizer build needs one"
}

# setup [--sanitize]
setup() {
  say "Set-up: what the build needs"
  if ! command -v apt-get >/dev/null; then
    echo "no apt-get here: taking for granted that these are installed: ${BUILD_PACKAGES[*]}"
    return 0
  fi
  install_missing "${BUILD_PACKAGES[@]}"
  if [ "${1:-}" = --sanitize ]; then
    install_clang
    echo "sanitizer compiler: $(find_clang)"
  fi
}

# What the browser tests need. Optional: without it they are skipped, and say so.
setup_browser() {
  local missing=() package
  say "Set-up: what the browser tests need (optional)"
  if command -v apt-get >/dev/null; then
    command -v chromium >/dev/null || missing+=(chromium)
    command -v node >/dev/null || missing+=(nodejs)
    command -v npm >/dev/null || missing+=(npm)
    for package in "${missing[@]}"; do
      try_install "$package" || echo "cannot be had here: $package; the browser tests are skipped"
    done
  fi
  if command -v npm >/dev/null && [ ! -d "$A2ASIM_ROOT/tests/browser/node_modules/playwright-core" ]; then
    (cd "$A2ASIM_ROOT/tests/browser" && npm ci --no-audit --no-fund) ||
      echo "cannot be had here: playwright-core; the browser tests are skipped"
  fi
}

# The folder of a preset: that of quickstart is release's.
folder_of() { echo "$A2ASIM_ROOT/build/${1/#quick*/release}"; }

# Whether a folder was configured to the end. A stop in between leaves a cache without what is written last.
is_configured() {
  local folder=$1
  [ ! -e "$folder/configuring" ] && [ -s "$folder/build.ninja" ] && [ -d "$folder/CMakeFiles" ] &&
    grep -q '^CMAKE_GENERATOR:INTERNAL=' "$folder/CMakeCache.txt" &&
    grep -q '^CMAKE_HOME_DIRECTORY:INTERNAL=' "$folder/CMakeCache.txt" &&
    grep -q '^CMAKE_ROOT:INTERNAL=' "$folder/CMakeCache.txt" && [ -z "$(tail -c 1 "$folder/CMakeCache.txt")" ]
}

# configure PRESET [CMAKE OPTION..]
configure() {
  local log folder
  folder=$(folder_of "$1")
  log=$(mktemp)
  say "Configure: preset $1"
  if { [ -e "$folder/CMakeCache.txt" ] || [ -e "$folder/configuring" ]; } && ! is_configured "$folder"; then
    echo "$folder was left half configured: configuring it afresh"
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  mkdir -p "$folder"
  : >"$folder/configuring"
  (cd "$A2ASIM_ROOT" && cmake --preset "$@" >"$log" 2>&1 && rm -f "$folder/configuring") || {
    cat "$log" >&2
    rm -f "$log"
    die "cmake --preset $* failed (its output is above)"
  }
  grep -E 'a2asim:|compiler identification' "$log" || true
  rm -f "$log"
}

# build PRESET [--target ..]
build() {
  say "Build: preset $1"
  (cd "$A2ASIM_ROOT" && cmake --build --preset "$@") || die "the build of preset $1 failed (see above)"
}

# build_united PRESET [--target ..]: from scratch, with many files compiled as one. Where they do not compile together,
# one by one: slower, and the same program.
build_united() {
  configure "$1" -DA2ASIM_UNITY=ON
  if ! (build "$@"); then
    say "Some files do not compile together (A2ASIM_ALONE in tools/cmake/A2asimTargets.cmake): building one by one"
    configure "$1" -DA2ASIM_UNITY=OFF
    build "$@"
  fi
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  case "${1:-}" in
    "" | --sanitize) setup "$@" ;;
    *) die "usage: tools/setup.sh [--sanitize]" ;;
  esac
fi
