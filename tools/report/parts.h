// Parts that the pages of several commands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/check/check.h"
#include "model/step/deployment.h"
#include "model/step/topology.h"
#include "model/step/verdict.h"

namespace a2asim {

// "Disagrees", "Over capacity".
std::string verdict_title(Verdict verdict);

// What a fixed-geometry all-to-all is, for somebody who has not met one, under a heading of this level.
// ranks: 0 where pages of several sizes share it.
std::string setting_words(int level, std::int64_t ranks, const std::optional<ModelShape>& shape);

// Equal sizes share a mark, so that disagreeing ranks stand out by shape. `seen` holds the sizes met so far. HTML.
std::string marked_size(const std::string& size, std::vector<std::string>& seen);

// A finding of check or explore: what, the batch that shows it with every rank's part, what it does, why, the fix.
std::string finding_html(const CheckFinding& finding);
// "graph decode", "at start".
std::string phase_title(Phase phase);
// Text as it is, folded away.
std::string code_block(std::string_view summary, std::string_view text);

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
