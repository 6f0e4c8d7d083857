#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/step/version_words.h"
#include "tools/plan/plan_formats.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using TableRows = std::vector<std::vector<std::string>>;

std::string indented(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "  " + line + '\n';
  return out;
}

std::string paragraph(const std::string& text) { return indented(wrap(text, kTextWidth - 2, 2)); }

// The answer, then what it is an answer to.
std::string head(const Plan& plan) {
  const PlanInputs& in = plan.inputs;
  const PlanAnswer answer = answer_of(plan);
  std::string out;
  const std::string first = answer.cause.empty() ? answer.memory : answer.cause;
  for (const std::string& line : wrap(fmt::format("{}: {}", upper(answer.verdict), first), kTextWidth, 2))
    out += line + '\n';
  if (!answer.cause.empty()) out += paragraph("memory: " + answer.memory);
  out += paragraph("time: " + answer.time);
  const std::string_view library = engine_of(*in.generation).flashinfer(*in.generation).tag;
  out += paragraph(fmt::format(
      "{} experts, top_k {}, hidden_size {}, {}; {} {}{}{}; dispatch in {}, combine in {}{}", in.model.num_experts,
      in.model.top_k, in.model.hidden_size, counted(static_cast<std::size_t>(in.layers), "MoE layer"),
      engine_of(*in.generation).name, version_in_words(*in.generation), library.empty() ? "" : ", FlashInfer ", library,
      name(in.dispatch_type), name(in.combine_type),
      in.attn_tp_size > 1 ? fmt::format("; attn_tp {}", in.attn_tp_size) : ""));
  if (in.link_gbps)
    out += paragraph(fmt::format("link: {} Gbit/s = {} GB/s out of each GPU, and as much in at the same time",
                                 *in.link_gbps, *in.link_gbps / 8));
  return out;
}

std::string workspace(const PlanPoint& point) {
  if (point.regions.empty())
    return fmt::format("\nall-to-all {}: {}\n", point.backend,
                       point.workspace_known               ? fmt::format("{} per rank", workspace_words(point))
                       : point.capacity.max_num_tokens > 0 ? "bytes by the library, not known here"
                                                           : "no buffer for a fixed number of tokens") +
           paragraph(point.capacity_source);
  std::string out = fmt::format("\nworkspace: {} per rank, once for all layers\n",
                                bytes_in_words(point.capacity.workspace_bytes_per_rank));
  out += paragraph(fmt::format("max_num_tokens {} per rank ({}); a token takes {} B in dispatch, {} B in combine",
                               point.capacity.max_num_tokens, point.capacity_source,
                               point.capacity.dispatch_bytes_per_token, point.capacity.combine_bytes_per_token));
  TableRows rows = {{"region", "offset", "size"}};
  for (const PlanRegion& region : point.regions)
    rows.push_back({region.name, std::to_string(region.offset_bytes), bytes_in_words(region.size_bytes)});
  return out + indented(table(rows, {1, 2}));
}

void add_traffic(TableRows& rows, std::string_view routing, const PlanRouting& at, bool with_time) {
  for (const bool dispatch : {true, false}) {
    const PlanTraffic& traffic = dispatch ? at.dispatch : at.combine;
    rows.push_back({std::string(routing), dispatch ? "dispatch" : "combine", bytes_in_words(traffic.sent_remote_bytes),
                    bytes_in_words(traffic.received_remote_bytes), bytes_in_words(traffic.local_bytes)});
    if (with_time) rows.back().push_back("at least " + microseconds(dispatch ? at.dispatch_us : at.combine_us));
  }
}

std::string traffic(const Plan& plan, const PlanPoint& point) {
  const bool with_time = plan.inputs.link_gbps.has_value();
  std::string out = fmt::format("\ntraffic of the busiest rank per step ({} rows per rank)\n", point.rows_per_rank);
  TableRows rows = {{"routing", "", "sent", "received", "to itself"}};
  if (with_time) rows[0].push_back("link time");
  add_traffic(rows, "uniform (expected)", point.expected, with_time);
  add_traffic(rows, "worst case", point.worst, with_time);
  out += indented(table(rows, {2, 3, 4}));
  out += paragraph(
      fmt::format("uniform: every expert equally likely, so a token goes to {:.2f} of {} ranks; worst: for a sender, "
                  "every token goes to as many other ranks as top_k allows; for a receiver, all ranks send it every "
                  "token",
                  point.expected_copies, point.ep_size));
  if (with_time)
    out += paragraph(
        fmt::format("together at least {} per step, in the worst case {}: bytes of the busier direction over the link "
                    "rate; latency, launches and waiting come on top",
                    microseconds(point.expected.dispatch_us + point.expected.combine_us),
                    microseconds(point.worst.dispatch_us + point.worst.combine_us)));
  return out;
}

std::string slots(const PlanPoint& point, bool own_count_only) {
  TableRows rows = {{"path", "rule", "R", "slots", "wasted", "", "agree"}};
  std::vector<std::string> versions;
  for (const PlanRule& rule : point.rules) {
    if (rule.own_count_only != own_count_only) continue;
    const bool counts = rule.runtime_max_tokens.has_value();
    rows.push_back({std::string(rule.is_chosen ? "* " : "  ") + std::string(name(rule.path)), std::string(rule.rule),
                    size_words(rule), counts ? std::to_string(rule.computed_slots) : "-",
                    counts ? std::to_string(rule.wasted_slots()) : "-",
                    counts ? times(rule.computed_slots, rule.needed_slots) : "-", rule.agrees ? "yes" : "NO"});
    versions.push_back(generations_in_words(rule.generations) + (rule.refused.empty() ? "" : "; " + rule.refused));
  }
  const std::vector<std::string> lines = table(rows, {2, 3, 4, 5});
  std::string out = "  " + lines[0] + '\n';
  for (std::size_t i = 0; i < versions.size(); ++i) {
    out += "  " + lines[i + 1] + '\n';
    for (const std::string& line : wrap(versions[i], kTextWidth - 8)) out += "        " + line + '\n';
  }
  return out;
}

std::string all_slots(const Plan& plan, const PlanPoint& point) {
  std::string out =
      fmt::format("\nslots that the experts of one rank run over (ep_size x R); a step of equal ranks needs {}\n",
                  point.ep_size * point.rows_per_rank);
  out += slots(point, false);
  if (std::ranges::any_of(point.rules, &PlanRule::own_count_only)) {
    out += "\n  with --enable-dp-lm-head --moe-dense-tp-size 1, where a rank may know only its own count\n";
    out += slots(point, true);
  }
  return out +
         paragraph(fmt::format("*: {}. agree: all ranks compute the same R when the others have one token or none; "
                               "NO is the disagreement that `a2asim check` reports",
                               release_or_name(*plan.inputs.generation)));
}

std::string headroom_text(const Plan& plan, const PlanPoint& point) {
  const PlanInputs& in = plan.inputs;
  std::string taken = "the workspace";
  if (in.weights_gib) taken += fmt::format(", --weights {} GiB", *in.weights_gib);
  if (in.other_gib) taken += fmt::format(", --other {} GiB", *in.other_gib);
  std::string out = fmt::format("\nleft on one GPU after {}\n", taken);
  TableRows rows = {{"GPU", "memory", "left", "workspace takes"}};
  for (const PlanHeadroom& gpu : point.headroom) {
    const double share = static_cast<double>(point.capacity.workspace_bytes_per_rank) /
                         (static_cast<double>(gpu.memory_mib) * 1048576.0) * 100;
    rows.push_back({gpu.gpu, fmt::format("{:.1f} GiB", static_cast<double>(gpu.memory_mib) / 1024),
                    gpu.left_bytes < 0 ? "does not fit: " + bytes_in_words(-gpu.left_bytes) + " too much"
                                       : bytes_in_words(gpu.left_bytes),
                    fmt::format("{:.2f} %", share)});
  }
  out += indented(table(rows, {1, 2, 3}));
  if (!in.gpu_memory_gib) out += paragraph(fmt::format("memory: {}", kGpuMemorySource));
  return out;
}

std::string remarks_text(const Plan& plan) {
  std::string out;
  for (const PlanRemark& remark : plan_remarks(plan)) {
    if (remark.is_problem && plan.points.size() == 1 && remark.text == plan.points[0].problems.front())
      continue;  // above
    const std::string text = fmt::format("{}: {}{}", remark.is_problem ? "problem" : "note", remark.text,
                                         remark.where.empty() ? "" : fmt::format(" ({})", remark.where));
    for (const std::string& line : wrap(text, kTextWidth, 2)) out += line + '\n';
  }
  return out;
}

std::string one_point(const Plan& plan) {
  const PlanPoint& point = plan.points[0];
  std::string out = head(plan);
  out +=
      fmt::format("  ep {}, {} tokens per DP rank, can run: {}\n", point.ep_size, point.tokens, name(can_run(point)));
  out += remarks_text(plan);
  if (point.workspace_known) out += headroom_text(plan, point);
  out += traffic(plan, point) + workspace(point);
  if (!point.rules.empty()) out += all_slots(plan, point);
  out += "\nthe launch command, for `a2asim check`\n" + paragraph(point.launch);
  return out;
}

std::string pair(std::int64_t expected, std::int64_t worst) {
  return fmt::format("{} / {}", bytes_in_words(expected), bytes_in_words(worst));
}

std::string sweep(const Plan& plan) {
  const bool with_time = plan.inputs.link_gbps.has_value();
  TableRows rows = {
      {"ep", "tokens", "workspace", "dispatch sent", "combine received", "R", "slots", "most slots", "can run"}};
  if (with_time) rows[0].push_back("link time");
  for (const PlanPoint& point : plan.points) {
    const PlanRule* rule = chosen_rule(point);
    const PlanRule* most = most_wasteful_rule(point);
    rows.push_back({std::to_string(point.ep_size), std::to_string(point.tokens), workspace_words(point),
                    pair(point.expected.dispatch.sent_remote_bytes, point.worst.dispatch.sent_remote_bytes),
                    pair(point.expected.combine.received_remote_bytes, point.worst.combine.received_remote_bytes),
                    rule == nullptr ? "-" : size_words(*rule),
                    rule == nullptr || !rule->runtime_max_tokens ? "-" : std::to_string(rule->computed_slots),
                    most == nullptr ? "-" : times(most->computed_slots, most->needed_slots),
                    std::string(name(can_run(point)))});
    if (with_time)
      rows.back().push_back(fmt::format("{} / {}", microseconds(point.expected.dispatch_us + point.expected.combine_us),
                                        microseconds(point.worst.dispatch_us + point.worst.combine_us)));
  }
  std::string out = head(plan) + '\n' + indented(table(rows, {0, 1, 2, 3, 4, 5, 6, 7, 9}));
  out += paragraph(
      "bytes of the busiest rank in a step: expected under uniform routing / worst case. R and slots: eager decode of "
      "this version, all counts known. most slots: of the version that wastes most, against what is needed. can "
      "run: prefill only where this version refuses such a step in decode");
  return out + remarks_text(plan);
}

// "90 GiB of weights" that stand beside the workspace.
std::string beside(const PlanInputs& in) {
  std::string out;
  if (in.weights_gib) out += fmt::format("{} GiB of weights", *in.weights_gib);
  if (in.other_gib) out += fmt::format("{}{} GiB of other memory", out.empty() ? "" : " and ", *in.other_gib);
  return out;
}

std::string memory_words(const Plan& plan) {
  const PlanInputs& in = plan.inputs;
  if (!plan.points.back().workspace_known)
    return fmt::format("all-to-all {}: what its buffers take is not known here", plan.points.back().backend);
  const std::string least = bytes_in_words(plan.points.front().capacity.workspace_bytes_per_rank);
  const std::string most = bytes_in_words(plan.points.back().capacity.workspace_bytes_per_rank);
  const std::string taken = beside(in);
  std::string out = fmt::format("the workspace takes {}{} per rank", least == most ? "" : least + " to ", most);
  if (in.gpu_memory_gib && !plan.points.back().headroom.empty()) {
    const std::int64_t left = plan.points.back().headroom.front().left_bytes;
    out +=
        fmt::format("; with {} {} of {} GiB {}", taken.empty() ? "it" : "it, " + taken + ",",
                    bytes_in_words(left < 0 ? -left : left), *in.gpu_memory_gib, left < 0 ? "are missing" : "are left");
  } else if (!taken.empty()) {
    out += fmt::format(", beside {}", taken);
  }
  return out + (in.weights_gib ? "" : "; weights are not counted (give --weights GiB of one GPU)");
}

std::string time_words(const Plan& plan) {
  if (!plan.inputs.link_gbps) return "give --link-gbps for the least time of dispatch and combine per step";
  const auto together = [](const PlanRouting& at) { return at.dispatch_us + at.combine_us; };
  double least = together(plan.points.front().expected), most = least, worst = 0;
  for (const PlanPoint& point : plan.points) {
    least = std::min(least, together(point.expected)), most = std::max(most, together(point.expected));
    worst = std::max(worst, together(point.worst));
  }
  return fmt::format("dispatch and combine take at least {}{} per step (worst routing: {})",
                     least == most ? "" : microseconds(least) + " to ", microseconds(most), microseconds(worst));
}

}  // namespace

std::string workspace_words(const PlanPoint& point) {
  return point.workspace_known ? bytes_in_words(point.capacity.workspace_bytes_per_rank) : "-";
}

std::string microseconds(double value) {
  return value < 1000 ? fmt::format("{:.1f} us", value) : fmt::format("{:.1f} ms", value / 1000);
}

std::string times(std::int64_t computed, std::int64_t needed) {
  return needed == 0 ? "-" : fmt::format("{:.1f}x", static_cast<double>(computed) / static_cast<double>(needed));
}

PlanAnswer answer_of(const Plan& plan) {
  PlanAnswer out{plan.has_problem(), "", "", memory_words(plan), time_words(plan)};
  for (const PlanPoint& point : plan.points)
    if (!point.problems.empty() && out.cause.empty()) out.cause = point.problems.front();
  const std::vector<PlanHeadroom>& gpus = plan.points.back().headroom;
  const auto fits = std::ranges::count_if(gpus, [](const PlanHeadroom& gpu) { return gpu.left_bytes >= 0; });
  const PlanRuns runs = can_run(plan.points.front());
  const bool is_one = plan.points.size() == 1;
  if (out.is_bad)
    out.verdict = is_one ? "Cannot run" : "Some points cannot run";
  else if (!plan.points.back().workspace_known || gpus.empty())
    out.verdict = is_one && runs != PlanRuns::yes ? fmt::format("Runs in {}", name(runs)) : "Can run";
  else if (fits == 0)
    out.verdict = "Fits on no GPU listed", out.is_bad = true;
  else if (is_one && runs != PlanRuns::yes)
    out.verdict = fmt::format("Runs in {}", name(runs));
  else if (plan.inputs.gpu_memory_gib)
    out.verdict = "Fits";
  else if (fits == std::ssize(gpus))
    out.verdict = "Fits on every GPU listed";
  else
    out.verdict = fmt::format("Fits on {} of {} GPUs listed", fits, gpus.size());
  return out;
}

std::string generations_in_words(const std::vector<std::string_view>& names) {
  if (names.empty()) return "";
  std::vector<const Version*> all;
  for (const Engine* engine : engines())
    if (all = engine->versions(); std::ranges::count(all, names.front(), &Version::name) > 0) break;
  std::string out;
  for (std::size_t at = 0; at < names.size();) {
    const auto first = std::ranges::find(all, names[at], &Version::name);
    auto last = first;
    std::size_t next = at + 1;
    for (; next < names.size() && last + 1 != all.end() && last[1]->name == names[next]; ++next) ++last;
    out += (out.empty() ? "" : ", ") + range_in_words({&*first, &*last + 1});
    at = next;
  }
  return out;
}

std::vector<PlanRemark> plan_remarks(const Plan& plan) {
  constexpr std::size_t shown = 3;
  struct Said {
    PlanRemark remark;
    std::vector<std::string> points;
  };
  std::vector<Said> said;
  const auto add = [&](const PlanPoint& point, bool is_problem, const std::string& text) {
    auto same = std::ranges::find_if(
        said, [&](const Said& one) { return one.remark.is_problem == is_problem && one.remark.text == text; });
    if (same == said.end()) same = said.insert(said.end(), Said{{is_problem, text, ""}, {}});
    same->points.push_back(fmt::format("ep {} with {} tokens", point.ep_size, point.tokens));
  };
  for (const PlanPoint& point : plan.points)
    for (const std::string& problem : point.problems) add(point, true, problem);
  for (const PlanPoint& point : plan.points)
    for (const std::string& note : point.notes) add(point, false, note);
  std::vector<PlanRemark> out;
  for (Said& one : said) {
    if (one.points.size() < plan.points.size()) {
      const std::size_t more = one.points.size() - std::min(one.points.size(), shown);
      one.points.resize(one.points.size() - more);
      one.remark.where =
          fmt::format("{}{}", fmt::join(one.points, ", "), more > 0 ? fmt::format(", {} more", more) : "");
    }
    out.push_back(std::move(one.remark));
  }
  return out;
}

const PlanRule* most_wasteful_rule(const PlanPoint& point) {
  const PlanRule* most = nullptr;
  for (const PlanRule& rule : point.rules) {
    if (rule.path != PlanPath::eager_decode || !rule.runtime_max_tokens) continue;
    if (most == nullptr || rule.computed_slots > most->computed_slots) most = &rule;
  }
  return most;
}

std::string size_words(const PlanRule& rule) {
  if (rule.runtime_max_tokens) return std::to_string(*rule.runtime_max_tokens);
  return rule.refused.empty() ? "-" : "refused";
}

std::string plan_as_text(const Plan& plan) { return plan.points.size() == 1 ? one_point(plan) : sweep(plan); }

}  // namespace a2asim
