#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/base/one_line.h"
#include "model/step/engine.h"
#include "model/step/version_words.h"
#include "tools/check/check_formats.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::size_t kScreen_lines = 23;  // of 24: the first says the version
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

std::string_view colour_of(Verdict verdict) {
  const bool good = verdict == Verdict::agrees;
  return good ? "1;32" : verdict == Verdict::out_of_scope ? "1" : "1;31";
}

std::string_view colour_of(Severity severity) {
  return severity == Severity::error ? "1;31" : severity == Severity::warning ? "1;33" : "1";
}

std::string topology_words(const CheckReport& report) {
  const Topology& t = report.topology;
  std::string out =
      fmt::format("all-to-all {}; tp {}, dp {}, ep {}", report.backend, t.named_tp_size(), t.dp_size, t.ep_size);
  if (t.attn_tp_size > 1) out += fmt::format(", attn_tp {}", t.attn_tp_size);
  if (t.attn_cp_size > 1) out += fmt::format(", attn_cp {}", t.attn_cp_size);
  if (t.moe_dense_tp_size) out += fmt::format(", moe_dense_tp {}", *t.moe_dense_tp_size);
  return out + (t.enable_dp_attention ? ", DP attention" : "");
}

// Of a server that never starts there is nothing to say.
std::string capacity_words(const CheckReport& report) {
  if (report.verdict == Verdict::rejected) return "";
  if (!report.capacity) return report.capacity_source;
  const std::string workspace = report.workspace_known
                                    ? bytes_in_words(report.capacity->workspace_bytes_per_rank) + " per rank"
                                    : "unknown without the model's shape";
  return fmt::format("cap max_num_tokens {} per rank, workspace {}; {}", report.capacity->max_num_tokens, workspace,
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
  limit(body, most, kTextWidth - kLabelWidth);
  for (std::size_t at = 0; at < body.size(); ++at) {
    lines.push_back(fmt::format("  {:<{}}{}", at == 0 ? label : "", kLabelWidth - 2, body[at]));
  }
}

std::vector<std::string> wrapped(const std::vector<std::string>& texts, std::size_t hang) {
  std::vector<std::string> body;
  for (const std::string& text : texts) {
    for (std::string& line : wrap(text, kTextWidth - kLabelWidth, hang)) body.push_back(std::move(line));
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

// The chain, and behind its first line the conditions that do not hold.
std::vector<std::string> why_lines(const CheckFinding& finding) {
  std::vector<std::string> lines = wrapped({finding.chain.front()}, 2);
  if (!finding.any_of.empty()) {
    std::vector<std::vector<std::string>> rows = {{"  any one of", "needed", "yours"}};
    for (const Condition& one : finding.any_of) rows.push_back({"  " + one.what, one.needed, one.yours});
    for (std::string& line : table(rows, {})) lines.push_back(cut(line, kTextWidth - kLabelWidth));
  }
  const std::vector<std::string> rest(finding.chain.begin() + 1, finding.chain.end());
  for (std::string& line : wrapped(rest, 2)) lines.push_back(std::move(line));
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
  if (!finding.fix.empty()) add_labelled(lines, "fix", wrapped({finding.fix}, 0), limits.fix);
  if (finding.witness) add_labelled(lines, "batch", witness_table(*finding.witness, limits.ranks), limits.ranks + 1);
  if (!finding.consequence.empty()) add_labelled(lines, "hardware", wrapped({finding.consequence}, 0), limits.hardware);
  if (!finding.chain.empty()) {
    const std::size_t taken = lines_above + lines.size() + 1;  // 1: the line that says what is left out
    add_labelled(lines, "why", why_lines(finding), limits.all - taken);
  }
  return lines;
}

std::vector<std::string> head(const CheckReport& report, const TextStyle& style) {
  std::string word(name(report.verdict));
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  // The verdict is about sizes: bytes may go wrong all the same.
  const bool is_unsafe = report.verdict == Verdict::agrees && report.has_error();
  const bool by_nodes = report.verdict == Verdict::disagrees && has(report, FindingKind::nodes_differ) &&
                        !has(report, FindingKind::geometry_disagreement);
  const bool is_up_to =
      report.verdict == Verdict::agrees && std::ranges::any_of(report.findings, [](const CheckFinding& finding) {
        return finding.kind == FindingKind::static_cap && finding.severity == Severity::warning;
      });
  std::vector<std::string> lines = {
      fmt::format("{}{}: {}{}", painted(word, is_unsafe ? "1;31" : colour_of(report.verdict), style.colour),
                  is_unsafe ? " on sizes, yet bytes go wrong" : "",
                  by_nodes ? "the commands of the nodes do not go together" : verdict_in_words(report.verdict),
                  is_up_to ? " below what the warning names" : "")};
  if (is_unsafe || is_up_to) lines = wrap(lines.front(), kTextWidth, 2);
  std::vector<std::string> facts;
  if (!report.backend.empty()) facts.push_back(topology_words(report));
  const std::string capacity = capacity_words(report);
  if (!capacity.empty()) facts.push_back(capacity);
  for (const std::string& fact : facts) {
    std::vector<std::string> body = wrap(fact, kTextWidth - 2, 2);
    if (!style.verbose) limit(body, kFactLines, kTextWidth - 2);
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
        kTextWidth, 2);
    limit(brief, kBriefLines, kTextWidth);
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
      return "no batch found for which buffer sizes differ or exceed the cap";
    case Verdict::disagrees:
      return "some batches make ranks use different buffer sizes: expect NaN or wrong output";
    case Verdict::over_capacity:
      return "the flags allow a batch above the cap";
    case Verdict::rejected:
      return "the engine refuses to start with this configuration";
    case Verdict::corrupt:  // of a replay only
    case Verdict::out_of_scope:
      return "no all-to-all with fixed buffers is in use, so there is no size to agree on";
  }
  return "";
}

std::string version_words(const Version& generation) {
  const Engine& engine = engine_of(generation);
  const std::string_view library = engine.flashinfer(generation).tag;
  return fmt::format("{} {}{}{}", engine.name, version_in_words(generation), library.empty() ? "" : ", FlashInfer ",
                     library);
}

std::string check_as_text(const CheckReport& report, const TextStyle& style) {
  return style.verbose ? everything(report, style) : one_screen(report, style);
}

bool CheckedServer::has_problem(bool strict) const {
  for (std::size_t at = 0; at < report.findings.size(); ++at)
    if (counts(at) && (report.findings[at].severity == Severity::error ||
                       (strict && report.findings[at].severity == Severity::warning)))
      return true;
  return false;
}

std::string in_words(const CommandSource& source) {
  using enum CommandSource::Kind;
  return source.kind == file ? source.path : source.kind == command_line ? "command line" : "standard input";
}

Verdict worst_verdict(std::span<const CheckedServer> servers) {
  using enum Verdict;
  for (const Verdict verdict : {rejected, disagrees, over_capacity, agrees})
    for (const CheckedServer& server : servers)
      if (!server.undecided && server.report.verdict == verdict) return verdict;
  return out_of_scope;
}

std::string place_words(const CheckedServer& server) {
  std::string out = one_line(in_words(server.source));
  if (server.line > 0) out += fmt::format(":{}", server.line);
  if (!server.name.empty()) out += " " + one_line(server.name, 60);
  return out + (server.condition.empty() ? "" : ", if " + one_line(server.condition, 120));
}

std::string fix_words(const CheckedServer& server, std::size_t finding) {
  std::string out;
  if (finding < server.fixes.size())
    for (const TriedFix& tried : server.fixes[finding])
      if (tried.cures || !tried.verdict) out += (out.empty() ? "" : ", or ") + in_words(tried.fix);
  return out.empty() ? server.report.findings[finding].fix : out;
}

std::string summary(std::span<const CheckedServer> servers) {
  std::map<std::string, int> files;
  std::map<Verdict, int> counts;
  int undecided = 0;
  for (const CheckedServer& server : servers) {
    if (server.source.kind == CommandSource::Kind::file) ++files[server.source.path];
    if (server.undecided)
      ++undecided;
    else
      ++counts[server.report.verdict];
  }
  static constexpr std::pair<Verdict, std::string_view> kWords[] = {{Verdict::agrees, "agree"},
                                                                    {Verdict::disagrees, "disagree"},
                                                                    {Verdict::over_capacity, "above the cap"},
                                                                    {Verdict::rejected, "refused by the engine"},
                                                                    {Verdict::out_of_scope, "out of scope"}};
  std::string list;
  for (const auto& [verdict, words] : kWords)
    if (const int count = counts[verdict]; count > 0)
      list += fmt::format("{}{} {}{}", list.empty() ? "" : ", ", count, words,
                          count == 1 && (verdict == Verdict::agrees || verdict == Verdict::disagrees) ? "s" : "");
  if (undecided > 0) list += fmt::format("{}{} not decided", list.empty() ? "" : ", ", undecided);
  return fmt::format("{}{}{}{}", files.empty() ? "" : counted(files.size(), "file") + ", ",
                     counted(servers.size(), "server"), list.empty() ? "" : ": ", list);
}

namespace {

constexpr std::size_t kBlockLines = 3;  // of the fix, in the block of one server among several

// A server's findings that count, with the fixes that cure; what is ignored is no finding any more, and said last.
CheckReport shown_report(const CheckedServer& server, const TextStyle& style, std::vector<std::string>& ignored) {
  CheckReport out = server.report;
  out.findings.clear();
  for (std::size_t at = 0; at < server.report.findings.size(); ++at) {
    CheckFinding finding = server.report.findings[at];
    if (!server.counts(at)) {
      ignored.push_back(fmt::format("ignored: {} ({})", name(finding.kind), one_line(server.ignored[at], 100)));
      continue;
    }
    if (style.quiet && finding.severity == Severity::note) continue;
    finding.fix = fix_words(server, at);
    out.findings.push_back(std::move(finding));
  }
  return out;
}

std::string block(const CheckedServer& server, const TextStyle& style) {
  std::vector<std::string> ignored;
  const CheckReport report = shown_report(server, style, ignored);
  std::string out = painted(fmt::format("== {}", place_words(server)), "1", style.colour);
  if (report.generation != nullptr)
    out += fmt::format(", {} {} ({})", engine_of(*report.generation).name, name_of_state(*report.generation),
                       server.version_reason);
  out += '\n';
  if (server.undecided) return out + joined(wrap("NOT DECIDED: " + server.undecided->message, kTextWidth, 2));
  out += head(report, style).front() + '\n';
  for (const CheckFinding& finding : report.findings) {
    if (finding.severity == Severity::note) continue;
    std::vector<std::string> lines =
        wrap(fmt::format("{}: {}: {}", name(finding.severity), name(finding.kind), finding.message), kTextWidth - 2, 2);
    limit(lines, kBlockLines, kTextWidth - 2);
    std::vector<std::string> fix =
        finding.fix.empty() ? std::vector<std::string>{} : wrap("fix: " + finding.fix, kTextWidth - 2, 5);
    limit(fix, kBlockLines, kTextWidth - 2);
    lines.insert(lines.end(), fix.begin(), fix.end());
    for (const std::string& line : lines) out += "  " + line + '\n';
    if (!style.quiet) break;  // the others: --verbose, or the file alone
  }
  for (const std::string& line : ignored) out += "  " + line + '\n';
  return out;
}

}  // namespace

namespace {

// One server, and what the outside may make of it, which comes to the same.
bool is_one_answer(std::span<const CheckedServer> servers, bool strict) {
  if (servers.size() < 2) return false;
  return std::ranges::all_of(servers, [&](const CheckedServer& one) {
    return one.is_alternative != (&one == &servers.front()) && one.source.path == servers.front().source.path &&
           !one.undecided && !one.has_problem(strict) && one.report.verdict == servers.front().report.verdict;
  });
}

std::string same_as_words(std::span<const CheckedServer> others) {
  std::string list;
  for (const CheckedServer& one : others)
    list += fmt::format("{}{} (line {})", list.empty() ? "" : "; ", one_line(one.condition, 80), one.line);
  std::vector<std::string> lines = wrap("the same verdict if " + list, kTextWidth, 2);
  limit(lines, kBriefLines, kTextWidth);
  return joined(lines);
}

}  // namespace

std::string check_as_text(std::span<const CheckedServer> servers, const TextStyle& style) {
  if (!style.verbose && !style.quiet && is_one_answer(servers, style.strict))
    return check_as_text(servers.first(1), style) + same_as_words(servers.subspan(1)) + summary(servers) + "\n";
  std::string out;
  for (const CheckedServer& server : servers) {
    if (style.quiet && !server.undecided && !server.has_problem(style.strict)) continue;
    if (servers.size() > 1 && !style.verbose) {
      out += block(server, style);
      continue;
    }
    std::vector<std::string> ignored;
    const CheckReport report = shown_report(server, style, ignored);
    std::string place =
        server.source.kind == CommandSource::Kind::file || !server.condition.empty() || !server.name.empty()
            ? place_words(server) + ", "
            : "";
    if (report.generation != nullptr)
      out += fmt::format("{}{}: {}\n", place, version_words(*report.generation), server.version_reason);
    out += check_as_text(report, style);
    for (const std::string& line : ignored) out += line + '\n';
    if (servers.size() > 1) out += "\n";
  }
  return servers.size() == 1 || (style.quiet && out.empty()) ? out : out + summary(servers) + "\n";
}

}  // namespace a2asim
