#include "tools/report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/report/html.h"

namespace a2asim {
namespace {

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

std::string text(int x, int y, std::string_view anchor, std::string_view css_class, const std::string& words) {
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>", x, y, anchor,
                     css_class.empty() ? "" : fmt::format(" class=\"{}\"", css_class), html_text(words));
}

std::string in_words(const HeatMap& map) {
  std::string out = map.caption + ":";
  for (std::size_t row = 0; row < map.rows.size(); ++row)
    for (std::size_t column = 0; column < map.columns.size(); ++column)
      out += fmt::format(" {} {}, {} {}: {};", map.row_name, map.rows[row], map.column_name, map.columns[column],
                         map.cells[row][column].words);
  return out;
}

std::string cell_svg(const HeatCell& cell, int x, int y, const std::vector<double>& values) {
  const std::string shade = cell.value ? fmt::format(" fill-opacity=\"{}\"", shade_of(*cell.value, values)) : "";
  return fmt::format("<rect class=\"heat{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
                     cell.value ? "" : " none", x, y, kCellWidth, kCellHeight, shade) +
         text(x + kCellWidth / 2, y + kCellHeight / 2 + 5, "middle", "", cell.words) + "\n";
}

}  // namespace

std::string heat_map(const HeatMap& map) {
  const std::vector<double> values = different_values(map);
  const int width = kLeft + kCellWidth * static_cast<int>(map.columns.size()) + 2;
  const int height = kTop + kCellHeight * static_cast<int>(map.rows.size()) + 2;
  std::string out = fmt::format(
      "<figure class=\"drawing\"><figcaption>{}</figcaption>\n<div class=\"wide\" tabindex=\"0\" role=\"group\" "
      "aria-label=\"{}\"><svg role=\"img\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" aria-label=\"{}\">\n",
      html_text(map.caption), html_text(map.caption), width, height, width, height, html_text(in_words(map)));
  out += text(kLeft - 10, kTop - 10, "end", "axis", map.row_name);
  out += text(kLeft, kTop - 30, "start", "axis", map.column_name);
  for (std::size_t column = 0; column < map.columns.size(); ++column)
    out += text(kLeft + kCellWidth * static_cast<int>(column) + kCellWidth / 2, kTop - 10, "middle", "main",
                map.columns[column]);
  out += "\n";
  for (std::size_t row = 0; row < map.rows.size(); ++row) {
    const int y = kTop + kCellHeight * static_cast<int>(row);
    out += text(kLeft - 10, y + kCellHeight / 2 + 5, "end", "main", map.rows[row]) + "\n";
    for (std::size_t column = 0; column < map.columns.size(); ++column)
      out += cell_svg(map.cells[row][column], kLeft + kCellWidth * static_cast<int>(column), y, values);
  }
  return out + "</svg></div></figure>\n";
}

}  // namespace a2asim
