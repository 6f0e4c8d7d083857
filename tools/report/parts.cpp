#include "tools/report/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/report/html.h"
#include "tools/text.h"

namespace a2asim {
namespace {

constexpr std::int64_t kRanksListed = 128;

}  // namespace

std::string verdict_title(Verdict verdict) {
  std::string out(name(verdict));
  std::ranges::replace(out, '_', ' ');
  out[0] = static_cast<char>(out[0] - 32);
  return out;
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
