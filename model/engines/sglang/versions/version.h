// For the files of this folder: each makes one version out of the one before it, by naming what changed.
//   Generation pr25685(const Generation& before) {
//     Generation v = after(before, {.name = "pr25685", .pr = 25685, .date = "2026-05-18", ..});
//     v.sizing = sizing_pr25685;
//     return v;
//   }
#pragma once

#include "model/engines/sglang/generation.h"

namespace a2asim::versions {

inline Generation after(const Generation& before, Version own) {
  Generation version = before;
  version.release_states.clear();
  version.earlier_states.clear();
  static_cast<Version&>(version) = std::move(own);
  return version;
}

#define VERSION(name) Generation name(const Generation& before);
#include "model/engines/sglang/versions/versions.inc"
#undef VERSION

inline constexpr std::string_view kMoriMessage =  // until #29461
    "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 4096) must be larger or equal to chunked_prefill_size";

// Laws of property_tests/ that a version is known to break, and why.
inline constexpr std::string_view kAgreement = "agreement";
inline constexpr std::string_view kExactFit = "exact fit";
inline constexpr std::string_view kNoWaste = "no waste";
inline constexpr std::string_view kOracle = "oracle";
inline constexpr std::string_view kNoStaleRead = "no stale read";

inline constexpr std::string_view kCollapse = "the counts collapse, so R is the rank's own rows or bucket (#27945)";
inline constexpr std::string_view kBuckets = "graphs bake the local bucket, and buckets differ at replay (#30242)";
inline constexpr std::string_view kCapAsR = "R = the cap whatever the rows: more rows than the cap run on unchecked";
inline constexpr std::string_view kBeforeScatter = "R counts rows before they are scattered over attention ranks";

}  // namespace a2asim::versions
