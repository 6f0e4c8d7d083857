#include "sim/scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/check_invariant.h"
#include "model/step/engine.h"

namespace a2asim {
namespace {

constexpr Named<ForwardMode> kStepModes[] = {
    {"decode", ForwardMode::decode},
    {"extend", ForwardMode::extend},
    {"mixed", ForwardMode::mixed},
    {"idle", ForwardMode::idle},
    {"target_verify", ForwardMode::target_verify},
    {"draft_extend", ForwardMode::draft_extend},
};
constexpr Named<DataType> kModelDtypes[] = {
    {"bfloat16", DataType::bfloat16}, {"float16", DataType::float16}, {"float32", DataType::float32}};
constexpr Named<Routing::Kind> kRoutingKinds[] = {{"uniform", Routing::Kind::uniform},
                                                  {"hot_rank", Routing::Kind::hot_rank},
                                                  {"round_robin", Routing::Kind::round_robin}};
constexpr Named<ExpertsKind> kExpertsKinds[] = {{"exact", ExpertsKind::exact}, {"ffn", ExpertsKind::ffn}};
constexpr Named<FaultKind> kFaultKinds[] = {
    {"skip_rank", FaultKind::skip_rank},         {"skip_all_gather", FaultKind::skip_all_gather},
    {"stale_counts", FaultKind::stale_counts},   {"wrong_mode", FaultKind::wrong_mode},
    {"replay_rank", FaultKind::replay_rank},     {"dead_rank", FaultKind::dead_rank},
    {"corrupt_count", FaultKind::corrupt_count}, {"max_num_tokens", FaultKind::max_num_tokens},
    {"payload_bytes", FaultKind::payload_bytes},
};
constexpr Named<Verdict> kVerdicts[] = {
    {"agrees", Verdict::agrees},     {"disagrees", Verdict::disagrees},       {"over_capacity", Verdict::over_capacity},
    {"rejected", Verdict::rejected}, {"out_of_scope", Verdict::out_of_scope}, {"corrupt", Verdict::corrupt},
};

ParallelField integer(std::string_view key, std::string_view flag, std::int64_t min, std::int64_t max,
                      std::optional<std::int64_t> Parallel::*member) {
  return {key, flag, min, max, member, nullptr, nullptr, nullptr};
}
ParallelField boolean(std::string_view key, std::string_view flag, std::optional<bool> Parallel::*member) {
  return {key, flag, 0, 0, nullptr, member, nullptr, nullptr};
}
ParallelField word(std::string_view key, std::string_view flag, std::optional<std::string> Parallel::*member) {
  return {key, flag, 0, 0, nullptr, nullptr, member, nullptr};
}

// Spelled as every version of SGLang registers them (in full: an abbreviation may become ambiguous).
std::vector<ParallelField> make_parallel_fields() {
  using P = Parallel;
  constexpr std::int64_t ranks = kMaxScenarioRanks;
  constexpr std::int64_t count = kMaxScenarioCount;
  return {
      word("model_path", "--model-path", &P::model_path),
      integer("tp_size", "--tp-size", 1, ranks, &P::tp_size),
      integer("dp_size", "--dp-size", 1, ranks, &P::dp_size),
      integer("ep_size", "--ep-size", 1, ranks, &P::ep_size),
      integer("pp_size", "--pp-size", 1, ranks, &P::pp_size),
      integer("attn_cp_size", "--attn-cp-size", 1, ranks, &P::attn_cp_size),
      integer("moe_dp_size", "--moe-dp-size", 1, ranks, &P::moe_dp_size),
      integer("moe_dense_tp_size", "--moe-dense-tp-size", 1, ranks, &P::moe_dense_tp_size),
      boolean("enable_dp_attention", "--enable-dp-attention", &P::enable_dp_attention),
      boolean("enable_dp_lm_head", "--enable-dp-lm-head", &P::enable_dp_lm_head),
      word("moe_a2a_backend", "--moe-a2a-backend", &P::moe_a2a_backend),
      word("moe_runner_backend", "--moe-runner-backend", &P::moe_runner_backend),
      word("deepep_mode", "--deepep-mode", &P::deepep_mode),
      word("flashinfer_a2a_dispatch_type", "--flashinfer-a2a-dispatch-type", &P::flashinfer_a2a_dispatch_type),
      word("quantization", "--quantization", &P::quantization),
      word("load_balance_method", "--load-balance-method", &P::load_balance_method),
      word("disaggregation_mode", "--disaggregation-mode", &P::disaggregation_mode),
      integer("chunked_prefill_size", "--chunked-prefill-size", -1, count, &P::chunked_prefill_size),
      integer("max_prefill_tokens", "--max-prefill-tokens", 1, count, &P::max_prefill_tokens),
      integer("max_running_requests", "--max-running-requests", 1, count, &P::max_running_requests),
      boolean("enable_mixed_chunk", "--enable-mixed-chunk", &P::enable_mixed_chunk),
      boolean("enable_two_batch_overlap", "--enable-two-batch-overlap", &P::enable_two_batch_overlap),
      boolean("disable_overlap_schedule", "--disable-overlap-schedule", &P::disable_overlap_schedule),
      boolean("disable_cuda_graph", "--disable-cuda-graph", &P::disable_cuda_graph),
      boolean("disable_cuda_graph_padding", "--disable-cuda-graph-padding", &P::disable_cuda_graph_padding),
      integer("cuda_graph_max_bs", "--cuda-graph-max-bs", 1, count, &P::cuda_graph_max_bs),
      {"cuda_graph_bs", "--cuda-graph-bs", 1, count, nullptr, nullptr, nullptr, &P::cuda_graph_bs},
      word("cuda_graph_mode", "", &P::cuda_graph_mode),
      word("speculative_algorithm", "--speculative-algorithm", &P::speculative_algorithm),
      integer("speculative_num_steps", "--speculative-num-steps", 1, count, &P::speculative_num_steps),
      integer("speculative_eagle_topk", "--speculative-eagle-topk", 1, count, &P::speculative_eagle_topk),
      integer("speculative_num_draft_tokens", "--speculative-num-draft-tokens", 1, count,
              &P::speculative_num_draft_tokens),
      integer("max_num_tokens", "", 1, kMaxScenarioCap_tokens, &P::max_num_tokens),
  };
}

void append_field(std::vector<std::string>& argv, const ParallelField& field, const Parallel& parallel) {
  A2ASIM_INVARIANT(
      field.integer != nullptr || field.boolean != nullptr || field.word != nullptr || field.list != nullptr,
      "a field has a member");
  if (field.integer != nullptr) {
    if (const auto& value = parallel.*field.integer)
      argv.insert(argv.end(), {std::string(field.flag), std::to_string(*value)});
  } else if (field.boolean != nullptr) {
    if ((parallel.*field.boolean).value_or(false)) argv.emplace_back(field.flag);
  } else if (field.word != nullptr) {
    if (const auto& value = parallel.*field.word) argv.insert(argv.end(), {std::string(field.flag), *value});
  } else if (const auto& list = parallel.*field.list; !list.empty()) {
    argv.emplace_back(field.flag);
    for (const std::int64_t entry : list) argv.push_back(std::to_string(entry));
  }
}

// A shell reads the word back.
std::string quoted(const std::string& word) {
  return word.find_first_of(" {}\"") == std::string::npos ? word : "'" + word + "'";
}

Result<void> check_steps(const Scenario& scenario, std::string_view file, std::int64_t attn_dp_size) {
  A2ASIM_INVARIANT(attn_dp_size >= 1, "a deployment has replicas");
  for (const Step& step : scenario.steps) {
    if (static_cast<std::int64_t>(step.tokens.size()) == attn_dp_size) continue;
    return scenario_error(file, step.at,
                          fmt::format("tokens has {} entries, the deployment has {} data-parallel ranks; give {} "
                                      "numbers, one per rank",
                                      step.tokens.size(), attn_dp_size, attn_dp_size));
  }
  return {};
}

Result<void> check_fault(const Fault& fault, std::string_view file, std::int64_t attn_dp_size,
                         std::int64_t world_size) {
  const std::string_view kind = name_in(fault_kinds(), fault.kind);
  if (fault.rank && *fault.rank >= world_size) {
    return scenario_error(file, fault.at,
                          fmt::format("{}: there is no rank {}; the deployment has {} ranks, name one of 0..{}", kind,
                                      *fault.rank, world_size, world_size - 1));
  }
  if (fault.kind == FaultKind::corrupt_count && fault.source >= attn_dp_size) {
    return scenario_error(file, fault.at,
                          fmt::format("{}: there is no data-parallel rank {}; name a source of 0..{}", kind,
                                      fault.source, attn_dp_size - 1));
  }
  return {};
}

// Both change the same thing of a rank, each to something else: one would hide the other. Kinds without a mode and a
// value say the same twice.
bool contradict(const Fault& a, const Fault& b) {
  const bool same_rank = !a.rank || !b.rank || a.rank == b.rank;
  return a.kind == b.kind && a.step == b.step && same_rank && a.source == b.source && a.payload == b.payload &&
         (a.mode != b.mode || a.value != b.value);
}

Result<void> check_contradictions(const Scenario& scenario, std::string_view file) {
  for (auto one = scenario.faults.begin(); one != scenario.faults.end(); ++one) {
    const auto contradicts = [&](const Fault& other) { return contradict(*one, other); };
    if (std::none_of(scenario.faults.begin(), one, contradicts)) continue;
    return scenario_error(file, one->at,
                          fmt::format("a second {} for the same rank{}, with another value; leave one out",
                                      name_in(fault_kinds(), one->kind),
                                      is_construction_fault(one->kind) ? "" : fmt::format(" in step {}", one->step)));
  }
  return {};
}

}  // namespace

std::int64_t num_steps(const Scenario& scenario) {
  std::int64_t sum = 0;
  for (const Step& step : scenario.steps) sum += step.repeat;
  return sum;
}

std::vector<std::string> to_argv(const Parallel& parallel, const Engine& engine, const Version& version) {
  if (engine.launch_words != nullptr) return engine.launch_words(parallel, version);
  std::vector<std::string> argv;
  if (!parallel.model_path) argv.insert(argv.end(), {"--model-path", "M"});
  for (const ParallelField& field : parallel_fields()) {
    if (!field.flag.empty()) append_field(argv, field, parallel);
  }
  return argv;
}

const Engine& engine_of(const Scenario& scenario) {
  const auto named = scenario.engine ? find_engine(*scenario.engine) : Result<const Engine*>(engines().front());
  return named ? **named : *engines().front();  // the reader has refused a name that is not known
}

std::string launch_text(const Scenario& scenario, std::string_view version) {
  if (scenario.launch) return *scenario.launch;
  const Engine& engine = engine_of(scenario);
  const std::string asked = !version.empty() ? std::string(version) : scenario.version.value_or("newest");
  const auto match = engine.find_version(asked);  // deploy() says what is wrong with it
  std::string text(engine.syntax->front_ends.front().command);
  for (const std::string& word : to_argv(scenario.parallel.value_or(Parallel{}), engine,
                                         match ? *match->version : *engine.versions().back()))
    text += " " + quoted(word);
  return text;
}

std::map<std::string, std::string> launch_env(const Scenario& scenario) {
  std::map<std::string, std::string> env = scenario.env;
  const std::string_view variable = engine_of(scenario).cap_variable;
  if (scenario.parallel && scenario.parallel->max_num_tokens && !variable.empty()) {
    env[std::string(variable)] = std::to_string(*scenario.parallel->max_num_tokens);
  }
  return env;
}

Position cap_position(const Scenario& scenario) {
  return scenario.env.contains(std::string(engine_of(scenario).cap_variable)) ? scenario.at.env
                                                                              : scenario.at.deployment;
}

Result<void> check_ranks(const Scenario& scenario, std::string_view file, std::int64_t attn_dp_size,
                         std::int64_t world_size) {
  if (auto steps = check_steps(scenario, file, attn_dp_size); !steps) return steps;
  for (const Fault& fault : scenario.faults) {
    if (auto checked = check_fault(fault, file, attn_dp_size, world_size); !checked) return checked;
  }
  if (auto checked = check_contradictions(scenario, file); !checked) return checked;
  if (scenario.routing.rank >= world_size) {
    return scenario_error(file, scenario.routing.at,
                          fmt::format("routing: there is no rank {}; the deployment has {} ranks, name one of 0..{}",
                                      scenario.routing.rank, world_size, world_size - 1));
  }
  return {};
}

tl::unexpected<Error> scenario_error(std::string_view file, Position at, std::string_view what) {
  if (at.line == 0) return fail(ErrorKind::bad_input, fmt::format("{}: {}", file, what));
  return fail(ErrorKind::bad_input, fmt::format("{}:{}:{}: {}", file, at.line, at.column, what));
}

std::span<const Named<ForwardMode>> step_modes() { return kStepModes; }
std::span<const Named<DataType>> model_dtypes() { return kModelDtypes; }
std::span<const Named<Routing::Kind>> routing_kinds() { return kRoutingKinds; }
std::span<const Named<ExpertsKind>> experts_kinds() { return kExpertsKinds; }
std::span<const Named<FaultKind>> fault_kinds() { return kFaultKinds; }
std::span<const Named<Verdict>> verdicts() { return kVerdicts; }

std::span<const Named<FindingKind>> finding_kinds() {
  static const auto names = [] {
    std::array<Named<FindingKind>, kFindingKinds> all;
    for (int i = 0; i < kFindingKinds; ++i) {
      const auto kind = static_cast<FindingKind>(i);
      all[static_cast<std::size_t>(i)] = {name(kind), kind};
    }
    return all;
  }();
  return names;
}

std::span<const ParallelField> parallel_fields() {
  static const std::vector<ParallelField> fields = make_parallel_fields();
  return fields;
}

bool is_word(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._/:+=@-").find(c) != std::string_view::npos;
  };
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), plain);
}

}  // namespace a2asim
