#include "tools/report/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/report/html.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::int64_t kRanksListed = 128;

// Marks first, then letters: distinct for any number of sizes.
std::string mark(std::size_t index) {
  constexpr std::array<std::string_view, 6> kMarks = {"●", "▲", "■", "◆", "★", "✚"};
  if (index < kMarks.size()) return std::string(kMarks[index]);
  std::string letters;
  for (std::size_t left = index - kMarks.size() + 1; left > 0; left = (left - 1) / 26)
    letters.insert(letters.begin(), static_cast<char>('A' + (left - 1) % 26));
  return letters;
}

// One line for ranks that saw and chose the same.
std::string witness_table(const CheckWitness& witness) {
  struct Group {
    std::vector<std::string> cells;
    std::vector<std::size_t> ranks;
  };
  std::vector<Group> groups;
  for (std::size_t rank = 0; rank < witness.tokens_per_dp_rank.size(); ++rank) {
    const auto at = [&](const std::vector<std::string>& from) { return rank < from.size() ? from[rank] : "-"; };
    const auto& sizes = witness.runtime_max_tokens_per_rank;
    const bool has_size = rank < sizes.size() && sizes[rank].has_value();
    std::vector<std::string> cells = {has_size ? std::to_string(*sizes[rank]) : "raises",
                                      std::to_string(witness.tokens_per_dp_rank[rank]), at(witness.modes),
                                      at(witness.paths)};
    const auto same = std::ranges::find(groups, cells, &Group::cells);
    if (same == groups.end())
      groups.push_back({std::move(cells), {rank}});
    else
      same->ranks.push_back(rank);
  }
  HtmlTable table{"The smallest batch that shows it: each DP rank's part, and the R it derives",
                  {"DP rank", "R", "has", "mode", "runs"},
                  {},
                  {2},
                  {}};
  std::vector<std::string> seen;
  const bool differ = std::ranges::any_of(groups, [&](const Group& one) { return one.cells[0] != groups[0].cells[0]; });
  for (const Group& group : groups)
    table.rows.push_back({html_text(ranges(group.ranks)),
                          differ ? marked_size(group.cells[0], seen) : html_text(group.cells[0]),
                          html_text(group.cells[1]), html_text(group.cells[2]), html_text(group.cells[3])});
  return html_table(table);
}

}  // namespace

std::string phase_title(Phase phase) {
  if (phase == Phase::start) return "at start";
  std::string out(name(phase));
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::string finding_html(const CheckFinding& finding) {
  std::string out = paragraph(capitalised(finding.message) + ".");
  if (finding.witness) out += witness_table(*finding.witness);
  if (!finding.consequence.empty())
    out += "<p><strong>What it does on hardware:</strong> " + html_text(finding.consequence) + ".</p>\n";
  if (!finding.chain.empty()) {
    out += "<p><strong>Why:</strong></p>\n<ol class=\"chain\">\n";
    for (const std::string& line : finding.chain) out += "<li>" + html_text(line) + "</li>\n";
    out += "</ol>\n";
  }
  if (!finding.fix.empty())
    out += "<p class=\"fix\"><strong>What to change:</strong> " + html_text(finding.fix) + "</p>\n";
  return out;
}

std::string code_block(std::string_view summary, std::string_view text) {
  return fmt::format("<details><summary>{}</summary>\n<pre tabindex=\"0\"><code>{}</code></pre></details>\n",
                     html_text(summary), html_text(text));
}

std::string verdict_title(Verdict verdict) {
  std::string out(name(verdict));
  std::ranges::replace(out, '_', ' ');
  return capitalised(out);
}

std::string setting_words(int level, std::int64_t ranks, const std::optional<ModelShape>& shape) {
  const std::string few = shape ? fmt::format("a few of them (here {} of {})", shape->top_k, shape->num_experts)
                                : std::string("a few of them");
  const std::string each = shape ? fmt::format(", {} on each", shape->num_experts / ranks) : std::string();
  return fmt::format("<h{0}>The setting</h{0}>\n", level) +
         paragraph(fmt::format(
             "A mixture-of-experts layer has many small networks, the experts, and each token needs only {}. The "
             "experts "
             "are spread over {}, one GPU each{}. So in every layer each rank sends the data of its tokens "
             "straight "
             "into the memory of the ranks that hold their experts (dispatch), and afterwards reads the results back "
             "(combine).",
             few, ranks > 0 ? fmt::format("{} ranks", ranks) : std::string("the ranks"), each)) +
         "<p>A rank's memory holds one block of rows for each part that is sent (hidden states, expert numbers, "
         "weights) and one for the results, one behind the other. In a block the first <var>R</var> rows are for what "
         "rank 0 sends, the next <var>R</var> for rank 1, and so on: slot [<var>s</var>, <var>i</var>], row "
         "<var>i</var> from rank <var>s</var>, is row <var>s</var> × <var>R</var> + <var>i</var>. So <var>R</var> "
         "decides where a row lies in its block, and where every block but the first begins.</p>\n"
         "<p>Nobody exchanges <var>R</var> (SGLang calls it <code>runtime_max_tokens_per_rank</code>): every rank "
         "works it out for itself from what it knows about the batch. Sender and receiver mean the same place only if "
         "both come to the same <var>R</var>.</p>\n";
}

std::string marked_size(const std::string& size, std::vector<std::string>& seen) {
  auto at = std::ranges::find(seen, size);
  if (at == seen.end()) at = seen.insert(seen.end(), size);
  const auto index = static_cast<std::size_t>(at - seen.begin());
  return fmt::format("<span class=\"mark\" aria-hidden=\"true\">{}</span> <strong>{}</strong>", mark(index),
                     html_text(size));
}

std::string topology_table(const Topology& topology) {
  HtmlTable table;
  table.caption = topology.enable_dp_attention
                      ? "Each rank is one GPU. Ranks of one DP rank share a batch."
                      : "Each rank is one GPU. Without DP attention all ranks share one batch.";
  table.head = {"rank", "attention DP rank", "attention TP rank", "attention CP rank", "EP rank"};
  table.numbers = {1, 2, 3, 4};
  const std::int64_t shown = std::min(topology.tp_size, kRanksListed);
  for (std::int64_t rank = 0; rank < shown; ++rank) {
    const auto of = [](std::int64_t value, std::int64_t size) {
      return size > 1 ? std::to_string(value) : std::string("<span class=\"only\">0</span>");
    };
    table.rows.push_back({std::to_string(rank), of(topology.attn_dp_rank(rank), topology.attn_dp_size),
                          of(topology.attn_tp_rank(rank), topology.attn_tp_size),
                          of(topology.attn_cp_rank(rank), topology.attn_cp_size),
                          of(topology.ep_rank(rank), topology.ep_size)});
  }
  std::string out = facts({{"tp", std::to_string(topology.tp_size)},
                           {"dp", std::to_string(topology.dp_size)},
                           {"ep", std::to_string(topology.ep_size)},
                           {"attention tp × cp", fmt::format("{} × {}", topology.attn_tp_size, topology.attn_cp_size)},
                           {"dense MLP tp", topology.moe_dense_tp_size ? std::to_string(*topology.moe_dense_tp_size)
                                                                       : std::string("as tp")},
                           {"DP attention", topology.enable_dp_attention ? "on" : "off"}});
  out += html_table(table);
  if (shown < topology.tp_size)
    out += paragraph(fmt::format("{} more ranks go on likewise.", topology.tp_size - shown));
  return out;
}

std::string workspace_bars(std::int64_t all_bytes, std::int64_t dispatch_bytes, std::int64_t combine_bytes,
                           std::int64_t max_num_tokens) {
  const std::int64_t rest = std::max<std::int64_t>(all_bytes - dispatch_bytes - combine_bytes, 0);
  const auto bar = [](std::string what, std::int64_t bytes) {
    return Bar{std::move(what), static_cast<double>(bytes), bytes_in_words(bytes), false};
  };
  return bars(
      fmt::format("Workspace of one rank, for max_num_tokens {}: {}", max_num_tokens, bytes_in_words(all_bytes)),
      {bar("counters, flags, top-k tables", rest), bar("receive buffers (dispatch)", dispatch_bytes),
       bar("expert outputs (combine)", combine_bytes)},
      static_cast<double>(all_bytes));
}

std::string chapters_html(std::string_view what, const std::vector<Chapter>& chapters) {
  std::string list, articles;
  for (const Chapter& chapter : chapters) {
    list += fmt::format("<li><a href=\"#{}\">{}</a> <span>{}</span></li>\n", chapter.id, html_text(chapter.name),
                        html_text(chapter.sentence));
    articles += fmt::format("<article class=\"chapter\" id=\"{}\" aria-label=\"{}\">\n{}</article>\n", chapter.id,
                            html_text(chapter.name), chapter.html);
  }
  return fmt::format("<nav class=\"chapters\" aria-label=\"{0}\" data-what=\"{0}\"><ul>\n{1}</ul></nav>\n{2}",
                     html_text(what), list, articles);
}

}  // namespace a2asim
