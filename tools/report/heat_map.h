// A table of numbers as a picture: one cell a pair of row and column, its number in it, darker where it is larger.
// The shade only repeats the number, so nothing is lost without colours.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace a2asim {

struct HeatCell {
  std::optional<double> value;  // nothing: no number, shown as an empty cell with its words
  std::string words;            // plain text, short
};

struct HeatMap {
  std::string caption;                // plain text: what the numbers are
  std::string row_name, column_name;  // "ep", "tokens"
  std::vector<std::string> rows, columns;
  std::vector<std::vector<HeatCell>> cells;  // [row][column]
};

// For heat_map.mustache: a <figure> with SVG, whose own label lists every cell in words.
nlohmann::ordered_json heat_map_values(const HeatMap& map);

}  // namespace a2asim
