// A fault for every law: planted between the product and the laws, so that a law which cannot fail is found.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "property_tests/law.h"

namespace a2asim::props {

// It keeps every law.
inline constexpr std::string_view kSoundVersion = "pr35758";

struct Planted {
  std::string_view law;  // that notices it
  std::string_view what;
  Product product = {};
  SizingRule rule = {};
  std::string_view version = kSoundVersion;  // whose worlds are drawn
  std::string_view not_alone = {};           // why other laws notice it too; empty: none does
};
std::vector<Planted> planted_faults();

// What the law says of the first world that it calls wrong, of so many drawn ones, or of all its small ones; nothing:
// it holds in all.
std::optional<std::string> noticed(const Law& law, const Planted& fault, int worlds);
std::optional<std::string> noticed_in_walk(const Law& law, const Planted& fault);

}  // namespace a2asim::props
