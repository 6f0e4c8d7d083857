#include <fmt/format.h>

#include <algorithm>

#include "model/generation.h"
#include "tools/check_formats.h"
#include "tools/text.h"

namespace a2asim {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kScreen_lines = 24;
constexpr std::size_t kLabelWidth = 12;

// How many lines each part of a finding may take on one screen; --verbose lifts them. With the head and a last line
// they add up to at most kScreen_lines.
struct Limits {
  std::size_t what = 2;
  std::size_t ranks = 5;
  std::size_t hardware = 2;
  std::size_t why = 5;
  std::size_t fix = 3;
};
constexpr Limits kUnlimited = {1000, 1000, 1000, 1000, 1000};

std::string_view sentence(Verdict verdict) {
  switch (verdict) {
    case Verdict::agrees:
      return "in every phase that these flags reach, all ranks derive the same size, within the cap";
    case Verdict::disagrees:
      return "some batch makes ranks derive different sizes of the all-to-all";
    case Verdict::over_capacity:
      return "the flags admit a batch above the cap";
    case Verdict::rejected:
      return "SGLang itself refuses this configuration";
    case Verdict::out_of_scope:
      return "no fixed-geometry all-to-all is in use, so there is no size to agree on";
  }
  return "";
}

std::string painted(std::string_view text, std::string_view colour, bool use) {
  return use ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : std::string(text);
}

std::string_view colour_of(Verdict verdict) {
  const bool good = verdict == Verdict::agrees;
  return good ? "1;32" : verdict == Verdict::out_of_scope ? "1" : "1;31";
}

std::string_view colour_of(Severity severity) {
  return severity == Severity::error ? "1;31" : severity == Severity::warning ? "1;33" : "1";
}

std::string topology_words(const CheckReport& report) {
  const Topology& t = report.topology;
  std::string out = fmt::format("tp {}, dp {}, ep {}", t.tp_size, t.dp_size, t.ep_size);
  if (t.attn_tp_size > 1) out += fmt::format(", attn_tp {}", t.attn_tp_size);
  if (t.attn_cp_size > 1) out += fmt::format(", attn_cp {}", t.attn_cp_size);
  if (t.moe_dense_tp_size) out += fmt::format(", moe_dense_tp {}", *t.moe_dense_tp_size);
  return out + (t.enable_dp_attention ? ", DP attention" : "") + "; all-to-all: " + report.backend;
}

std::string capacity_words(const CheckReport& report) {
  if (!report.capacity) return report.capacity_source;
  std::string out =
      fmt::format("max_num_tokens {} a rank ({})", report.capacity->max_num_tokens, report.capacity_source);
  if (!report.workspace_known) return out + "; workspace unknown without the model's shape";
  const std::int64_t bytes = report.capacity->workspace_bytes_per_rank;
  return out + fmt::format("; workspace {} a rank", bytes_in_words(bytes));
}

void add_labelled(std::vector<std::string>& lines, std::string_view label, const std::vector<std::string>& texts,
                  std::size_t limit) {
  std::vector<std::string> body;
  for (const std::string& text : texts) {
    for (std::string& line : wrap(text, kWidth - kLabelWidth, body.empty() && texts.size() == 1 ? 0 : 2)) {
      body.push_back(std::move(line));
    }
  }
  if (body.size() > limit) {
    body.resize(limit);
    body.back() = cut(body.back(), kWidth - kLabelWidth - 3) + " ..";
  }
  for (std::size_t at = 0; at < body.size(); ++at) {
    lines.push_back(fmt::format("  {:<{}}{}", at == 0 ? label : "", kLabelWidth - 2, body[at]));
  }
}

std::string size_of(const CheckWitness& witness, std::size_t rank) {
  if (rank >= witness.runtime_max_tokens_per_rank.size()) return "-";
  const std::optional<std::int64_t>& size = witness.runtime_max_tokens_per_rank[rank];
  return size.has_value() ? std::to_string(size.value()) : "raised";
}

// Ranks that saw and chose the same are one row, in the order of their first rank.
std::vector<std::string> witness_table(const CheckWitness& witness, std::size_t max_rows) {
  struct Group {
    std::vector<std::string> cells;
    std::vector<std::size_t> ranks;
  };
  std::vector<Group> groups;
  for (std::size_t rank = 0; rank < witness.tokens_per_dp_rank.size(); ++rank) {
    const auto text_at = [&](const std::vector<std::string>& from) { return rank < from.size() ? from[rank] : "-"; };
    std::vector<std::string> cells = {text_at(witness.modes), std::to_string(witness.tokens_per_dp_rank[rank]),
                                      text_at(witness.paths), size_of(witness, rank)};
    const auto same = std::ranges::find(groups, cells, &Group::cells);
    if (same == groups.end()) {
      groups.push_back({std::move(cells), {rank}});
    } else {
      same->ranks.push_back(rank);
    }
  }
  std::vector<std::vector<std::string>> rows = {{"DP rank", "mode", "tokens", "path", "R"}};
  const std::size_t shown = groups.size() <= max_rows ? groups.size() : max_rows - 1;
  for (std::size_t at = 0; at < shown; ++at) {
    rows.push_back({cut(ranges(groups[at].ranks), 24)});
    rows.back().insert(rows.back().end(), groups[at].cells.begin(), groups[at].cells.end());
  }
  std::vector<std::string> lines = table(rows, {2, 4});
  if (shown < groups.size()) lines.push_back(fmt::format(".. {} more, see --verbose", groups.size() - shown));
  return lines;
}

std::string title(const CheckFinding& finding, bool colour) {
  const std::string phase = finding.phase == Phase::start ? "at start" : fmt::format("in {}", name(finding.phase));
  return painted(name(finding.severity), colour_of(finding.severity), colour) +
         fmt::format(": {} {}", finding.id, phase);
}

std::vector<std::string> in_full(const CheckFinding& finding, const Limits& limits, bool colour) {
  std::vector<std::string> lines = {title(finding, colour)};
  add_labelled(lines, "what", {finding.message}, limits.what);
  if (finding.witness) add_labelled(lines, "witness", witness_table(*finding.witness, limits.ranks), limits.ranks + 1);
  if (!finding.consequence.empty()) add_labelled(lines, "hardware", {finding.consequence}, limits.hardware);
  if (!finding.chain.empty()) add_labelled(lines, "why", finding.chain, limits.why);
  if (!finding.fix.empty()) add_labelled(lines, "fix", {finding.fix}, limits.fix);
  return lines;
}

std::vector<std::string> head(const CheckReport& report, const TextStyle& style) {
  std::string word(name(report.verdict));
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  std::vector<std::string> lines = {painted(word, colour_of(report.verdict), style.colour) + ": " +
                                    std::string(sentence(report.verdict))};
  std::vector<std::string> facts;
  if (report.generation != nullptr) {
    facts.push_back(fmt::format("sglang {} ({}), FlashInfer {}; ", report.generation->name, report.generation->date,
                                limits(report.generation->capacity.flashinfer).tag));
  }
  const std::string first = (facts.empty() ? "" : facts[0]) + topology_words(report);
  for (std::string& line : wrap(first, kWidth - 2, 2)) lines.push_back("  " + std::move(line));
  const std::string capacity = capacity_words(report);
  if (!capacity.empty()) {
    for (std::string& line : wrap(capacity, kWidth - 2, 2)) lines.push_back("  " + std::move(line));
  }
  if (!style.verbose && lines.size() > 4) lines.resize(4);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

std::string everything(const CheckReport& report, const TextStyle& style) {
  std::string out = joined(head(report, style));
  for (const CheckFinding& finding : report.findings) out += '\n' + joined(in_full(finding, kUnlimited, style.colour));
  return out;
}

std::string one_screen(const CheckReport& report, const TextStyle& style) {
  std::vector<std::string> lines = head(report, style);
  std::size_t shown = 0;
  if (!report.findings.empty() && report.findings[0].severity != Severity::note) {
    for (std::string& line : in_full(report.findings[shown++], Limits{}, style.colour))
      lines.push_back(std::move(line));
  }
  for (; shown < report.findings.size(); ++shown) {
    const CheckFinding& finding = report.findings[shown];
    const std::size_t left = report.findings.size() - shown;
    const std::size_t room = kScreen_lines - lines.size();
    std::vector<std::string> brief = wrap(
        fmt::format("{}: {}{}", name(finding.severity),
                    finding.phase == Phase::start ? "" : fmt::format("{}: ", name(finding.phase)), finding.message),
        kWidth, 2);
    if (brief.size() > 2) {
      brief.resize(2);
      brief[1] = cut(brief[1], kWidth - 3) + " ..";
    }
    if (brief.size() + (left > 1 ? 1 : 0) > room) break;
    for (std::string& line : brief) lines.push_back(std::move(line));
  }
  if (shown < report.findings.size()) {
    lines.push_back(
        fmt::format("({} more: --verbose shows everything)", counted(report.findings.size() - shown, "finding")));
  }
  return joined(lines);
}

}  // namespace

std::string check_as_text(const CheckReport& report, const TextStyle& style) {
  return style.verbose ? everything(report, style) : one_screen(report, style);
}

}  // namespace a2asim
