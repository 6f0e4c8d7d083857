#include "tools/report/html.h"

#include <fmt/format.h>

#include <algorithm>

namespace a2asim {

std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
        out += is_control ? std::string("\xEF\xBF\xBD") : std::string(1, c);
      }
    }
  }
  return out;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string sentence(std::string_view words) { return std::string(words) + (words.ends_with('.') ? "" : "."); }

std::string paragraph(std::string_view text) { return "<p>" + html_text(text) + "</p>\n"; }

namespace {

bool has(const std::vector<std::size_t>& columns, std::size_t column) {
  return std::ranges::find(columns, column) != columns.end();
}

std::string class_of(const HtmlTable& table, std::size_t column) {
  const bool number = has(table.numbers, column), less = has(table.less, column);
  if (!number && !less) return "";
  return fmt::format(" class=\"{}{}{}\"", number ? "number" : "", number && less ? " " : "", less ? "less" : "");
}

// Says on a narrow screen what is left out there.
std::string less_words(const HtmlTable& table) {
  if (table.less.empty()) return "";
  std::string names;
  for (std::size_t i = 0; i < table.less.size(); ++i)
    names += (i == 0 ? "" : i + 1 == table.less.size() ? " and " : ", ") + table.head[table.less[i]];
  return fmt::format("<span class=\"narrow\"> (A wider screen also shows: {}.)</span>", html_text(names));
}

}  // namespace

// The caption stands outside of what scrolls, so that it is read whole on a phone.
std::string html_table(const HtmlTable& table) {
  std::string out = fmt::format(
      "<figure class=\"table\"><figcaption>{}{}</figcaption>\n<div class=\"wide\" tabindex=\"0\" role=\"group\" "
      "aria-label=\"{}\"><table>\n<thead><tr>",
      html_text(table.caption), less_words(table), html_text(table.caption));
  for (std::size_t i = 0; i < table.head.size(); ++i)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", class_of(table, i), html_text(table.head[i]));
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      out += i == 0 ? fmt::format("<th scope=\"row\"{}>{}</th>", class_of(table, i), row[i])
                    : fmt::format("<td{}>{}</td>", class_of(table, i), row[i]);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div></figure>\n";
}

std::string facts(const std::vector<Fact>& list) {
  std::string out = "<dl class=\"facts\">\n";
  for (const Fact& fact : list)
    out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", html_text(fact.name), fact.value);
  return out + "</dl>\n";
}

// Widths are attributes of SVG: the page's security policy allows no style attributes.
std::string bars(std::string_view caption, const std::vector<Bar>& list, double whole) {
  double scale = whole;
  for (const Bar& bar : list) scale = std::max(scale, bar.value);
  std::string out = fmt::format("<figure class=\"bars\"><figcaption>{}</figcaption>\n<ul>\n", html_text(caption));
  for (const Bar& bar : list) {
    const double share = scale > 0 ? std::clamp(100 * bar.value / scale, 0.0, 100.0) : 0;
    out += fmt::format(
        "<li><span class=\"name\">{}</span><svg class=\"bar{}\" aria-hidden=\"true\" width=\"100%\" height=\"14\">"
        "<rect class=\"track\" width=\"100%\" height=\"14\" rx=\"3\"/>"
        "<rect class=\"value\" width=\"{:.2f}%\" height=\"14\" rx=\"3\"/></svg><span class=\"words\">{}</span></li>\n",
        html_text(bar.name), bar.is_emphasised ? " emphasised" : "", share, html_text(bar.words));
  }
  return out + "</ul></figure>\n";
}

}  // namespace a2asim
