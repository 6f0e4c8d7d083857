#include <nlohmann/json.hpp>

#include "model/check/finding_info.h"
#include "model/step/engine.h"
#include "tools/check/check_formats.h"
#include "tools/program/json_document.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

Json topology(const Topology& t) {
  return {{"tp_size", t.named_tp_size()},
          {"dp_size", t.dp_size},
          {"ep_size", t.ep_size},
          {"attn_tp_size", t.attn_tp_size},
          {"attn_cp_size", t.attn_cp_size},
          {"moe_dense_tp_size", or_null(t.moe_dense_tp_size)},
          {"attn_dp_size", t.attn_dp_size},
          {"moe_dp_size", t.moe_dp_size},
          {"enable_dp_attention", t.enable_dp_attention}};
}

// Where the command line itself is refused: the same keys, without values.
Json unknown_topology() {
  Json out = topology(Topology{});
  for (const auto& size : out.items()) size.value() = nullptr;
  return out;
}

Json capacity(const CheckReport& report) {
  Json out = {{"max_num_tokens", nullptr}, {"workspace_bytes_per_rank", nullptr}, {"source", report.capacity_source}};
  if (report.static_cap) out["max_num_tokens"] = *report.static_cap;
  if (report.capacity) out["max_num_tokens"] = report.capacity->max_num_tokens;
  if (report.capacity && report.workspace_known) {
    out["workspace_bytes_per_rank"] = report.capacity->workspace_bytes_per_rank;
    out["dispatch_bytes_per_token"] = report.capacity->dispatch_bytes_per_token;
    out["combine_bytes_per_token"] = report.capacity->combine_bytes_per_token;
  }
  return out;
}

}  // namespace

Json witness_as_json(const std::optional<CheckWitness>& witness) {
  if (!witness) return nullptr;
  Json r = Json::array();
  for (const std::optional<std::int64_t>& value : witness->runtime_max_tokens_per_rank) r.push_back(or_null(value));
  return {{"tokens_per_dp_rank", witness->tokens_per_dp_rank},
          {"runtime_max_tokens_per_rank", r},
          {"modes", witness->modes},
          {"paths", witness->paths}};
}

namespace {

Json conditions_as_json(const std::vector<Condition>& conditions) {
  Json out = Json::array();
  for (const Condition& one : conditions)
    out.push_back({{"condition", one.what}, {"needed", one.needed}, {"yours", one.yours}});
  return out;
}

}  // namespace

Json finding_as_json(const CheckFinding& finding) {
  Json out = {{"id", name(finding.kind)},
              {"about", finding_info(finding.kind).what},
              {"severity", name(finding.severity)},
              {"phase", name(finding.phase)},
              {"message", finding.message},
              {"consequence", finding.consequence},
              {"why", finding.chain},
              {"any_of", conditions_as_json(finding.any_of)},
              {"witness", witness_as_json(finding.witness)},
              {"fix", finding.fix}};
  if (finding.before) out["before"] = witness_as_json(finding.before);
  return out;
}

namespace {

// What a program needs to apply a fix, and what became of it on the model.
Json fixes_as_json(const CheckedServer& server, std::size_t finding) {
  Json out = Json::array();
  const auto add = [&](const Fix& fix, const TriedFix* tried) {
    Json steps = Json::array();
    for (const FixStep& step : fix.steps)
      steps.push_back({{"do", name(step.what)}, {"name", step.name}, {"values", step.values}});
    out.push_back({{"words", in_words(fix)},
                   {"steps", steps},
                   {"verdict", tried == nullptr || !tried->verdict ? Json() : Json(name(*tried->verdict))},
                   {"cures", tried == nullptr ? Json() : Json(tried->cures)}});
  };
  if (finding < server.fixes.size() && !server.fixes[finding].empty()) {
    for (const TriedFix& tried : server.fixes[finding]) add(tried.fix, &tried);
  } else {
    for (const Fix& fix : server.report.findings[finding].fixes) add(fix, nullptr);
  }
  return out;
}

Json report_as_json(const CheckedServer& server) {
  const CheckReport& report = server.report;
  Json findings = Json::array();
  for (std::size_t at = 0; at < report.findings.size(); ++at) {
    findings.push_back(finding_as_json(report.findings[at]));
    findings.back()["fixes"] = fixes_as_json(server, at);
    findings.back()["fingerprint"] = fingerprint(server, report.findings[at]);
    findings.back()["ignored"] = server.counts(at) ? Json() : Json(server.ignored[at]);
  }
  const Version* const version = report.generation;
  return Json{{"engine", version == nullptr ? Json() : Json(engine_of(*version).name)},
              {"generation", version == nullptr ? Json() : Json(version->name)},
              {"version_from", server.version_reason},
              {"backend", report.backend},
              {"topology", report.backend.empty() ? unknown_topology() : topology(report.topology)},
              {"capacity", capacity(report)},
              {"verdict", server.undecided ? Json() : Json(name(report.verdict))},
              {"error", server.undecided ? Json(server.undecided->message) : Json()},
              {"findings", findings}};
}

}  // namespace

std::string check_as_json(const CheckReport& report) {
  const CheckedServer one{report, "", 0, ""};
  return check_as_json(std::span(&one, 1));
}

std::string check_as_json(std::span<const CheckedServer> servers, std::optional<std::int64_t> differences) {
  Json document = {{"tool", tool_as_json()}};
  Json list = Json::array();
  for (const CheckedServer& server : servers) {
    Json one = {{"file", server.source.kind == CommandSource::Kind::file ? Json(server.source.path) : Json()},
                {"line", server.line == 0 ? Json() : Json(server.line)},
                {"name", server.name},
                {"condition", server.condition}};
    one.update(report_as_json(server));
    list.push_back(std::move(one));
  }
  if (servers.size() == 1) document.update(report_as_json(servers.front()));
  document["verdict"] = name(worst_verdict(servers));
  document["differences"] = or_null(differences);
  document["servers"] = std::move(list);
  return print(document);
}

}  // namespace a2asim
