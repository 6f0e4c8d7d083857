#include "tools/report/page.h"

#include <fmt/format.h>

#include "tools/program/json_document.h"
#include "tools/program/output.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/assets.h"

namespace a2asim {

std::string json_for_script(const nlohmann::ordered_json& document) {
  std::string out;
  for (const char c : dumped(document, -1)) {
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
  nlohmann::ordered_json values = page.values;
  values["page"] = {{"title", page.title},
                    {"header", page.header},
                    {"policy", policy},
                    {"style", assets::kStyle},
                    {"script", assets::kScript},
                    {"version", A2ASIM_VERSION},
                    {"data", json_for_script(page.data)}};
  return rendered("page.mustache", values, page.body);
}

nlohmann::ordered_json verdict_header(std::string_view kicker, Tone tone, std::string_view verdict,
                                      std::string_view lead, int level) {
  const std::string name = tone == Tone::good ? "good" : tone == Tone::bad ? "bad" : "neutral";
  return {{"kicker", kicker}, {"tone", name}, {name, true}, {"verdict", verdict}, {"lead", lead}, {"h", level}};
}

Result<void> write_page(const std::string& path, const std::string& html) {
  return write_output("--report", path, html);
}

}  // namespace a2asim
