// launch_verdicts.jsonl and launch_verdicts_skip.jsonl: whole commands, judged end to end by the real chain of each
// version. A row is met when the verdict is the row's (or one of `accept`), the numbers that the row knows are equal,
// and a disagreement is found in at least one of the row's phases with a witness of unequal R.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/check/check.h"
#include "model/step/engine.h"
#include "tests/golden/table.h"

namespace a2asim::golden {
namespace {

Result<CheckReport> check_row(Fields& in) {
  const auto match = engines().front()->find_version(in.get<std::string>("generation"));
  if (!match) return tl::unexpected(match.error());
  DeployOptions options;
  options.version = *match;
  for (const auto& [key, value] : in.at("env").items()) options.env.set(key, value.get<std::string>());
  options.model = ModelShape{in.get<std::int64_t>("num_experts"), in.get<std::int64_t>("top_k"),
                             in.get<std::int64_t>("hidden_size")};
  auto deployed = deploy_command(in.get<std::string>("command"), options);
  if (!deployed) return tl::unexpected(deployed.error());
  if (deployed->deployment) return judge_deployment(*deployed->deployment);
  CheckReport rejected;  // argparse itself refuses
  rejected.verdict = Verdict::rejected;
  return rejected;
}

// The phases in which ranks disagree with a witness of unequal R.
json disagreeing_phases(const CheckReport& report) {
  json phases = json::array();
  for (const CheckFinding& finding : report.findings) {
    if (finding.kind != FindingKind::geometry_disagreement || !finding.witness) continue;
    const auto& r = finding.witness->runtime_max_tokens_per_rank;
    if (std::any_of(r.begin(), r.end(), [&](const auto& value) { return value != r.front(); }))
      phases.push_back(std::string(name(finding.phase)));
  }
  return phases;
}

// What the row may hold; witness and what follows explain it and are not compared.
constexpr std::array<std::string_view, 11> kKnownKeys = {
    "verdict", "accept", "phases",        "max_num_tokens", "workspace_bytes_per_rank", "witness",
    "why",     "at",     "request_bound", "chunk",          "require_mlp_tp_gather"};

std::optional<std::string> unknown_key(const json& out) {
  for (const auto& [key, value] : out.items())
    if (std::ranges::find(kKnownKeys, key) == kKnownKeys.end()) return key;
  return std::nullopt;
}

bool contains(const json& list, const json& value) { return std::find(list.begin(), list.end(), value) != list.end(); }

}  // namespace

json answer_launch_verdicts(Fields& in, const json&) {
  const Result<CheckReport> report = check_row(in);
  if (!report) return json{{"error", fmt::format("{}: {}", name(report.error().kind), report.error().message)}};
  json out = {{"verdict", std::string(name(report->verdict))},
              {"phases", disagreeing_phases(*report)},
              {"max_num_tokens", nullptr},
              {"workspace_bytes_per_rank", nullptr}};
  if (report->capacity) out["max_num_tokens"] = report->capacity->max_num_tokens;
  if (report->workspace_known) out["workspace_bytes_per_rank"] = report->capacity->workspace_bytes_per_rank;
  return json{{"out", out}};
}

std::optional<std::string> mismatch_launch_verdicts(const json& ours, const json& row) {
  if (ours.contains("error")) return "ours cannot use the command: " + ours.at("error").get<std::string>();
  const json& out = row.at("out");
  const json& mine = ours.at("out");
  if (const auto key = unknown_key(out)) return fmt::format("field \"{}\" of \"out\" is unknown", *key);
  const json accept = out.contains("accept") ? out.at("accept") : json::array({out.at("verdict")});
  if (!contains(accept, mine.at("verdict")))
    return fmt::format("verdict {} where the row has {}: {}", mine.at("verdict").dump(), accept.dump(),
                       out.value("why", std::string()));
  for (const char* number : {"max_num_tokens", "workspace_bytes_per_rank"})
    if (!out.at(number).is_null() && out.at(number) != mine.at(number))
      return fmt::format("{} {} where the row has {}", number, mine.at(number).dump(), out.at(number).dump());
  if (mine.at("verdict") != "disagrees") return std::nullopt;
  const json& phases = mine.at("phases");
  if (std::none_of(phases.begin(), phases.end(), [&](const json& phase) { return contains(out.at("phases"), phase); }))
    return fmt::format("disagreement shown in {} where the row has {}", phases.dump(), out.at("phases").dump());
  return std::nullopt;
}

}  // namespace a2asim::golden
