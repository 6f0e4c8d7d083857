// The word that was probably meant.
#pragma once

#include <string_view>
#include <vector>

namespace a2asim {

// The candidate with the fewest letters to change, if they are few; else "".
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace a2asim
