#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/step/engine.h"
#include "tools/check/check_formats.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kScreen_lines = 24;
constexpr std::size_t kLabelWidth = 12;
constexpr std::size_t kFactLines = 2;   // topology, capacity
constexpr std::size_t kBriefLines = 2;  // findings that are not shown in full

// How many lines each part of a finding may take on one screen; --verbose lifts them. `why` takes what the others
// leave: at least two lines below the longest head, usually seven.
struct Limits {
  std::size_t what = 2;
  std::size_t ranks = 5;
  std::size_t hardware = 2;
  std::size_t fix = 3;
  std::size_t all = kScreen_lines;
};
constexpr Limits kUnlimited = {1000, 1000, 1000, 1000, 100000};

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
  std::string out = fmt::format("all-to-all {}; tp {}, dp {}, ep {}", report.backend, t.tp_size, t.dp_size, t.ep_size);
  if (t.attn_tp_size > 1) out += fmt::format(", attn_tp {}", t.attn_tp_size);
  if (t.attn_cp_size > 1) out += fmt::format(", attn_cp {}", t.attn_cp_size);
  if (t.moe_dense_tp_size) out += fmt::format(", moe_dense_tp {}", *t.moe_dense_tp_size);
  return out + (t.enable_dp_attention ? ", DP attention" : "");
}

std::string capacity_words(const CheckReport& report) {
  if (!report.capacity) return report.capacity_source;
  const std::string workspace = report.workspace_known
                                    ? bytes_in_words(report.capacity->workspace_bytes_per_rank) + " a rank"
                                    : "unknown without the model's shape";
  return fmt::format("max_num_tokens {} a rank, workspace {}; {}", report.capacity->max_num_tokens, workspace,
                     report.capacity_source);
}

// The first `most` lines, the last of them marked where something is left out.
void limit(std::vector<std::string>& lines, std::size_t most, std::size_t width) {
  if (lines.size() <= most) return;
  lines.resize(most);
  lines.back() = cut(lines.back() + " ..", width);
}

// `label` before the first line, the others below it.
void add_labelled(std::vector<std::string>& lines, std::string_view label, std::vector<std::string> body,
                  std::size_t most) {
  limit(body, most, kWidth - kLabelWidth);
  for (std::size_t at = 0; at < body.size(); ++at) {
    lines.push_back(fmt::format("  {:<{}}{}", at == 0 ? label : "", kLabelWidth - 2, body[at]));
  }
}

std::vector<std::string> wrapped(const std::vector<std::string>& texts, std::size_t hang) {
  std::vector<std::string> body;
  for (const std::string& text : texts) {
    for (std::string& line : wrap(text, kWidth - kLabelWidth, hang)) body.push_back(std::move(line));
  }
  return body;
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
         fmt::format(": {} {}", name(finding.kind), phase);
}

std::vector<std::string> in_full(const CheckFinding& finding, const Limits& limits, std::size_t lines_above,
                                 bool colour) {
  std::vector<std::string> lines = {title(finding, colour)};
  add_labelled(lines, "what", wrapped({finding.message}, 0), limits.what);
  if (finding.witness) add_labelled(lines, "witness", witness_table(*finding.witness, limits.ranks), limits.ranks + 1);
  if (!finding.consequence.empty()) {
    add_labelled(lines, "hardware", wrapped({finding.consequence}, 0), limits.hardware);
  }
  std::vector<std::string> fix;
  if (!finding.fix.empty()) add_labelled(fix, "fix", wrapped({finding.fix}, 0), limits.fix);
  if (!finding.chain.empty()) {
    const std::size_t taken = lines_above + lines.size() + fix.size() + 1;  // 1: the line that says what is left out
    add_labelled(lines, "why", wrapped(finding.chain, 2), limits.all - taken);
  }
  lines.insert(lines.end(), fix.begin(), fix.end());
  return lines;
}

std::vector<std::string> head(const CheckReport& report, const TextStyle& style) {
  std::string word(name(report.verdict));
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  // The verdict is about sizes: bytes may go wrong all the same.
  const bool is_unsafe = report.verdict == Verdict::agrees && report.has_error();
  std::vector<std::string> lines = {
      fmt::format("{}{}: {}", painted(word, is_unsafe ? "1;31" : colour_of(report.verdict), style.colour),
                  is_unsafe ? " on sizes, yet bytes go wrong" : "", verdict_in_words(report.verdict))};
  if (is_unsafe) lines = wrap(lines.front(), kWidth, 2);
  std::vector<std::string> facts;
  if (report.generation != nullptr) facts.push_back(version_words(*report.generation));
  if (!report.backend.empty()) facts.push_back(topology_words(report));
  const std::string capacity = capacity_words(report);
  if (!capacity.empty()) facts.push_back(capacity);
  for (const std::string& fact : facts) {
    std::vector<std::string> body = wrap(fact, kWidth - 2, 2);
    if (!style.verbose) limit(body, kFactLines, kWidth - 2);
    for (const std::string& line : body) lines.push_back("  " + line);
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

std::string everything(const CheckReport& report, const TextStyle& style) {
  std::string out = joined(head(report, style));
  for (const CheckFinding& finding : report.findings)
    out += '\n' + joined(in_full(finding, kUnlimited, 0, style.colour));
  return out;
}

std::string one_screen(const CheckReport& report, const TextStyle& style) {
  std::vector<std::string> lines = head(report, style);
  std::size_t shown = 0;
  if (!report.findings.empty() && report.findings[0].severity != Severity::note) {
    for (std::string& line : in_full(report.findings[shown++], Limits{}, lines.size(), style.colour))
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
    limit(brief, kBriefLines, kWidth);
    if (brief.size() + (left > 1 ? 1 : 0) > room) break;
    for (std::string& line : brief) lines.push_back(std::move(line));
  }
  if (shown < report.findings.size()) {
    lines.push_back(fmt::format("({} more: --verbose shows everything)", report.findings.size() - shown));
  }
  return joined(lines);
}

}  // namespace

std::string_view verdict_in_words(Verdict verdict) {
  switch (verdict) {
    case Verdict::agrees:
      return "in every phase that these flags reach, all ranks derive the same size, within the cap";
    case Verdict::disagrees:
      return "some batch makes ranks derive different sizes of the all-to-all";
    case Verdict::over_capacity:
      return "the flags admit a batch above the cap";
    case Verdict::rejected:
      return "the engine itself refuses this configuration";
    case Verdict::out_of_scope:
      return "no fixed-geometry all-to-all is in use, so there is no size to agree on";
  }
  return "";
}

std::string version_words(const Version& generation) {
  const Engine& engine = engine_of(generation);
  const std::string_view library = engine.flashinfer(generation).tag;
  return fmt::format("{} {} ({}){}{}", engine.name, generation.name, generation.date,
                     library.empty() ? "" : ", FlashInfer ", library);
}

std::string check_as_text(const CheckReport& report, const TextStyle& style) {
  return style.verbose ? everything(report, style) : one_screen(report, style);
}

Verdict worst_verdict(std::span<const CheckedServer> servers) {
  using enum Verdict;
  for (const Verdict verdict : {rejected, disagrees, over_capacity, agrees})
    for (const CheckedServer& server : servers)
      if (server.report.verdict == verdict) return verdict;
  return out_of_scope;
}

std::string check_as_text(std::span<const CheckedServer> servers, const TextStyle& style) {
  std::string out;
  std::map<Verdict, int> counts;
  for (const CheckedServer& server : servers) {
    ++counts[server.report.verdict];
    std::string head = server.name;
    if (server.line > 0 && servers.size() > 1) head += fmt::format("{}line {}", head.empty() ? "" : ", ", server.line);
    if (!server.condition.empty()) head += fmt::format("{}if {}", head.empty() ? "" : ", ", server.condition);
    if (servers.size() > 1 || !server.condition.empty())
      out += painted(fmt::format("== {}\n", head), "1", style.colour);
    out += check_as_text(server.report, style);
    if (servers.size() > 1) out += "\n";
  }
  if (servers.size() == 1) return out;
  std::string list;
  for (const auto& [verdict, count] : counts)
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", count, name(verdict));
  return out + fmt::format("{} servers: {}\n", servers.size(), list);
}

}  // namespace a2asim
