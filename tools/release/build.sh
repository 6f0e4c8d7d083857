#!/usr/bin/env bash
# Builds what a release consists of, and checks each: build.sh [OUT_DIR]
#   a2asim_V_ARCH.deb, a2asim-V-*.whl, a2asim-V-linux-ARCH (static), SHA256SUMS
# OUT_DIR must be empty or new; default build/dist. BUILD_TYPE=Debug in the environment builds faster, for a try.
set -euo pipefail
# shellcheck source=tools/setup.sh
. "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
[ $# -le 1 ] || die "usage: tools/release/build.sh [OUT_DIR]"
out=$(realpath -m "${1:-$A2ASIM_ROOT/build/dist}")
mkdir -p "$out"
[ -z "$(ls -A "$out")" ] || die "$out is not empty: name another folder, or empty it"
cd "$A2ASIM_ROOT"

maintainer=$(sed -n 's/^set(A2ASIM_MAINTAINER "\([^"]*\)".*/\1/p' CMakeLists.txt)
case "$maintainer" in
  *.invalid\>) die "no real maintainer in CMakeLists.txt ($maintainer): set A2ASIM_MAINTAINER" ;;
esac
version=$(sed -n 's/^project(a2asim VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
tag=${GITHUB_REF_NAME:-v$version}
[ "$tag" = "v$version" ] || die "the tag is $tag, and CMakeLists.txt has version $version: make them equal"

for static in OFF ON; do
  say "Build: build/release-static-$static"
  cmake -S . -B "build/release-static-$static" -G Ninja -DCMAKE_BUILD_TYPE="${BUILD_TYPE:-Release}" -DA2ASIM_CUDA=OFF \
    -DA2ASIM_BUILD_TESTS=OFF -DA2ASIM_PYTHON_MODULE=$static -DA2ASIM_STATIC=$static -DA2ASIM_UNITY=ON
done
cmake --build build/release-static-OFF --target a2asim a2asim_package
cmake --build build/release-static-ON --target a2asim a2asim_python
cpack -G DEB --config build/release-static-OFF/CPackConfig.cmake -B "$out"
rm -rf "$out/_CPack_Packages"

python=$(sed -n 's/^A2ASIM_PYTHON_FOR_TESTS:INTERNAL=//p' build/release-static-ON/CMakeCache.txt)
"$python" -m pip wheel --no-index --no-build-isolation --no-deps -w "$out" \
  --config-settings build-dir=build/release-static-ON .
compgen -G "$out/*manylinux*.whl" >/dev/null ||
  die "the wheel needs what not every distribution has: $(ls "$out"/*.whl)"
program=$out/a2asim-$version-linux-$(uname -m)
cp build/release-static-ON/tools/a2asim "$program"
strip "$program"
if readelf -d "$program" | grep -q NEEDED; then die "$program is not static"; fi
"$program" replay sim/scenarios/collapse.yaml >"$out/.try" || die "the static program fails: $(cat "$out/.try")"
rm "$out/.try"
(cd "$out" && sha256sum -- * >SHA256SUMS.tmp && mv SHA256SUMS.tmp SHA256SUMS)
say "Made: $out"
cat "$out/SHA256SUMS"
