#include "tools/report/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "model/step/version_words.h"
#include "tools/plan/plan_formats.h"
#include "tools/program/text.h"
#include "tools/report/heat_map.h"
#include "tools/report/page.h"
#include "tools/report/parts.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPointsInTable = 256;

std::string span_of(const std::vector<std::int64_t>& values) {
  return values.size() == 1 ? std::to_string(values[0]) : fmt::format("{} to {}", values.front(), values.back());
}

Json header(const Plan& plan) {
  const PlanInputs& in = plan.inputs;
  const PlanAnswer answer = answer_of(plan);
  return verdict_header(
      fmt::format("a2asim plan · {} {} · {} experts, top_k {}, hidden size {} · ep {} · {} tokens per DP rank and step",
                  engine_of(*in.generation).title, version_in_words(*in.generation), in.model.num_experts,
                  in.model.top_k, in.model.hidden_size, span_of(in.ep_sizes), span_of(in.tokens)),
      answer.is_bad ? Tone::bad : Tone::good, answer.verdict,
      (answer.cause.empty() ? "" : capitalised(answer.cause) + ". ") + capitalised(answer.memory) + ". " +
          capitalised(answer.time) + ".");
}

Json deployment(const Plan& plan) {
  const PlanInputs& in = plan.inputs;
  const PlanPoint& first = plan.points.front();
  Json out = {{"generation", version_in_words(*in.generation)},
              {"engine", engine_of(*in.generation).title},
              {"flashinfer", engine_of(*in.generation).flashinfer(*in.generation).tag},
              {"dispatch_type", name(in.dispatch_type)},
              {"dispatch_bytes", dispatch_bytes_per_token(in.dispatch_type, in.model.hidden_size, in.model.top_k)},
              {"combine_type", name(in.combine_type)},
              {"cap", first.capacity.max_num_tokens},
              {"cap_source", first.capacity_source},
              {"layers", in.layers},
              {"launch", first.launch}};
  if (in.attn_tp_size > 1) out["attn_tp"] = in.attn_tp_size;
  if (in.link_gbps)
    out["link"] = {{"gbps", fmt::format("{}", *in.link_gbps)}, {"gbytes", fmt::format("{}", *in.link_gbps / 8)}};
  return out;
}

Json remarks(const Plan& plan) {
  Json list = Json::array();
  for (const PlanRemark& remark : plan_remarks(plan))
    list.push_back({{"problem", remark.is_problem}, {"text", remark.text}, {"where", remark.where}});
  return list.empty() ? Json() : Json{{"list", list}};
}

void add_workspace(const PlanPoint& point, Json& values) {
  std::vector<Bar> list;
  values["workspace"] = workspace_words(point);
  for (const PlanRegion& region : point.regions) {
    if (region.size_bytes * 200 >= point.capacity.workspace_bytes_per_rank)
      list.push_back(bar_of_bytes(region.name, region.size_bytes, region.name.starts_with("reserved")));
    values["regions"].push_back({{"name", region.name}, {"offset", region.offset_bytes}, {"bytes", region.size_bytes}});
  }
  values["region_bars"] = bars("Regions from 0.5 % of it up", list);
}

Bar time_bar(std::string_view what, const PlanRouting& at) {
  const double together = at.dispatch_us + at.combine_us;
  return {std::string(what) + " routing", together, microseconds(together), what == "worst"};
}

void add_traffic(const PlanPoint& point, Json& values) {
  std::vector<Bar> list;
  for (const bool worst : {false, true})
    for (const bool dispatch : {true, false}) {
      const PlanRouting& at = worst ? point.worst : point.expected;
      const PlanTraffic& traffic = dispatch ? at.dispatch : at.combine;
      const std::string what = fmt::format("{}, {}", dispatch ? "dispatch" : "combine", worst ? "worst" : "expected");
      list.push_back(bar_of_bytes(what, std::max(traffic.sent_remote_bytes, traffic.received_remote_bytes), worst));
      values["traffic"].push_back({{"what", what},
                                   {"sent", bytes_in_words(traffic.sent_remote_bytes)},
                                   {"received", bytes_in_words(traffic.received_remote_bytes)},
                                   {"local", bytes_in_words(traffic.local_bytes)},
                                   {"time", microseconds(dispatch ? at.dispatch_us : at.combine_us)}});
    }
  values["traffic_bars"] = bars("Bytes of the busier direction, over the link", list);
  if (point.expected.dispatch_us > 0)
    values["time_bars"] =
        bars("Least time per step", {time_bar("expected", point.expected), time_bar("worst", point.worst)});
  values["copies"] = fmt::format("{:.2f}", point.expected_copies);
  values["ep"] = point.ep_size;
  values["expected_time"] = microseconds(point.expected.dispatch_us + point.expected.combine_us);
  values["worst_time"] = microseconds(point.worst.dispatch_us + point.worst.combine_us);
}

void add_rules(const PlanPoint& point, Json& values) {
  const std::int64_t needed = point.ep_size * point.rows_per_rank;
  std::vector<Bar> list = {{"needed", static_cast<double>(needed), std::to_string(needed), false}};
  for (const PlanRule& rule : point.rules) {
    const bool counts = rule.runtime_max_tokens.has_value();
    const std::string versions = generations_in_words(rule.generations);
    values["rules"].push_back({{"path", name(rule.path)},
                               {"own", rule.own_count_only},
                               {"versions", versions},
                               {"chosen", rule.is_chosen},
                               {"r", size_words(rule)},
                               {"wasted", counts ? std::to_string(rule.wasted_slots()) : "-"},
                               {"agrees", rule.agrees},
                               {"slots", counts ? std::to_string(rule.computed_slots) : "-"},
                               {"of_needed", counts ? times(rule.computed_slots, rule.needed_slots) : "-"},
                               {"rule", rule.refused.empty() ? rule.rule : ""},
                               {"refused", rule.refused}});
    if (counts && rule.path == PlanPath::eager_decode)
      list.push_back({versions + (rule.own_count_only ? " *" : ""), static_cast<double>(rule.computed_slots),
                      std::to_string(rule.computed_slots), rule.wasted_slots() > 0});
  }
  values["slot_bars"] =
      bars("Slots of one rank in eager decode; *: with --enable-dp-lm-head --moe-dense-tp-size 1", list);
}

Json headroom(const Plan& plan, const PlanPoint& point) {
  std::vector<Bar> list;
  Json gpus = Json::array();
  for (const PlanHeadroom& gpu : point.headroom) {
    const std::string left =
        gpu.left_bytes < 0 ? bytes_in_words(-gpu.left_bytes) + " too much" : bytes_in_words(gpu.left_bytes) + " left";
    list.push_back({gpu.gpu, static_cast<double>(std::max<std::int64_t>(gpu.left_bytes, 0)), left, gpu.left_bytes < 0});
    gpus.push_back({{"gpu", gpu.gpu},
                    {"memory", fmt::format("{:.1f}", static_cast<double>(gpu.memory_mib) / 1024)},
                    {"left", left}});
  }
  std::string taken = "After the workspace";
  if (plan.points.size() > 1) taken += fmt::format(" at ep {}", point.ep_size);
  if (plan.inputs.weights_gib) taken += fmt::format(", {} GiB of weights", *plan.inputs.weights_gib);
  if (plan.inputs.other_gib) taken += fmt::format(", {} GiB of other things", *plan.inputs.other_gib);
  if (!plan.inputs.weights_gib) taken += "; the model's weights are not counted";
  return {{"left", bars(taken, list)},
          {"gpus", std::move(gpus)},
          {"source", plan.inputs.gpu_memory_gib ? "" : kGpuMemorySource}};
}

// --- the sweep -----------------------------------------------------------------------------------------------------

HeatCell bytes_cell(std::int64_t bytes) { return {static_cast<double>(bytes), bytes_in_words(bytes)}; }

HeatCell time_cell(const PlanRouting& at) {
  return {at.dispatch_us + at.combine_us, microseconds(at.dispatch_us + at.combine_us)};
}

HeatCell slots_cell(const PlanPoint& point) {
  const PlanRule* rule = chosen_rule(point);
  const PlanRuns runs = can_run(point);
  if (rule == nullptr || !rule->runtime_max_tokens)
    return {std::nullopt, runs == PlanRuns::no ? "refused" : std::string(name(runs))};
  return {static_cast<double>(rule->computed_slots), std::to_string(rule->computed_slots)};
}

HeatCell waste_cell(const PlanPoint& point) {
  const PlanRule* rule = most_wasteful_rule(point);
  if (rule == nullptr || rule->needed_slots == 0) return {std::nullopt, "refused"};
  return {static_cast<double>(rule->computed_slots) / static_cast<double>(rule->needed_slots),
          times(rule->computed_slots, rule->needed_slots)};
}

struct SweepPicture {
  const char* caption;
  bool needs_link;
  HeatCell (*cell_of)(const PlanPoint&);
};
constexpr SweepPicture kSweepPictures[] = {
    {"Dispatch: bytes that the busiest rank sends, expected", false,
     [](const PlanPoint& point) { return bytes_cell(point.expected.dispatch.sent_remote_bytes); }},
    {"Dispatch: bytes that the busiest rank receives, worst case", false,
     [](const PlanPoint& point) { return bytes_cell(point.worst.dispatch.received_remote_bytes); }},
    {"Combine: bytes that the busiest rank receives, expected", false,
     [](const PlanPoint& point) { return bytes_cell(point.expected.combine.received_remote_bytes); }},
    {"Least time of dispatch and combine on the link, expected", true,
     [](const PlanPoint& point) { return time_cell(point.expected); }},
    {"Least time of dispatch and combine on the link, worst case", true,
     [](const PlanPoint& point) { return time_cell(point.worst); }},
    {"Slots of one rank in eager decode of this version, all counts known", false, slots_cell},
    {"Slots of the version and launch that waste most in eager decode, as a multiple of what is needed", false,
     waste_cell}};

Json sweep_pictures(const Plan& plan) {
  const auto words = [](std::int64_t number) { return std::to_string(number); };
  HeatMap map{"", "ep", "tokens per DP rank", {}, {}, {}};
  std::ranges::transform(plan.inputs.ep_sizes, std::back_inserter(map.rows), words);
  std::ranges::transform(plan.inputs.tokens, std::back_inserter(map.columns), words);
  Json out = Json::array();
  for (const SweepPicture& picture : kSweepPictures) {
    if (picture.needs_link && !plan.inputs.link_gbps) continue;
    map.caption = picture.caption;
    map.cells.assign(map.rows.size(), {});
    for (std::size_t i = 0; i < plan.points.size(); ++i)
      map.cells[i / map.columns.size()].push_back(picture.cell_of(plan.points[i]));
    out.push_back(heat_map_values(map));
  }
  return out;
}

Json sweep_values(const Plan& plan) {
  std::vector<Bar> workspaces;
  for (std::size_t i = 0; i < plan.points.size(); i += plan.inputs.tokens.size())
    workspaces.push_back(
        bar_of_bytes(fmt::format("ep {}", plan.points[i].ep_size), plan.points[i].capacity.workspace_bytes_per_rank));
  Json points = Json::array();
  for (std::size_t i = 0; i < std::min(plan.points.size(), kPointsInTable); ++i) {
    const PlanPoint& point = plan.points[i];
    const PlanRule* rule = chosen_rule(point);
    const PlanRuns runs = can_run(point);
    points.push_back({{"ep", point.ep_size},
                      {"tokens", point.tokens},
                      {"r", rule == nullptr ? "-" : size_words(*rule)},
                      {"runs", runs == PlanRuns::yes},
                      {"limited", name(runs)},
                      {"time", microseconds(point.expected.dispatch_us + point.expected.combine_us)},
                      {"workspace", workspace_words(point)},
                      {"dispatch", bytes_in_words(point.expected.dispatch.sent_remote_bytes)},
                      {"dispatch_worst", bytes_in_words(point.worst.dispatch.sent_remote_bytes)},
                      {"combine", bytes_in_words(point.expected.combine.received_remote_bytes)},
                      {"combine_worst", bytes_in_words(point.worst.combine.received_remote_bytes)}});
  }
  const std::size_t all = plan.points.size();
  return {{"workspaces", bars("Of one rank, whatever the tokens of a step", workspaces)},
          {"pictures", sweep_pictures(plan)},
          {"points", std::move(points)},
          {"more_points", all > kPointsInTable ? Json(all - kPointsInTable) : Json()}};
}

}  // namespace

std::string plan_page(const Plan& plan) {
  const bool is_one = plan.points.size() == 1;
  Page page;
  page.title = fmt::format("a2asim plan: ep {}, {} tokens", span_of(plan.inputs.ep_sizes), span_of(plan.inputs.tokens));
  page.header = header(plan);
  page.body = "plan.mustache";
  page.values = deployment(plan);
  page.values["remarks"] = remarks(plan);
  page.values["headroom"] = headroom(plan, plan.points.back());
  Json& values = page.values[is_one ? "one" : "sweep"];
  if (is_one) {
    add_workspace(plan.points[0], values);
    add_traffic(plan.points[0], values);
    add_rules(plan.points[0], values);
  } else {
    values = sweep_values(plan);
  }
  return page_html(page);
}

}  // namespace a2asim
