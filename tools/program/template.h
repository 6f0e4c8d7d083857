// Text from the templates in the folders of tools (*.mustache, the footers *.help of --help, completion.*), which the
// build embeds: C++ computes values, a template has the words.
//
//   const std::string html = rendered("setting.mustache", {{"h", 2}, {"ranks", 8}});
//
// {{name}} is escaped for HTML, {{{name}}} is not; {{#name}}..{{/name}} is left out for null, false, "" and [], and
// repeated for a list; {{> other.mustache}} puts another template in. A name that is missing is empty.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace a2asim {

// For element contents and for attributes in double quotes. Escaped as on a terminal (model/base/one_line.h).
std::string html_text(std::string_view text);

// The same, with options and variables (--ep-size 8, NAME=1) as code that no line break cuts.
std::string html_flags(std::string_view text);

// `body`: the template that {{> body}} stands for in this one, if any.
std::string rendered(std::string_view name, const nlohmann::ordered_json& values, std::string_view body = {});

// The footer of a command's --help: without the line break at its end.
std::string help_text(std::string_view name, const nlohmann::ordered_json& values = {});

struct EmbeddedTemplate {
  const char* name;  // "plan.mustache"
  const char* text;
};
const std::vector<EmbeddedTemplate>& embedded_templates();

}  // namespace a2asim
