// One self-contained HTML page: no network, no other file, the same bytes for the same contents.
//
//   Page page{"a2asim plan", verdict_header("a2asim plan", Tone::neutral, "144 MiB"), "plan.mustache", {..}};
//   write_page(path, page_html(page));
//
// The templates, style and script are the files beside this one; the build embeds them (embed.cmake) and writes the
// hashes of style and script into the page's Content-Security-Policy, so that nothing else in a page can run or load.
// For the same reason a page has no style attributes and no event attributes: use classes, SVG attributes, report.js.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model/base/result.h"

namespace a2asim {

struct Page {
  std::string title;
  nlohmann::ordered_json header;  // verdict_header()
  std::string body;               // the template of what the page says
  nlohmann::ordered_json values;  // for it
  nlohmann::ordered_json data;    // what report.js draws from; null: a page without pictures
};

std::string page_html(const Page& page);

// A page's first words: what was run, and the verdict with a mark that needs no colour; for header.mustache.
enum class Tone { good, bad, neutral };
nlohmann::ordered_json verdict_header(std::string_view kicker, Tone tone, std::string_view verdict,
                                      std::string_view lead, int level = 1);

// JSON inside <script type="application/json">: no sequence in it can end the element or open a comment.
std::string json_for_script(const nlohmann::ordered_json& document);

// Errors: the path cannot be written; one line, naming --report.
Result<void> write_page(const std::string& path, const std::string& html);

}  // namespace a2asim
