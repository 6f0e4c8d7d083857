#include "tools/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "tools/plan/plan_formats.h"
#include "tools/report/heat_map.h"
#include "tools/report/html.h"
#include "tools/report/page.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::size_t kPointsInTable = 256;

std::string microseconds(double value) {
  return value < 1000 ? fmt::format("{:.1f} us", value) : fmt::format("{:.1f} ms", value / 1000);
}

std::string factor(std::int64_t computed, std::int64_t needed) {
  return needed == 0 ? "-" : fmt::format("{:.1f}x", static_cast<double>(computed) / static_cast<double>(needed));
}

std::string workspace_words(const PlanPoint& point) { return bytes_in_words(point.capacity.workspace_bytes_per_rank); }

std::string span_of(const std::vector<std::int64_t>& values) {
  return values.size() == 1 ? std::to_string(values[0]) : fmt::format("{} to {}", values.front(), values.back());
}

std::string header(const Plan& plan) {
  const PlanInputs& in = plan.inputs;
  const bool bad = plan.has_problem();
  const PlanPoint* limited = can_run(plan.points[0]) == PlanRuns::yes ? nullptr : &plan.points[0];
  const std::string verdict =
      bad ? (plan.points.size() == 1 ? "Cannot run so" : "Some of it cannot run so")
      : plan.points.size() == 1
          ? fmt::format("{}{} a rank", limited == nullptr ? "" : fmt::format("Can run: {}; ", name(can_run(*limited))),
                        workspace_words(plan.points[0]))
          : fmt::format("{} to {} a rank", workspace_words(plan.points.front()), workspace_words(plan.points.back()));
  return verdict_header(
      "a2asim plan", bad ? Tone::bad : Tone::neutral, verdict,
      fmt::format("All-to-all of {} experts, top_k {}, hidden size {}, over {} ranks with {} tokens a "
                  "data-parallel rank in a step.",
                  in.model.num_experts, in.model.top_k, in.model.hidden_size, span_of(in.ep_sizes),
                  span_of(in.tokens)));
}

std::string deployment(const Plan& plan) {
  const PlanInputs& in = plan.inputs;
  const PlanPoint& first = plan.points.front();
  std::vector<Fact> list = {
      {"SGLang", html_text(fmt::format("{} ({}), FlashInfer {}", in.generation->name, in.generation->date,
                                       limits(in.generation->capacity.flashinfer).tag))},
      {"Dispatch",
       html_text(fmt::format("{}, {} bytes a token with ids and weights", name(in.dispatch_type),
                             dispatch_bytes_per_token(in.dispatch_type, in.model.hidden_size, in.model.top_k)))},
      {"Combine", html_text(std::string(name(in.combine_type)))},
      {"max_num_tokens", html_text(fmt::format("{} a rank; {}", first.capacity.max_num_tokens, first.capacity_source))},
      {"MoE layers", html_text(std::to_string(in.layers))},
  };
  if (in.attn_tp_size > 1) list.push_back({"Attention TP", html_text(std::to_string(in.attn_tp_size))});
  if (in.link_gbps)
    list.push_back(
        {"Link", html_text(fmt::format("{} Gbit/s = {} GB/s out of each GPU, and as much in at the same time",
                                       *in.link_gbps, *in.link_gbps / 8))});
  std::string out = facts(list);
  out += paragraph(plan.points.size() == 1 ? "The launch command that this stands for; a2asim check takes it:"
                                           : "The launch command of the first point; a2asim check takes it:");
  return section("deployment", "The deployment",
                 out + "<pre tabindex=\"0\"><code>" + html_text(first.launch) + "</code></pre>\n");
}

std::string remarks(const Plan& plan) {
  std::string out;
  for (const PlanRemark& remark : plan_remarks(plan)) {
    out += fmt::format("<li class=\"{}\"><strong>{}</strong> {}{}</li>\n", remark.is_problem ? "error" : "note",
                       remark.is_problem ? "Problem:" : "Note:", html_text(remark.text),
                       remark.where.empty() ? "" : html_text(" (" + remark.where + ")"));
  }
  return out.empty() ? "" : section("remarks", "What to know", "<ul class=\"findings\">\n" + out + "</ul>\n");
}

std::string workspace(const PlanPoint& point) {
  std::vector<Bar> list;
  HtmlTable table{
      "Regions of one rank's workspace, in bytes from its start", {"region", "offset", "bytes"}, {}, {1, 2}, {}};
  for (const PlanRegion& region : point.regions) {
    const bool unused = region.name.starts_with("reserved");
    if (region.size_bytes * 200 >= point.capacity.workspace_bytes_per_rank)
      list.push_back({region.name, static_cast<double>(region.size_bytes), bytes_in_words(region.size_bytes), unused});
    table.rows.push_back(
        {html_text(region.name), std::to_string(region.offset_bytes), std::to_string(region.size_bytes)});
  }
  return section("workspace", "Workspace",
                 paragraph(workspace_words(point) + " a rank, once for all layers.") +
                     bars("Regions from 0.5 % of it up", list) + html_table(table));
}

void add_traffic(HtmlTable& table, std::vector<Bar>& list, std::string_view routing, const PlanRouting& at,
                 bool with_time) {
  for (const bool dispatch : {true, false}) {
    const PlanTraffic& traffic = dispatch ? at.dispatch : at.combine;
    const std::string what = fmt::format("{}, {}", dispatch ? "dispatch" : "combine", routing);
    const std::int64_t busier = std::max(traffic.sent_remote_bytes, traffic.received_remote_bytes);
    const std::string time = microseconds(dispatch ? at.dispatch_us : at.combine_us);
    list.push_back({what, static_cast<double>(busier), bytes_in_words(busier), routing == "worst"});
    table.rows.push_back({html_text(what), bytes_in_words(traffic.sent_remote_bytes),
                          bytes_in_words(traffic.received_remote_bytes), bytes_in_words(traffic.local_bytes)});
    if (with_time) table.rows.back().push_back(html_text(time));
  }
}

std::string traffic(const Plan& plan, const PlanPoint& point) {
  const bool with_time = plan.inputs.link_gbps.has_value();
  HtmlTable table{"Bytes of the busiest rank in a step", {"", "sent", "received", "to itself"}, {}, {1, 2, 3}, {}};
  if (with_time) {
    table.head.emplace_back("least time");
    table.numbers.push_back(4);
  }
  std::vector<Bar> list;
  add_traffic(table, list, "expected", point.expected, with_time);
  add_traffic(table, list, "worst", point.worst, with_time);
  std::string out = bars("The busier direction, over the link", list) + html_table(table);
  out += paragraph(fmt::format(
      "Expected: every expert equally likely, so that a token goes to {:.2f} of {} ranks. Worst: for a sender, every "
      "token goes to as many other ranks as top_k allows; for a receiver, every token of all others comes to it.",
      point.expected_copies, point.ep_size));
  if (with_time)
    out +=
        paragraph(fmt::format("Together at least {} a step, in the worst case {}: bytes over the link's rate, without "
                              "latency, launches and waiting.",
                              microseconds(point.expected.dispatch_us + point.expected.combine_us),
                              microseconds(point.worst.dispatch_us + point.worst.combine_us)));
  return section("traffic", "Traffic", out);
}

std::string rules(const PlanPoint& point) {
  HtmlTable table{"What the rules of all versions make of this step: R, and the slots that experts run over",
                  {"path, versions", "R", "wasted", "agree", "slots", "of needed", "rule"},
                  {},
                  {1, 2, 4, 5},
                  {4, 5, 6}};
  std::vector<Bar> list = {{"needed", static_cast<double>(point.ep_size * point.rows_per_rank),
                            std::to_string(point.ep_size * point.rows_per_rank), false}};
  for (const PlanRule& rule : point.rules) {
    const bool counts = rule.runtime_max_tokens.has_value();
    const std::string path = std::string(name(rule.path)) + (rule.own_count_only ? ", own count only" : "");
    const std::string versions = generations_in_words(rule.generations) + (rule.is_chosen ? " (this plan)" : "");
    table.rows.push_back({html_text(path) + "<span class=\"under\">" + html_text(versions) + "</span>",
                          size_words(rule), counts ? std::to_string(rule.wasted_slots()) : "-",
                          rule.agrees ? "yes" : "<strong>no</strong>",
                          counts ? std::to_string(rule.computed_slots) : "-",
                          counts ? factor(rule.computed_slots, rule.needed_slots) : "-",
                          html_text(rule.refused.empty() ? std::string(rule.rule) : "refused: " + rule.refused)});
    if (counts && rule.path == PlanPath::eager_decode)
      list.push_back({fmt::format("{}{}", generations_in_words(rule.generations), rule.own_count_only ? " *" : ""),
                      static_cast<double>(rule.computed_slots), std::to_string(rule.computed_slots),
                      rule.wasted_slots() > 0});
  }
  return section(
      "slots", "Slots by rule",
      bars("Slots of one rank in eager decode; *: with --enable-dp-lm-head --moe-dense-tp-size 1", list) +
          html_table(table) +
          paragraph(
              "Own count only: with --enable-dp-lm-head --moe-dense-tp-size 1 a rank may know its own count only. "
              "Agree: all ranks come to one R when the others have one token or none."));
}

std::string headroom(const Plan& plan, const PlanPoint& point) {
  std::vector<Bar> list;
  HtmlTable table{"Left on one GPU", {"GPU", "memory", "left"}, {}, {1, 2}, {}};
  for (const PlanHeadroom& gpu : point.headroom) {
    const std::string left =
        gpu.left_bytes < 0 ? bytes_in_words(-gpu.left_bytes) + " too much" : bytes_in_words(gpu.left_bytes) + " left";
    list.push_back({gpu.gpu, static_cast<double>(std::max<std::int64_t>(gpu.left_bytes, 0)), left, gpu.left_bytes < 0});
    table.rows.push_back(
        {html_text(gpu.gpu), fmt::format("{:.1f} GiB", static_cast<double>(gpu.memory_mib) / 1024), html_text(left)});
  }
  std::string taken = "After the workspace";
  if (plan.points.size() > 1) taken += fmt::format(" at ep {}", point.ep_size);
  if (plan.inputs.weights_gib) taken += fmt::format(", {} GiB of weights", *plan.inputs.weights_gib);
  if (plan.inputs.other_gib) taken += fmt::format(", {} GiB of other things", *plan.inputs.other_gib);
  if (!plan.inputs.weights_gib) taken += "; the model's weights are not counted";
  return section("headroom", "Headroom",
                 bars(taken, list) + html_table(table) +
                     (plan.inputs.gpu_memory_gib ? "" : paragraph(fmt::format("Memory: {}.", kGpuMemorySource))));
}

// --- the sweep -----------------------------------------------------------------------------------------------------

using CellOf = std::function<HeatCell(const PlanPoint&)>;

std::string sweep_map(const Plan& plan, const std::string& caption, const CellOf& cell_of) {
  HeatMap map{caption, "ep", "tokens a data-parallel rank", {}, {}, {}};
  for (const std::int64_t tokens : plan.inputs.tokens) map.columns.push_back(std::to_string(tokens));
  for (std::size_t row = 0; row < plan.inputs.ep_sizes.size(); ++row) {
    map.rows.push_back(std::to_string(plan.inputs.ep_sizes[row]));
    map.cells.emplace_back();
    for (std::size_t column = 0; column < plan.inputs.tokens.size(); ++column)
      map.cells.back().push_back(cell_of(plan.points[row * plan.inputs.tokens.size() + column]));
  }
  return heat_map(map);
}

HeatCell bytes_cell(std::int64_t bytes) { return {static_cast<double>(bytes), bytes_in_words(bytes)}; }

std::string sweep_pictures(const Plan& plan) {
  std::string out =
      sweep_map(plan, "Dispatch: bytes that the busiest rank sends, expected",
                [](const PlanPoint& point) { return bytes_cell(point.expected.dispatch.sent_remote_bytes); });
  out += sweep_map(plan, "Dispatch: bytes that the busiest rank receives, worst case",
                   [](const PlanPoint& point) { return bytes_cell(point.worst.dispatch.received_remote_bytes); });
  out += sweep_map(plan, "Combine: bytes that the busiest rank receives, expected",
                   [](const PlanPoint& point) { return bytes_cell(point.expected.combine.received_remote_bytes); });
  if (plan.inputs.link_gbps) {
    out += sweep_map(plan, "Least time of dispatch and combine on the link, expected", [](const PlanPoint& point) {
      const double time = point.expected.dispatch_us + point.expected.combine_us;
      return HeatCell{time, microseconds(time)};
    });
    out += sweep_map(plan, "Least time of dispatch and combine on the link, worst case", [](const PlanPoint& point) {
      const double time = point.worst.dispatch_us + point.worst.combine_us;
      return HeatCell{time, microseconds(time)};
    });
  }
  out += sweep_map(plan, "Slots of one rank in eager decode of this version, all counts known",
                   [](const PlanPoint& point) {
                     const PlanRule* rule = chosen_rule(point);
                     const PlanRuns runs = can_run(point);
                     if (rule == nullptr || !rule->runtime_max_tokens)
                       return HeatCell{std::nullopt, runs == PlanRuns::no ? "refused" : std::string(name(runs))};
                     return HeatCell{static_cast<double>(rule->computed_slots), std::to_string(rule->computed_slots)};
                   });
  out += sweep_map(
      plan, "Slots of the version and launch that waste most in eager decode, as a multiple of what is needed",
      [](const PlanPoint& point) {
        const PlanRule* rule = most_wasteful_rule(point);
        if (rule == nullptr || rule->needed_slots == 0) return HeatCell{std::nullopt, "refused"};
        return HeatCell{static_cast<double>(rule->computed_slots) / static_cast<double>(rule->needed_slots),
                        factor(rule->computed_slots, rule->needed_slots)};
      });
  return out;
}

std::string sweep_workspaces(const Plan& plan) {
  std::vector<Bar> list;
  for (std::size_t i = 0; i < plan.points.size(); i += plan.inputs.tokens.size())
    list.push_back({fmt::format("ep {}", plan.points[i].ep_size),
                    static_cast<double>(plan.points[i].capacity.workspace_bytes_per_rank),
                    workspace_words(plan.points[i]), false});
  return section("workspace", "Workspace", bars("Of one rank, whatever the tokens of a step", list));
}

std::string sweep_table(const Plan& plan) {
  HtmlTable table{"Every point; bytes of the busiest rank in a step",
                  {"ep", "tokens", "R", "can run", "workspace", "dispatch sent, expected", "worst",
                   "combine received, expected", "worst"},
                  {},
                  {1, 2, 4, 5, 6, 7, 8},
                  {}};
  for (std::size_t i = 0; i < std::min(plan.points.size(), kPointsInTable); ++i) {
    const PlanPoint& point = plan.points[i];
    const PlanRule* rule = chosen_rule(point);
    const PlanRuns runs = can_run(point);
    table.rows.push_back({std::to_string(point.ep_size), std::to_string(point.tokens),
                          rule == nullptr ? "-" : size_words(*rule),
                          runs == PlanRuns::yes ? "yes" : fmt::format("<strong>{}</strong>", name(runs)), workspace_words(point),
                          bytes_in_words(point.expected.dispatch.sent_remote_bytes),
                          bytes_in_words(point.worst.dispatch.sent_remote_bytes),
                          bytes_in_words(point.expected.combine.received_remote_bytes),
                          bytes_in_words(point.worst.combine.received_remote_bytes)});
  }
  std::string out = html_table(table);
  if (plan.points.size() > kPointsInTable)
    out +=
        paragraph(fmt::format("{} more points: --format json has all of them.", plan.points.size() - kPointsInTable));
  return section("points", "All points", out);
}

}  // namespace

std::string plan_page(const Plan& plan) {
  Page page;
  page.title = fmt::format("a2asim plan: ep {}, {} tokens", span_of(plan.inputs.ep_sizes), span_of(plan.inputs.tokens));
  page.header = header(plan);
  page.body = remarks(plan);
  if (plan.points.size() == 1) {
    const PlanPoint& point = plan.points[0];
    page.body += workspace(point) + traffic(plan, point) + rules(point) + headroom(plan, point);
  } else {
    page.body += sweep_workspaces(plan) + section("sweep", "The sweep as pictures", sweep_pictures(plan)) +
                 headroom(plan, plan.points.back()) + sweep_table(plan);
  }
  page.body += deployment(plan);
  return page_html(page);
}

}  // namespace a2asim
