#include "model/engines/sglang/start/start_fix.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/base/words.h"
#include "model/engines/sglang/static_caps.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostAlternatives = 2;
constexpr int kMostTogether = 3;  // changes

struct Launch {
  ServerArgs args;
  Environment env;
};

struct Change {
  Fix fix;
  void (*apply)(const Change& change, Launch& launch);
  std::int64_t number = 0;
  std::string word = {};
  ServerArgs::Int ServerArgs::*member = nullptr;
};

std::string now(std::int64_t value) { return fmt::format("now {}", value); }
std::string now(std::string_view value) { return fmt::format("now {}", value); }

void set_size(const Change& change, Launch& launch) { launch.args.*change.member = change.number; }

using FixChanges = std::vector<Change>;

Fix with_dp_attention(const ServerArgs& args) {
  Fix fix;
  if (!args.enable_dp_attention) fix = set_flag("--enable-dp-attention");
  if (args.dp_size != args.tp_size)
    fix.steps.push_back(set_flag("--dp-size", {std::to_string(args.tp_size)}, now(args.dp_size)).steps.front());
  return fix;
}

void add_parallel(const ServerArgs& args, FixChanges& out) {
  if (args.enable_dp_lm_head)
    out.push_back({remove_flag("--enable-dp-lm-head"),
                   [](const Change&, Launch& launch) { launch.args.enable_dp_lm_head = false; }});
  if (args.enable_dp_attention && args.dp_size > 0 && args.tp_size % args.dp_size != 0) {
    const std::int64_t wanted = (args.tp_size + args.dp_size - 1) / args.dp_size * args.dp_size;
    out.push_back({set_flag("--tp-size", {std::to_string(wanted)}, now(args.tp_size)), set_size, wanted, "",
                   &ServerArgs::tp_size});
  }
  std::int64_t divisor = std::min(args.dp_size, args.tp_size);
  while (divisor > 1 && args.tp_size % divisor != 0) --divisor;
  if (divisor >= 1 && divisor != args.dp_size)
    out.push_back({set_flag("--dp-size", {std::to_string(divisor)}, now(args.dp_size)),
                   [](const Change& change, Launch& launch) { launch.args.dp_size = change.number; }, divisor});
  if (args.tp_size > 1 && !(args.enable_dp_attention && args.dp_size == args.tp_size))
    out.push_back({with_dp_attention(args), [](const Change&, Launch& launch) {
                     launch.args.enable_dp_attention = true;
                     launch.args.dp_size = launch.args.tp_size;
                   }});
  if (args.ep_size != 1 && args.ep_size != args.tp_size)
    out.push_back({set_flag("--ep-size", {std::to_string(args.tp_size)}, now(args.ep_size)),
                   [](const Change&, Launch& launch) { launch.args.ep_size = launch.args.tp_size; }});
}

// Context parallelism and data-parallel experts.
void add_expert_groups(const ServerArgs& args, FixChanges& out) {
  const auto size = [&](std::string_view flag, ServerArgs::Int ServerArgs::*member, std::int64_t wanted) {
    if (args.*member == wanted) return;
    out.push_back(
        {set_flag(std::string(flag), {std::to_string(wanted)}, now(args.*member)), set_size, wanted, "", member});
  };
  if (args.moe_dp_size > 1) {
    if (args.ep_size > 1 && args.tp_size % args.moe_dp_size == 0)
      size("--ep-size", &ServerArgs::ep_size, args.tp_size / args.moe_dp_size);
    size("--pp-size", &ServerArgs::pp_size, 1);
    size("--attn-cp-size", &ServerArgs::attn_cp_size, args.moe_dp_size);
    size("--moe-dp-size", &ServerArgs::moe_dp_size, 1);
  }
  size("--attn-cp-size", &ServerArgs::attn_cp_size, 1);
}

void add_runners(const StartRules& rules, const ServerArgs& args, FixChanges& out) {
  std::vector<std::string_view> runners = {"auto", "deep_gemm"};
  if (args.moe_a2a_backend == "flashinfer") runners = split_words(rules.flashinfer_runners);
  for (const std::string_view runner : runners)
    if (runner != args.moe_runner_backend)
      out.push_back({set_flag("--moe-runner-backend", {std::string(runner)}, now(args.moe_runner_backend)),
                     [](const Change& change, Launch& launch) { launch.args.moe_runner_backend = change.word; }, 0,
                     std::string(runner)});
}

void add_prefill_cp(const ServerArgs& args, FixChanges& out) {
  const bool given =
      args.enable_nsa_prefill_context_parallel || args.enable_prefill_context_parallel || args.enable_prefill_cp;
  if (!given) return;
  if (args.dp_size != 1)
    out.push_back({set_flag("--dp-size", {"1"}, now(args.dp_size)),
                   [](const Change&, Launch& launch) { launch.args.dp_size = 1; }});
  if (!args.cp_strategy && args.enable_prefill_cp)
    out.push_back({set_flag("--cp-strategy", {"interleave"}),
                   [](const Change&, Launch& launch) { launch.args.cp_strategy = "interleave"; }});
  const std::string_view name = args.enable_prefill_cp                     ? "--enable-prefill-cp"
                                : args.enable_nsa_prefill_context_parallel ? "--enable-nsa-prefill-context-parallel"
                                                                           : "--enable-prefill-context-parallel";
  out.push_back({remove_flag(std::string(name)), [](const Change&, Launch& launch) {
                   launch.args.enable_nsa_prefill_context_parallel = false;
                   launch.args.enable_prefill_context_parallel = launch.args.enable_prefill_cp = false;
                 }});
}

void add_modes(const ServerArgs& args, FixChanges& out) {
  if (args.flashinfer_a2a_dispatch_type)
    out.push_back({remove_flag("--flashinfer-a2a-dispatch-type", *args.flashinfer_a2a_dispatch_type),
                   [](const Change&, Launch& launch) { launch.args.flashinfer_a2a_dispatch_type.reset(); }});
  if (args.deepep_mode == "normal")
    out.push_back({set_flag("--deepep-mode", {"low_latency"}, "now normal"),
                   [](const Change&, Launch& launch) { launch.args.deepep_mode = "low_latency"; }});
  if (args.enable_two_batch_overlap)
    out.push_back({remove_flag("--enable-two-batch-overlap"),
                   [](const Change&, Launch& launch) { launch.args.enable_two_batch_overlap = false; }});
  if (args.enable_single_batch_overlap)
    out.push_back({remove_flag("--enable-single-batch-overlap"),
                   [](const Change&, Launch& launch) { launch.args.enable_single_batch_overlap = false; }});
}

// The handlers have divided the chunk by dp_size where they are refused for its size.
void add_caps(const ServerArgs& given, const StartOutcome& refused, FixChanges& out) {
  const StaticCapRow* row = find_static_cap(given.moe_a2a_backend);
  if (row == nullptr) return;
  const std::int64_t chunk = refused.args.chunked_prefill_size.value_or(0);
  const std::int64_t needed = std::max(chunk, given.cuda_graph_max_bs.value_or(0));
  const std::int64_t cap = refused.env.get_int(row->env, row->default_cap);
  if (needed <= cap) return;
  out.push_back(
      {set_variable(std::string(row->env), std::to_string(needed), now(cap)),
       [](const Change& change, Launch& launch) { launch.env.set(change.word, std::to_string(change.number)); }, needed,
       std::string(row->env)});
  const std::int64_t whole = cap * (refused.args.enable_dp_attention ? std::max<std::int64_t>(given.dp_size, 1) : 1);
  if (chunk > cap && whole > 0)
    out.push_back({set_flag("--chunked-prefill-size", {std::to_string(whole)}, now(*given.chunked_prefill_size)),
                   [](const Change& change, Launch& launch) { launch.args.chunked_prefill_size = change.number; },
                   whole});
}

FixChanges possible_changes(const StartRules& rules, const ServerArgs& given, const StartOutcome& refused) {
  FixChanges out;
  add_parallel(given, out);
  add_expert_groups(given, out);
  add_caps(given, refused, out);
  add_prefill_cp(given, out);
  add_modes(given, out);
  add_runners(rules, given, out);
  return out;
}

Launch with(const Change& change, Launch launch) {
  change.apply(change, launch);
  return launch;
}

// Up to `most` changes that `launch`, which is refused with `error`, needs together; no steps where there are none.
Fix together(const StartRules& rules, const FixChanges& changes, const Launch& launch, const HandlerError& error,
             int most) {
  std::vector<std::pair<const Change*, StartOutcome>> steps;
  for (const Change& change : changes) {
    Launch next = with(change, launch);
    StartOutcome outcome = start_up(rules, std::move(next.args), std::move(next.env));
    if (!outcome.error) return change.fix;
    if (*outcome.error != error) steps.emplace_back(&change, std::move(outcome));  // it leads somewhere
  }
  if (most <= 1) return {};
  for (const auto& [change, outcome] : steps)
    if (const Fix rest = together(rules, changes, with(*change, launch), *outcome.error, most - 1);
        !rest.steps.empty()) {
      Fix both = change->fix;
      both.steps.insert(both.steps.end(), rest.steps.begin(), rest.steps.end());
      return both;
    }
  return {};
}

// The changes that are enough alone, or else those that are enough together.
std::vector<Fix> search(const StartRules& rules, const FixChanges& changes, const Launch& launch,
                        const HandlerError& error) {
  std::vector<Fix> fixes;
  for (const Change& change : changes) {
    Launch next = with(change, launch);
    if (fixes.size() == kMostAlternatives || start_up(rules, std::move(next.args), std::move(next.env)).error) continue;
    fixes.push_back(change.fix);
  }
  for (int most = 2; fixes.empty() && most <= kMostTogether; ++most)
    if (Fix fix = together(rules, changes, launch, error, most); !fix.steps.empty()) fixes.push_back(std::move(fix));
  return fixes;
}

// Where the backend cannot be had in any way: leave it.
FixChanges without_backend(const ServerArgs& given) {
  return {{set_flag("--moe-a2a-backend", {"none"}, now(given.moe_a2a_backend)),
           [](const Change&, Launch& launch) { launch.args.moe_a2a_backend = "none"; }},
          {set_flag("--moe-runner-backend", {"auto"}, now(given.moe_runner_backend)),
           [](const Change&, Launch& launch) { launch.args.moe_runner_backend = "auto"; }}};
}

}  // namespace

Advice fix_for_start(const StartRules& rules, const ServerArgs& given, const Environment& env,
                     const StartOutcome& refused) {
  const Launch launch{given, env};
  std::vector<Fix> fixes = search(rules, possible_changes(rules, given, refused), launch, *refused.error);
  if (fixes.empty()) fixes = search(rules, without_backend(given), launch, *refused.error);
  if (!fixes.empty()) return fixes;
  return fmt::format("change what {} refuses, or use an SGLang version that allows it", refused.error->handler);
}

}  // namespace a2asim
