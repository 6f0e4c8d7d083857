#include <fmt/format.h>

#include "model/step/engine.h"
#include "tools/program/json_document.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

// Short and fixed, unlike text(): programs compare it.
std::string_view id(SizingBranch branch) {
  switch (branch) {
    case SizingBranch::max_of_list:
      return "max_of_list";
    case SizingBranch::max_of_list_scatter:
      return "max_of_list_scatter";
    case SizingBranch::static_cap:
      return "static_cap";
    case SizingBranch::local_rows:
      return "local_rows";
    case SizingBranch::allgather_prefill:
      return "allgather_prefill";
    case SizingBranch::external:
      return "external";
  }
  return "";
}

Json counts_as_json(const std::array<std::int64_t, kFindingKinds>& counts) {
  Json out = Json::object();
  for (int kind = 0; kind < kFindingKinds; ++kind) {
    const std::int64_t count = counts[static_cast<std::size_t>(kind)];
    if (count > 0) out[std::string(name(static_cast<FindingKind>(kind)))] = count;
  }
  return out;
}

Json payload_name(const RowEvidence& row, int payload) {
  if (payload < 0) return nullptr;
  return payload_words(row.dispatch_type.value_or(DispatchType::bf16), payload);
}

Json payloads_as_json(const ReplayReport& report) {
  Json out = Json::array();
  for (std::size_t p = 0; p < report.payload_bytes_per_token.size(); ++p)
    out.push_back({{"name", payload_words(report.dispatch_type, static_cast<int>(p))},
                   {"bytes_per_token", report.payload_bytes_per_token[p]}});
  return out;
}

Json row_as_json(const RowEvidence& row) {
  return {{"slice", row.slice},
          {"source", row.source},
          {"payload", row.payload},
          {"payload_name", payload_name(row, row.payload)},
          {"token", row.token},
          {"slot", row.slot},
          {"expected_offset", row.expected_offset},
          {"written_offset", row.written_offset},
          {"expected_round", row.expected_round},
          {"found_writer", row.found_writer},
          {"found_source", row.found_source},
          {"found_payload", row.found_payload},
          {"found_payload_name", payload_name(row, row.found_payload)},
          {"found_token", row.found_token},
          {"found_slot", row.found_slot},
          {"found_round", row.found_round},
          {"found_step", row.found_step},
          {"race", row.race},
          {"lost_writer", row.lost_writer},
          {"lost_token", row.lost_token},
          {"lost_payload", row.lost_payload}};
}

// Fields that do not apply are left out.
Json finding_as_json(const Finding& found) {
  Json out = {{"id", name(found.kind)},
              {"severity", name(found.severity)},
              {"phase", name(found.phase)},
              {"operation", name(found.operation)},
              {"message", describe(found)}};
  if (found.root) out["root"] = name(*found.root);
  const std::pair<const char*, std::int64_t> numbers[] = {{"layer", found.layer}, {"rank", found.rank},
                                                          {"peer", found.peer},   {"token", found.token},
                                                          {"value", found.value}, {"limit", found.limit}};
  for (const auto& [key, number] : numbers)
    if (number >= 0) out[key] = number;
  if (found.row) out["row"] = row_as_json(*found.row);
  if (found.witness)
    out["witness"] = {{"tokens_per_dp_rank", found.witness->tokens_per_dp_rank},
                      {"runtime_max_tokens_per_rank", found.witness->runtime_max_tokens_per_rank}};
  if (!found.fix.empty()) out["fix"] = found.fix;
  return out;
}

std::int64_t bytes_wasted(const ReplayReport& report, const Traffic& traffic) {
  return traffic.wasted_rows() * (report.dispatch_bytes_per_token + report.combine_bytes_per_token);
}

// Null unless a fault made ranks of one replica see different lists: then one entry a rank.
Json rank_views_as_json(const ReplayedStep& step) {
  const std::size_t ranks_per_replica = step.ranks.size() / step.batches.size();
  bool differ = false;
  for (std::size_t r = 0; r < step.lists.size(); ++r)
    differ = differ || step.lists[r] != step.lists[r - r % ranks_per_replica];
  if (!differ) return nullptr;
  Json views = Json::array();
  for (const auto& list : step.lists) views.push_back(or_null(list));
  return views;
}

Json step_as_json(const ReplayReport& report, const ReplayedStep& step) {
  const std::size_t ranks_per_replica = step.ranks.size() / step.batches.size();
  Json modes = Json::array(), tokens = Json::array(), lists = Json::array();
  for (std::size_t dp = 0; dp < step.batches.size(); ++dp) {
    modes.push_back(name(step.batches[dp].mode));
    tokens.push_back(step.batches[dp].count);
    lists.push_back(or_null(step.lists[dp * ranks_per_replica]));
  }
  Json sizes = Json::array(), rows = Json::array(), branches = Json::array(), paths = Json::array(),
       raised = Json::array();
  for (const ReplayedRank& rank : step.ranks) {
    const RankDecision& decision = rank.decision;
    sizes.push_back(or_null(rank.runtime_max()));
    rows.push_back(decision.rows);
    const auto branch = rank.branch();
    branches.push_back(branch ? Json(id(*branch)) : Json(nullptr));
    paths.push_back(!decision.participates ? "none" : decision.replay ? "graph" : "eager");
    raised.push_back(decision.raised
                         ? Json(fmt::format("{}: {}", name(decision.raised->kind), decision.raised->message))
                         : Json(nullptr));
  }
  Json findings = Json::array();
  for (const Finding& found : step.findings) findings.push_back(finding_as_json(found));
  const Traffic& traffic = step.outcome.traffic;
  const bool known = report.knows_traffic();
  return {{"step", step.outcome.step},
          {"phase", name(step.outcome.phase)},
          {"verdict", name(step.verdict())},
          {"stopped", step.outcome.stopped},
          {"modes", std::move(modes)},
          {"tokens", std::move(tokens)},
          {"views", std::move(lists)},
          {"rank_views", rank_views_as_json(step)},
          {"runtime_max_tokens_per_rank", std::move(sizes)},
          {"rows", std::move(rows)},
          {"branches", std::move(branches)},
          {"paths", std::move(paths)},
          {"raised", std::move(raised)},
          {"counts", counts_as_json(step.counts)},
          {"findings", std::move(findings)},
          {"bad_tokens", step.outcome.bad_tokens},
          {"tokens_in_doubt", known ? Json(step.outcome.in_doubt) : Json(nullptr)},
          {"bytes_moved", known ? Json(traffic.dispatch_bytes + traffic.combine_bytes) : Json(nullptr)},
          {"bytes_wasted", known ? Json(bytes_wasted(report, traffic)) : Json(nullptr)}};
}

Json expectation_as_json(const Expectation& expectation) {
  Json out = {{"as_expected", expectation.differs.empty()}};
  if (expectation.wanted.verdict) out["verdict"] = name(*expectation.wanted.verdict);
  if (expectation.wanted.step) out["step"] = *expectation.wanted.step;
  if (!expectation.differs.empty()) out["differs"] = expectation.differs;
  return out;
}

}  // namespace

Json replay_as_json(const ReplayReport& report, const std::optional<Expectation>& expectation) {
  const bool known = report.knows_traffic();
  Json steps = Json::array();
  for (const ReplayedStep& step : report.steps) steps.push_back(step_as_json(report, step));
  Json start_findings = Json::array();
  for (const Finding& found : report.start_findings) start_findings.push_back(finding_as_json(found));
  return {{"name", report.name},
          {"file", report.file},
          {"generation", report.generation->name},
          {"fidelity", name(report.fidelity)},
          {"seed", report.seed},
          {"verdict", name(report.verdict)},
          {"why", report.why.empty() ? Json(nullptr) : Json(report.why)},
          {"first_bad_step", or_null(report.first_bad_step)},
          {"expected", expectation ? expectation_as_json(*expectation) : Json(nullptr)},
          {"ep_size", report.ep_size},
          {"capacity",
           {{"max_num_tokens", report.max_num_tokens}, {"workspace_bytes_per_rank", report.workspace_bytes_per_rank}}},
          {"dispatch_dtype", name(report.dispatch_type)},
          {"payloads", payloads_as_json(report)},
          {"num_steps", report.num_steps},
          {"steps_run", report.steps_run},
          {"counts", counts_as_json(report.counts)},
          {"bad_tokens", report.bad_tokens},
          {"bytes_moved", known ? Json(report.bytes_moved()) : Json(nullptr)},
          {"bytes_wasted", known ? Json(report.bytes_wasted()) : Json(nullptr)},
          {"digest", fmt::format("{:016x}", report.digest)},
          {"notes", report.notes},
          {"start_findings", std::move(start_findings)},
          {"steps", std::move(steps)}};
}

}  // namespace a2asim
