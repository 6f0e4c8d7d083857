// How a version answers: its rules, in the form that code outside answers in.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/engines/sglang/questions/json_args.h"
#include "model/engines/sglang/questions/questions.h"

namespace a2asim {
namespace {

using Json = nlohmann::json;
using Sizes = std::vector<std::int64_t>;

Json error(const Error& error) { return {{"error", text_of(error)}}; }

template <class T>
std::optional<T> or_nothing(const Json& q, const char* field) {
  const auto found = q.find(field);
  if (found == q.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

Json startup(const Generation& version, const Json& q) {
  const auto argv = q.at("argv").get<std::vector<std::string>>();
  const auto parsed = parse_server_args(version.options, argv, ParseMode::strict);
  if (!parsed) return error(parsed.error());
  const Json before = json_of(parsed->args);
  if (!parsed->args.chunked_prefill_size)
    return {{"out", {{"parsed", before}, {"handlers", "skipped: chunked_prefill_size unset"}}}};
  const StartOutcome outcome = run_start_handlers(version.start, parsed->args, Environment());
  const Json after = json_of(outcome.args);
  Json out = {{"parsed", before}, {"changed", Json::object()}};
  for (const auto& [name, value] : after.items())
    if (value != before.at(name)) out["changed"][name] = value;
  for (const auto& [variable, value] : outcome.env.values()) out["env"][variable] = value;
  if (outcome.error) out["handler_error"][std::string(outcome.error->handler)] = text_of(outcome.error->error);
  return {{"out", out}};
}

Json gather(const Generation& version, const Json& q) {
  const auto backend = q.at("moe_a2a_backend").get<std::string>();
  const GatherInputs in{.enable_dp_attention = q.at("enable_dp_attention").get<bool>(),
                        .dp_size = q.at("dp_size").get<std::int64_t>(),
                        .tp_size = q.at("tp_size").get<std::int64_t>(),
                        .moe_dense_tp_size = or_nothing<std::int64_t>(q, "moe_dense_tp_size"),
                        .enable_dp_lm_head = q.at("enable_dp_lm_head").get<bool>(),
                        .moe_a2a_backend = backend,
                        .disable_attn_tp_gather = or_nothing<bool>(q, "disable_attn_tp_gather").value_or(false),
                        .elastic_expanded_world = false,
                        .mori_recv_bound = or_nothing<bool>(q, "SGLANG_MORI_RECV_BOUND").value_or(false)};
  const auto value = [](const Result<bool>& result) -> Json {
    if (result) return *result;
    // SGLang's second assertion has no text.
    const bool bare = result.error().message == kDenseTpSizeAssertion;
    return {{"error", bare ? std::string(name(result.error().kind)) : text_of(result.error())}};
  };
  return {{"out",
           {{"require_mlp_tp_gather", value(require_mlp_tp_gather(version.gather, in))},
            {"require_attn_tp_gather", value(version.gather.require_attn_tp_gather(in))},
            {"require_gathered_buffer", value(require_gathered_buffer(version.gather, in))},
            {"require_mlp_sync", value(require_mlp_sync(version.gather, in))}}}};
}

std::optional<LocalBatch> local_batch(const Json& row) {
  if (row.is_null()) return std::nullopt;
  const auto lens = row.at("extend_lens").get<Sizes>();
  const auto starts = row.at("extend_logprob_start_lens").get<Sizes>();
  LocalBatch batch{.forward_mode = parse_forward_mode(row.at("forward_mode").get<std::string>()).value(),
                   .batch_size = row.at("batch_size").get<std::int64_t>(),
                   .extend_num_tokens = 0,
                   .extend_num_tokens_for_logprob = logprob_tokens(lens, starts),
                   .return_logprob = row.at("return_logprob").get<bool>()};
  for (const std::int64_t len : lens) batch.extend_num_tokens += len;
  return batch;
}

Json rank_out(const MlpSyncRules& rules, const MlpSyncResult& result, std::size_t rank, const MlpSyncWorld& world) {
  const auto nullable = [](const std::optional<bool>& value) { return value ? Json(*value) : Json(nullptr); };
  const auto list = [&](std::span<const std::int64_t> counts) {
    const auto carried = token_list(result, rank, counts);
    return carried ? Json(Sizes(carried->begin(), carried->end())) : Json(nullptr);
  };
  Json out = {{"returned", result.has_batch ? Json(name(result.forward_mode)) : Json(nullptr)},
              {"idle_batch_created", result.idle_batch_created ? 1 : 0}};
  if (!result.has_gathered_batch) return out;
  out["global_num_tokens"] = list(world.global_num_tokens);
  out["global_num_tokens_for_logprob"] = list(world.global_num_tokens_for_logprob);
  out["is_extend_in_batch"] = nullable(result.is_extend_in_batch);
  out["can_run_dp_cuda_graph"] = nullable(result.can_run_dp_cuda_graph);
  if (rules.prefill_graph_vote != nullptr)
    out["can_run_dp_breakable_cuda_graph"] = nullable(result.can_run_dp_breakable_cuda_graph);
  return out;
}

Json sync(const Generation& version, const Json& q) {
  const MlpSyncInputs in{.require_mlp_tp_gather = q.at("require_mlp_tp_gather").get<bool>(),
                         .skip_all_gather = q.at("SGLANG_SCHEDULER_SKIP_ALL_GATHER").get<bool>(),
                         .disable_cuda_graph = q.at("disable_cuda_graph").get<bool>(),
                         .prefill_backend_is_breakable = q.at("prefill_backend_breakable").get<bool>(),
                         .dwdp = false};
  std::vector<std::optional<LocalBatch>> batches;
  for (const Json& row : q.at("local_batches")) {
    batches.push_back(local_batch(row));
    if (const auto ok = check_local_batch(batches.back()); !ok) return error(ok.error());
  }
  std::vector<MLPSyncBatchInfo> infos(batches.size());
  Sizes counts(batches.size()), logprob_counts(batches.size());
  std::vector<MlpSyncResult> results(batches.size());
  const MlpSyncWorld world{infos, counts, logprob_counts, results};
  mlp_sync(version.sync, in, batches, world);
  Json out = Json::array();
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    out.push_back(rank_out(version.sync, results[rank], rank, world));
  return {{"out", out}};
}

Json padding(const Generation& version, const Json& q) {
  auto tokens = q.at("global_num_tokens_cpu").get<Sizes>();
  const auto rank = q.at("attn_dp_rank").get<std::size_t>();
  const DpPaddingInputs in{.attn_tp_size = q.at("attn_tp_size").get<std::int64_t>(),
                           .cp_align_size = version.padding.cp_padding_align_size(
                               q.at("attn_cp_size").get<std::int64_t>(), q.at("zigzag").get<bool>()),
                           .attn_dp_size = q.at("attn_dp_size").get<std::int64_t>(),
                           .is_extend_in_batch = q.at("is_extend_in_batch").get<bool>(),
                           .force_max_len = version.padding.has_prefill_graph_rule &&
                                            backend_forces_max_len(q.at("moe_a2a_backend").get<std::string>())};
  const std::int64_t own = local_padded_num_tokens(tokens, rank);  // the batch holds the rank's own count, unpadded
  const ForwardBatchShape before{parse_forward_mode(q.at("forward_mode").get<std::string>()).value(),
                                 q.at("batch_size").get<std::int64_t>(), own};
  const DpPadding padded = pad_global_num_tokens(version.padding, in, tokens);
  const std::int64_t count = local_padded_num_tokens(tokens, rank);
  const ForwardBatchShape batch =
      pad_forward_batch(version.padding, padded, in.is_extend_in_batch, count,
                        or_nothing<std::int64_t>(q, "spec_tokens_per_req").value_or(0), before);
  return {{"out",
           {{"dp_padding_mode", name(padded.mode)},
            {"global_num_tokens", tokens},
            {"global_dp_buffer_len", padded.global_dp_buffer_len_tokens},
            {"padded_num_tokens", count},
            {"batch_size", batch.batch_size},
            {"forward_mode", name(batch.forward_mode)},
            {"extend_num_tokens", batch.extend_num_tokens}}}};
}

Json sizes_or_error(const Result<Sizes>& sizes) {
  if (!sizes) return error(sizes.error());
  return {{"out", *sizes}};
}

Json capture(const Generation& version, const Json& q) {
  const GraphRules& rules = version.graphs;
  const auto fn = q.at("fn").get<std::string>();
  if (fn == "decode_sizes")
    return sizes_or_error(rules.decode_capture_sizes(q.at("max_bs").get<std::int64_t>(),
                                                     !q.at("speculative_algorithm").is_null(),
                                                     q.at("disable_cuda_graph_padding").get<bool>()));
  if (fn == "prefill_sizes") return sizes_or_error(rules.prefill_capture_sizes(q.at("max_bs").get<std::int64_t>()));
  if (fn == "batch_sizes") {
    const auto decode_bs = q.at("decode_bs").get<Sizes>();
    return sizes_or_error(
        rules.batch_sizes_to_capture({.decode_bs = decode_bs,
                                      .req_to_token_pool_size = q.at("req_to_token_pool_size").get<std::int64_t>(),
                                      .num_tokens_per_bs = q.at("num_tokens_per_bs").get<std::int64_t>(),
                                      .require_gathered_buffer = q.at("require_gathered_buffer").get<bool>(),
                                      .attn_tp_size = q.at("attn_tp_size").get<std::int64_t>(),
                                      .attn_cp_size = q.at("attn_cp_size").get<std::int64_t>(),
                                      .enable_two_batch_overlap = q.at("enable_two_batch_overlap").get<bool>()}));
  }
  const CaptureTokenList list =
      rules.capture_token_list(q.at("require_mlp_tp_gather").get<bool>(), q.at("require_attn_tp_gather").get<bool>(),
                               q.at("dp_size").get<std::int64_t>(), q.at("bs").get<std::int64_t>(),
                               q.at("num_tokens_per_bs").get<std::int64_t>());
  const bool seen = list.dispatch_sees_it && list.entries > 0;
  return {{"out",
           {{"num_tokens", list.num_tokens},
            {"global_dp_buffer_len", list.entries > 0 ? Json(list.global_dp_buffer_len_tokens()) : Json(nullptr)},
            {"dp_global_at_capture",
             seen ? Json(Sizes(static_cast<std::size_t>(list.entries), list.num_tokens)) : Json(nullptr)}}}};
}

Json bucket(const Generation& version, const Json& q) {
  const auto capture_bs = q.at("capture_bs").get<Sizes>();
  const auto tokens = or_nothing<Sizes>(q, "global_num_tokens_cpu");
  const auto requests = or_nothing<Sizes>(q, "original_global_num_tokens_cpu");
  ReplayInputs in;
  in.capture_bs = capture_bs;
  in.require_mlp_tp_gather = q.at("require_mlp_tp_gather").get<bool>();
  if (tokens) in.global_num_tokens = *tokens;
  if (requests) in.original_global_num_tokens = *requests;
  in.batch_size = q.at("batch_size").get<std::int64_t>();
  in.num_tokens_per_bs = q.at("num_tokens_per_bs").get<std::int64_t>();
  in.divides_by_width = divides_by_width(or_nothing<std::string>(q, "speculative_algorithm").value_or(""));
  in.require_mlp_sync = q.at("require_mlp_sync").get<bool>();
  in.can_run_dp_cuda_graph = q.at("can_run_dp_cuda_graph").get<bool>();
  const ReplayDecision decision = version.graphs.replay_bucket(in);
  if (decision.raised) return {{"error", name(*decision.raised)}};
  Json out = {{"cuda_graph_bs", decision.cuda_graph_bs}, {"can_run", decision.can_run}};
  if (decision.bs)
    out["bs"] = *decision.bs;
  else
    out["bs_error"] = text_of(version.graphs.replay_above_largest(in, decision));
  return {{"out", out}};
}

Json sizing(const Generation& version, const Json& q) {
  const auto dp_global = or_nothing<Sizes>(q, "dp_global");
  const auto gathers = or_nothing<bool>(q, "require_mlp_tp_gather");
  RankView view;
  view.ep_size = q.at("ep_size").get<int>();
  view.ep_rank = q.at("ep_rank").get<int>();
  if (dp_global) view.dp_global = *dp_global;
  view.rows = q.at("rows").get<std::int64_t>();
  view.capture = q.at("capture").get<bool>();
  view.extend = q.at("extend").get<bool>();
  view.require_mlp_tp_gather = !gathers   ? GatherPredicate::raises
                               : *gathers ? GatherPredicate::yes
                                          : GatherPredicate::no;
  view.enable_dp_attention = q.at("enable_dp_attention").get<bool>();
  view.attn_tp_size = q.at("attn_tp_size").get<int>();
  view.max_num_tokens = q.at("max_num_tokens").get<std::int64_t>();
  const Result<SizingDecision> decision = version.sizing(view);
  if (!decision) return error(decision.error());
  if (decision->branch == SizingBranch::allgather_prefill)
    return {{"out", {{"path", "allgather_prefill"}, {"source_sizes", allgather_source_sizes(view)}}}};
  Json out = {{"runtime_max_tokens_per_rank", decision->runtime_max_tokens_per_rank},
              {"dispatched_rows", decision->dispatched_rows},
              {"has_dummy_token", decision->has_dummy_token}};
  const auto runner = or_nothing<std::string>(q, "moe_runner_backend").value_or("");
  if (const auto id = invalid_token_expert_id(version.sanitize, runner, 256))
    out["unfilled_rows"] = *id == -1 ? "minus_one" : "num_experts";
  return {{"out", out}};
}

Json cap(const Generation& version, const Json& q) {
  const auto env = or_nothing<std::string>(q, "env");
  const auto algorithm = or_nothing<std::string>(q, "speculative_algorithm");
  CapacityInputs in;
  if (env) in.env = *env;
  if (algorithm) in.speculative_algorithm = *algorithm;
  in.chunked_prefill_size = or_nothing<std::int64_t>(q, "chunked_prefill_size");
  in.ep_size = q.at("ep_size").get<int>();
  in.hidden_size = q.at("hidden_size").get<std::int64_t>();
  in.top_k = q.at("router_topk").get<std::int64_t>();
  in.moe_nvfp4_dispatch = q.at("SGLANG_MOE_NVFP4_DISPATCH").get<bool>();
  const std::int64_t tokens = version.capacity.max_num_tokens(in.env, in.chunked_prefill_size, in.ep_size);
  in.env = "1";  // the bytes of a token do not depend on the cap, and a workspace for many may fit no memory
  const Result<Capacity> made = capacity(version.capacity, in);
  if (!made) return error(made.error());
  return {{"out",
           {{"max_num_tokens", tokens},
            {"total_dispatch_payload_size_per_token", made->dispatch_bytes_per_token},
            {"combine_payload_size_per_token", made->combine_bytes_per_token}}}};
}

std::string error_kind(const Json& answer) {
  const std::string text = answer.at("error").is_string() ? answer.at("error").get<std::string>() : "";
  return text.substr(0, text.find(':'));
}

// Of texts only the kind: they hold names, and versions of Python word them differently.
Json comparable(const Json& value) {
  if (value.is_object()) {
    Json out = Json::object();
    for (const auto& [key, entry] : value.items()) {
      if (key == "error" || key == "bs_error" || (key.starts_with("_handle") && entry.is_string()))
        out[key] = entry.is_string() ? entry.get<std::string>().substr(0, entry.get<std::string>().find(':')) : "";
      else if (!(key == "can_run_dp_breakable_cuda_graph" && entry.is_null()))
        out[key] = comparable(entry);
    }
    return out;
  }
  if (!value.is_array()) return value;
  Json out = Json::array();
  for (const Json& entry : value) out.push_back(comparable(entry));
  return out;
}

bool equal(QuestionKind kind, const Json& outside, const Json& own) {
  if (outside.contains("error") || own.contains("error")) {
    if (!outside.contains("error") || !own.contains("error")) return false;
    // Which assertion of dispatch() fired is part of the answer.
    return kind == QuestionKind::sizing ? outside.at("error") == own.at("error")
                                        : error_kind(outside) == error_kind(own);
  }
  Json theirs = comparable(outside), ours = comparable(own);
  if (kind == QuestionKind::sync)
    // A batch that nothing was written to has empty fields, which our answer leaves out.
    for (Json* answer : {&theirs, &ours})
      for (Json& rank : answer->at("out"))
        if (rank.value("global_num_tokens", Json()).is_null() && !rank.contains("can_run_dp_cuda_graph"))
          rank = {{"returned", rank.at("returned")}, {"idle_batch_created", rank.at("idle_batch_created")}};
  return theirs == ours;
}

Json answer(const Version& version, QuestionKind kind, const Json& question) {
  return answer_question(static_cast<const Generation&>(version), kind, question);
}

}  // namespace

Json answer_question(const Generation& version, QuestionKind kind, const Json& question) {
  constexpr Json (*kAnswers[])(const Generation&, const Json&) = {startup, gather, sync,   padding,
                                                                  capture, bucket, sizing, cap};
  return kAnswers[static_cast<std::size_t>(kind)](version, question);
}

const EngineQuestions kQuestions{"sglang", "sglang_source", draw_question, answer, equal};

}  // namespace a2asim
