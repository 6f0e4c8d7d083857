// HTML as text. What a person gave enters a page only through html_text(), so that it can never become markup.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/program/text.h"

namespace a2asim {

// For element contents and for attributes in double quotes. Control characters are shown as U+FFFD.
std::string html_text(std::string_view text);

// "417,856".
std::string grouped(std::int64_t number);

// <p> of plain text.
std::string paragraph(std::string_view text);
// The words with one full stop at their end.
std::string sentence(std::string_view words);

struct HtmlTable {
  std::string caption;                         // plain text
  std::vector<std::string> head;               // plain text
  std::vector<std::vector<std::string>> rows;  // HTML: pass words through html_text(); the first cell heads its row
  std::vector<std::size_t> numbers;            // columns set flush right
  std::vector<std::size_t> less;               // columns left out on a narrow screen: put what matters first
};
// Scrolls sideways by itself where it is wider than the page.
std::string html_table(const HtmlTable& table);

// A definition list of facts: words and HTML.
struct Fact {
  std::string name;   // plain text
  std::string value;  // HTML
};
std::string facts(const std::vector<Fact>& list);

// Horizontal bars on one scale, each with its name and value in words, so that the picture is not needed.
struct Bar {
  std::string name;
  double value = 0;
  std::string words;           // the value with its unit
  bool is_emphasised = false;  // hatched: waste, or what is over a limit
};
// `whole`: what a full bar stands for; 0: the largest value.
std::string bars(std::string_view caption, const std::vector<Bar>& list, double whole = 0);

}  // namespace a2asim
