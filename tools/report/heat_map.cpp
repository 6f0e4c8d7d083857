#include "tools/report/heat_map.h"

#include <algorithm>
#include <array>

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCellWidth = 92;
constexpr int kCellHeight = 34;
constexpr int kLeft = 84;  // room for the names of the rows
constexpr int kTop = 46;   // and of the columns
// Dark text stays readable on the darkest of them, and light text in the dark.
constexpr std::array<std::string_view, 5> kShades = {"0.06", "0.16", "0.26", "0.36", "0.46"};

// Equal numbers have equal shades, and each shade has as many different numbers as the others.
std::vector<double> different_values(const HeatMap& map) {
  std::vector<double> values;
  for (const std::vector<HeatCell>& row : map.cells)
    for (const HeatCell& cell : row)
      if (cell.value) values.push_back(*cell.value);
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::string_view shade_of(double value, const std::vector<double>& values) {
  const auto rank = static_cast<std::size_t>(std::ranges::lower_bound(values, value) - values.begin());
  return values.size() < 2 ? kShades[1] : kShades[rank * (kShades.size() - 1) / (values.size() - 1)];
}

Json name_at(int x, int y, const char* anchor, const char* css_class, const std::string& words) {
  return {{"x", x}, {"y", y}, {"anchor", anchor}, {"class", css_class}, {"words", words}};
}

}  // namespace

Json heat_map_values(const HeatMap& map) {
  const std::vector<double> values = different_values(map);
  const auto x_of = [](std::size_t column) { return kLeft + kCellWidth * static_cast<int>(column); };
  Json names = {name_at(kLeft - 10, kTop - 10, "end", "axis", map.row_name),
                name_at(kLeft, kTop - 30, "start", "axis", map.column_name)};
  for (std::size_t column = 0; column < map.columns.size(); ++column)
    names.push_back(name_at(x_of(column) + kCellWidth / 2, kTop - 10, "middle", "main", map.columns[column]));
  Json lines = Json::array();
  for (std::size_t row = 0; row < map.rows.size(); ++row) {
    const int top = kTop + kCellHeight * static_cast<int>(row);
    Json cells = Json::array();
    for (std::size_t column = 0; column < map.columns.size(); ++column) {
      const HeatCell& cell = map.cells[row][column];
      cells.push_back({{"x", x_of(column)},
                       {"middle", x_of(column) + kCellWidth / 2},
                       {"top", top},
                       {"shade", cell.value ? shade_of(*cell.value, values) : ""},
                       {"column", map.columns[column]},
                       {"words", cell.words}});
    }
    lines.push_back({{"x", kLeft - 10}, {"y", top + kCellHeight / 2 + 5}, {"row", map.rows[row]}, {"cells", cells}});
  }
  return {{"caption", map.caption},
          {"row_name", map.row_name},
          {"column_name", map.column_name},
          {"width", x_of(map.columns.size()) + 2},
          {"height", kTop + kCellHeight * static_cast<int>(map.rows.size()) + 2},
          {"cell_width", kCellWidth},
          {"cell_height", kCellHeight},
          {"names", names},
          {"lines", lines}};
}

}  // namespace a2asim
