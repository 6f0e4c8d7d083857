// The page of `replay --report`; explore puts the same articles behind its matrix.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/replay/replay_formats.h"
#include "tools/report/buffers.h"
#include "tools/report/page.h"
#include "tools/report/replay_story.h"

namespace a2asim {

// The most that one page holds, however many scenarios share it: bytes of drawings, and steps with a table.
inline constexpr std::int64_t kDrawingLimit_bytes = std::int64_t{3} << 20;
inline constexpr std::size_t kStepsOnPage = 96;

struct ReplayForPage {
  Scenario scenario;
  ReplayReport report;
  std::optional<Expectation> expectation;
  std::unique_ptr<Deployment> deployment;  // nullptr: the command was refused
  nlohmann::ordered_json buffers;          // BufferRecorder's
  std::int64_t buffers_left_out = 0;
  std::vector<Finding> rows_behind;  // BufferRecorder's
};

// Runs a scenario; with drawing_bytes > 0 also what a page needs: deployment and buffers. Errors are replay()'s.
Result<ReplayForPage> replay_for_page(Scenario scenario, const std::string& file, ReplayOptions options,
                                      std::int64_t drawing_bytes);

struct ArticleStyle {
  std::size_t steps = kStepsOnPage;  // that it may show
  int level = 2;                     // of its headings
  bool is_part = false;              // of a page that has said what an all-to-all is, who is who, and why
};
// One replay, for article.mustache; what report.js draws from is added to `data`. `id` is unique on the page.
nlohmann::ordered_json replay_article(const ReplayForPage& replay, const std::string& id, const ArticleStyle& style,
                                      nlohmann::ordered_json& data);

std::vector<Verdict> verdicts_of(std::span<const ReplayForPage> replays);
std::string replay_page(std::span<const ReplayForPage> replays);

}  // namespace a2asim
