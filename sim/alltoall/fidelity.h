// How much of the cluster is carried: one code path for every decision and address, three amounts of content.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace a2asim {

enum class Fidelity : std::uint8_t {
  geometry,    // integers only: sizes, capacities, who waits for whom
  provenance,  // and for every byte range who wrote it, when, for which token; no payload bytes
  numeric,     // and real bytes
};

constexpr std::string_view name(Fidelity fidelity) {
  return fidelity == Fidelity::geometry ? "geometry" : fidelity == Fidelity::provenance ? "provenance" : "numeric";
}

constexpr std::optional<Fidelity> parse_fidelity(std::string_view text) {
  for (const Fidelity fidelity : {Fidelity::geometry, Fidelity::provenance, Fidelity::numeric}) {
    if (name(fidelity) == text) return fidelity;
  }
  return std::nullopt;
}

}  // namespace a2asim
