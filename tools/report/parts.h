// Parts that the pages of several commands share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/topology.h"
#include "model/verdict.h"

namespace a2asim {

// "Disagrees", "Over capacity".
std::string verdict_title(Verdict verdict);

// Who is which rank.
std::string topology_table(const Topology& topology);

// One rank's workspace by region: the bytes given in all, of which these are for dispatch and for combine.
std::string workspace_bars(std::int64_t all_bytes, std::int64_t dispatch_bytes, std::int64_t combine_bytes,
                           std::int64_t max_num_tokens);

// Several articles on one page: a list of them, which report.js makes a chooser that shows one at a time.
struct Chapter {
  std::string id;
  std::string name;      // plain text
  std::string sentence;  // plain text
  std::string html;
};
std::string chapters_html(std::string_view what, const std::vector<Chapter>& chapters);

}  // namespace a2asim
