#include "tools/report/heat_map.h"

#include <doctest/doctest.h>

#include "tools/program/template.h"

namespace a2asim {
namespace {

// The shade of the cell with this number, as it stands in the picture.
std::string shade(const std::string& svg, const std::string& words) {
  const std::size_t text = svg.find(">" + words + "</text>");
  REQUIRE(text != std::string::npos);
  const std::size_t rect = svg.rfind("fill-opacity=\"", text);
  return svg.substr(rect + 14, 4);
}

}  // namespace

TEST_CASE("heat map: larger is darker, equal is equal, and what has no number has no shade") {
  HeatMap map{"a < b", "ep", "tokens", {"8", "16"}, {"1", "2"}, {}};
  map.cells = {{{1.0, "one"}, {5.0, "five"}}, {{5.0, "also five"}, {std::nullopt, "none & no"}}};
  const std::string svg = rendered("heat_map.mustache", heat_map_values(map));
  CHECK(shade(svg, "one") < shade(svg, "five"));
  CHECK(shade(svg, "five") == shade(svg, "also five"));
  CHECK(svg.find("<rect class=\"heat none\"") != std::string::npos);
  CHECK(svg.find("none &amp; no</text>") != std::string::npos);
  CHECK(svg.find("a &lt; b: ep 8, tokens 1: one; ep 8, tokens 2: five; ep 16, tokens 1: also five;") !=
        std::string::npos);
}

}  // namespace a2asim
