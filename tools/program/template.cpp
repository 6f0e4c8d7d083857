#include "tools/program/template.h"

#include <algorithm>
#include <kainjow/mustache.hpp>
#include <stdexcept>

#include "model/base/one_line.h"

namespace a2asim {
namespace {

using Data = kainjow::mustache::data;
using Json = nlohmann::ordered_json;

Data data_of(const Json& value) {
  if (value.is_object()) {
    Data out;
    for (const auto& [key, entry] : value.items()) out[key] = data_of(entry);
    return out;
  }
  if (value.is_array()) {
    Data out(Data::type::list);
    for (const Json& entry : value) out.push_back(data_of(entry));
    return out;
  }
  if (value.is_string() && !value.get_ref<const std::string&>().empty()) return value.get_ref<const std::string&>();
  return value.is_number() ? Data(value.dump()) : Data(value.is_boolean() && value.get<bool>());
}

std::string text_of(std::string_view name) {
  const auto found = std::ranges::find(embedded_templates(), name, &EmbeddedTemplate::name);
  if (found == embedded_templates().end()) throw std::logic_error("no template " + std::string(name));
  return found->text;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : escaped(text, LineEnds::kept)) {
    const std::size_t special = std::string_view("&<>\"'").find(c);
    if (special != std::string_view::npos)
      out += (const char*[]){"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}[special];
    else
      out += c;
  }
  return out;
}

std::string html_flags(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool is_word = text.front() != ' ';
    const std::size_t end = std::min(is_word ? text.find(' ') : text.find_first_not_of(' '), text.size());
    std::string_view word = text.substr(0, end), behind;
    text.remove_prefix(end);
    while (!word.empty() && (word.front() == '(' || word.front() == '[')) out += word.front(), word.remove_prefix(1);
    const std::size_t last = word.find_last_not_of(".,;:)]");
    if (last != std::string_view::npos) behind = word.substr(last + 1), word = word.substr(0, last + 1);
    const bool is_flag = word.size() > 2 && word.starts_with("--");
    out += is_flag ? "<code>" + html_text(word) + "</code>" : html_text(word);
    out += html_text(behind);
  }
  return out;
}

std::string rendered(std::string_view name, const Json& values, std::string_view body) {
  Data data = values.is_object() ? data_of(values) : Data();
  for (const EmbeddedTemplate& one : embedded_templates())
    data[one.name] = Data(kainjow::mustache::partial([&one] { return std::string(one.text); }));
  if (!body.empty()) data["body"] = Data(data[std::string(body)]);
  kainjow::mustache::mustache page(text_of(name));
  page.set_custom_escape([](const std::string& text) { return html_text(text); });
  std::string out;
  page.render(data, [&out](const std::string& part) { out += part; });
  if (!page.is_valid()) throw std::logic_error(std::string(name) + ": " + page.error_message());
  return out;
}

std::string help_text(std::string_view name, const Json& values) {
  std::string text = rendered(name, values);
  text.pop_back();
  return text;
}

}  // namespace a2asim
