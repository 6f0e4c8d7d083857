#include "tools/report/page.h"

#include <fmt/format.h>

#include <fstream>

#include "tools/report/assets.h"
#include "tools/report/html.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

// Each marker stands once in the template; what is put in is not searched again.
std::string filled(std::string_view text, const std::vector<std::pair<std::string_view, std::string>>& values) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t next = text.find("@@", at);
    if (next == std::string_view::npos) return out.append(text.substr(at));
    out.append(text.substr(at, next - at));
    const std::size_t end = text.find("@@", next + 2);
    const std::string_view name = text.substr(next + 2, end - next - 2);
    for (const auto& [key, value] : values)
      if (key == name) out += value;
    at = end + 2;
  }
  return out;
}

}  // namespace

std::string json_for_script(const nlohmann::ordered_json& document) {
  std::string out;
  for (const char c : document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string page_html(const Page& page) {
  namespace assets = report_assets;
  const std::string policy = fmt::format(
      "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
      assets::kStyleHash, assets::kScriptHash);
  return filled(assets::kTemplate, {{"title", html_text(page.title)},
                                    {"policy", policy},
                                    {"style", assets::kStyle},
                                    {"header", page.header},
                                    {"body", page.body},
                                    {"version", A2ASIM_VERSION},
                                    {"data", json_for_script(page.data)},
                                    {"script", assets::kScript}});
}

std::string section(std::string_view id, std::string_view heading, std::string_view html, int level) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-heading\">\n<h{3} id=\"{0}-heading\">{1}</h{3}>\n{2}</section>\n",
      html_text(id), html_text(heading), html, level);
}

std::string verdict_header(std::string_view kicker, Tone tone, std::string_view verdict, std::string_view sentence,
                           int level) {
  struct Mark {
    const char* name;
    const char* shape;
  };
  constexpr Mark kMarks[] = {
      {"good", "<circle cx=\"16\" cy=\"16\" r=\"15\"/><path d=\"M9 16.5l5 5 9-10\"/>"},
      {"bad", "<path class=\"fill\" d=\"M10 1h12l9 9v12l-9 9H10l-9-9V10z\"/><path d=\"M11 11l10 10M21 11L11 21\"/>"},
      {"neutral", "<rect x=\"1\" y=\"1\" width=\"30\" height=\"30\" rx=\"4\"/><path d=\"M9 16h14\"/>"}};
  const Mark& mark = kMarks[static_cast<std::size_t>(tone)];
  return fmt::format(
      "<p class=\"kicker\">{0}</p>\n<h{5} class=\"verdict {1}\"><svg viewBox=\"0 0 32 32\" width=\"32\" height=\"32\" "
      "aria-hidden=\"true\">{2}</svg><span>{3}</span></h{5}>\n<p class=\"lead\">{4}</p>\n",
      html_text(kicker), mark.name, mark.shape, html_text(verdict), html_text(sentence), level);
}

Result<void> write_page(const std::string& path, const std::string& html) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << html;
  file.close();
  if (!file)
    return fail(ErrorKind::bad_input,
                fmt::format("--report: cannot write '{}'; give a path that can be written", one_line(path)));
  return {};
}

}  // namespace a2asim
