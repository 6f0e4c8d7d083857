// What a step asks: the sync, the padding, the bucket.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/engines/sglang/questions/asked.h"
#include "model/engines/sglang/questions/json_args.h"

namespace a2asim::asked {
namespace {

using Json = nlohmann::json;
using Sizes = std::vector<std::int64_t>;

void add(std::string& key, std::int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); }
void add(std::string& key, std::span<const std::int64_t> list) {
  add(key, std::ssize(list));
  for (const std::int64_t entry : list) add(key, entry);
}

tl::unexpected<Error> refuse(ExternalEngine& engine, QuestionKind kind, const char* why) {
  return tl::unexpected(engine.refuse(kind, why));
}

// A list of counts, each within 0..2^31-1.
std::optional<Sizes> sizes(const Json& value) {
  if (!value.is_array()) return std::nullopt;
  Sizes out;
  for (const Json& entry : value) {
    const std::optional<std::int64_t> count = count_in(entry);
    if (!count) return std::nullopt;
    out.push_back(*count);
  }
  return out;
}

std::optional<bool> flag(const Json& row, const char* field) {
  const auto found = row.find(field);
  if (found == row.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

Result<MlpSyncResult> read_rank(ExternalEngine& engine, const Json& row, const std::optional<LocalBatch>& batch,
                                std::size_t ranks, Sizes& list) {
  list.clear();
  const auto wrong = [&](const char* why) { return refuse(engine, QuestionKind::sync, why); };
  if (!row.is_object() || !row.contains("returned")) return wrong("a rank is no object with \"returned\"");
  MlpSyncResult out;
  const Json& returned = row.at("returned");
  out.has_batch = !returned.is_null();
  if (!out.has_batch) return out;
  const Result<ForwardMode> mode = parse_forward_mode(returned.is_string() ? returned.get<std::string>() : "");
  if (!mode) return wrong("\"returned\" is no forward mode");
  out.forward_mode = *mode;
  out.idle_batch_created = !batch;
  out.is_extend_in_batch = flag(row, "is_extend_in_batch");
  out.can_run_dp_cuda_graph = flag(row, "can_run_dp_cuda_graph");
  out.can_run_dp_breakable_cuda_graph = flag(row, "can_run_dp_breakable_cuda_graph");
  const auto tokens = row.find("global_num_tokens");
  if (tokens == row.end() || tokens->is_null()) return out;
  const std::optional<Sizes> read = sizes(*tokens);
  if (!read || (read->size() != 1 && read->size() != ranks))
    return wrong("\"global_num_tokens\" is no list of one count, or of one for each data-parallel rank");
  list = *read;
  out.has_gathered_batch = true;
  out.token_list = list.size() == ranks && ranks > 1 ? TokenList::global : TokenList::local;
  return out;
}

}  // namespace

Result<void> sync(ExternalEngine& engine, const MlpSyncInputs& in, std::int64_t attn_tp_size,
                  std::span<const std::optional<LocalBatch>> batches, std::span<MlpSyncResult> results,
                  std::span<Sizes> lists) {
  std::string key;
  add(key, in.require_mlp_tp_gather + 2 * in.skip_all_gather + 4 * in.disable_cuda_graph +
               8 * in.prefill_backend_is_breakable + 16 * in.dwdp);
  add(key, attn_tp_size);
  for (const std::optional<LocalBatch>& batch : batches) {
    add(key, batch ? static_cast<int>(batch->forward_mode) : -1);
    add(key, batch ? batch->batch_size : 0);
    add(key, batch ? batch->extend_num_tokens : 0);
  }
  const auto asked = engine.ask(QuestionKind::sync, key, [&] {
    Json rows = Json::array();
    for (const std::optional<LocalBatch>& batch : batches) {
      if (!batch) {
        rows.push_back(nullptr);
        continue;
      }
      // One request that wants no log probabilities: one token for them.
      const Sizes lens = batch->extend_num_tokens > 0 ? Sizes{batch->extend_num_tokens} : Sizes{};
      const Sizes starts = lens.empty() ? Sizes{} : Sizes{batch->extend_num_tokens - 1};
      rows.push_back({{"forward_mode", name(batch->forward_mode)},
                      {"batch_size", batch->batch_size},
                      {"extend_lens", lens},
                      {"extend_logprob_start_lens", starts},
                      {"return_logprob", false}});
    }
    return Json{{"dp_size", batches.size()},
                {"attn_tp_size", attn_tp_size},
                {"require_mlp_tp_gather", in.require_mlp_tp_gather},
                {"SGLANG_SCHEDULER_SKIP_ALL_GATHER", in.skip_all_gather},
                {"disable_cuda_graph", in.disable_cuda_graph},
                {"prefill_backend_breakable", in.prefill_backend_is_breakable},
                {"local_batches", rows}};
  });
  if (!asked) return tl::unexpected(asked.error());
  const Json& rows = **asked;
  if (!rows.is_array() || rows.size() != batches.size())
    return refuse(engine, QuestionKind::sync, "the answer is no list of one object for each data-parallel rank");
  for (std::size_t rank = 0; rank < batches.size(); ++rank) {
    Result<MlpSyncResult> read = read_rank(engine, rows[rank], batches[rank], batches.size(), lists[rank]);
    if (!read) return tl::unexpected(read.error());
    results[rank] = *read;
  }
  return {};
}

Result<std::int64_t> pad(ExternalEngine& engine, const DpPaddingInputs& in, std::int64_t attn_cp_size, bool zigzag,
                         std::string_view moe_a2a_backend, const PaddedRank& rank, std::span<std::int64_t> list) {
  std::string key;
  for (const std::int64_t value :
       {in.attn_tp_size, attn_cp_size, in.attn_dp_size, std::int64_t{zigzag}, std::int64_t{in.is_extend_in_batch},
        rank.dp_rank, rank.batch_size, rank.tokens_per_request, static_cast<std::int64_t>(rank.mode)})
    add(key, value);
  add(key, list);
  key += moe_a2a_backend;
  const auto asked = engine.ask(QuestionKind::padding, key, [&] {
    return Json{{"global_num_tokens_cpu", Sizes(list.begin(), list.end())},
                {"attn_tp_size", in.attn_tp_size},
                {"attn_cp_size", attn_cp_size},
                {"zigzag", zigzag},
                {"attn_dp_size", in.attn_dp_size},
                {"attn_dp_rank", rank.dp_rank},
                {"is_extend_in_batch", in.is_extend_in_batch},
                {"forward_mode", name(rank.mode)},
                {"batch_size", rank.batch_size},
                {"spec_tokens_per_req", rank.tokens_per_request > 0 ? Json(rank.tokens_per_request) : Json(nullptr)},
                {"moe_a2a_backend", moe_a2a_backend}};
  });
  if (!asked) return tl::unexpected(asked.error());
  const Json& answer = **asked;
  const std::optional<Sizes> padded =
      answer.is_object() && answer.contains("global_num_tokens") ? sizes(answer.at("global_num_tokens")) : std::nullopt;
  if (!padded || padded->size() != list.size())
    return refuse(engine, QuestionKind::padding, "\"global_num_tokens\" is no list of as many counts as were given");
  const auto own = answer.find("padded_num_tokens");
  if (own == answer.end() || !sizes(Json::array({*own})))
    return refuse(engine, QuestionKind::padding, "\"padded_num_tokens\" is no count");
  std::copy(padded->begin(), padded->end(), list.begin());
  return own->get<std::int64_t>();
}

Result<ReplayDecision> bucket(ExternalEngine& engine, const ReplayInputs& in, std::string_view speculative_algorithm) {
  std::string key;
  add(key, in.require_mlp_tp_gather + 2 * in.require_mlp_sync + 4 * in.can_run_dp_cuda_graph +
               8 * in.global_num_tokens.has_value() + 16 * in.original_global_num_tokens.has_value());
  add(key, in.batch_size);
  add(key, in.num_tokens_per_bs);
  add(key, in.capture_bs);
  if (in.global_num_tokens) add(key, *in.global_num_tokens);
  if (in.original_global_num_tokens) add(key, *in.original_global_num_tokens);
  key += speculative_algorithm;
  const auto list = [](const std::optional<std::span<const std::int64_t>>& counts) {
    return counts ? Json(Sizes(counts->begin(), counts->end())) : Json(nullptr);
  };
  const auto asked = engine.ask(QuestionKind::bucket, key, [&] {
    return Json{{"capture_bs", Sizes(in.capture_bs.begin(), in.capture_bs.end())},
                {"require_mlp_tp_gather", in.require_mlp_tp_gather},
                {"global_num_tokens_cpu", list(in.global_num_tokens)},
                {"original_global_num_tokens_cpu", list(in.original_global_num_tokens)},
                {"batch_size", in.batch_size},
                {"num_tokens_per_bs", in.num_tokens_per_bs},
                {"speculative_algorithm", speculative_algorithm.empty() ? Json(nullptr) : Json(speculative_algorithm)},
                {"require_mlp_sync", in.require_mlp_sync},
                {"can_run_dp_cuda_graph", in.can_run_dp_cuda_graph}};
  });
  if (!asked && asked.error().kind == ErrorKind::bad_input) return tl::unexpected(asked.error());
  if (!asked) {
    ReplayDecision raised;
    raised.raised = asked.error().kind;
    return raised;
  }
  const Json& answer = **asked;
  const std::optional<bool> can_run = answer.is_object() ? flag(answer, "can_run") : std::nullopt;
  if (!can_run || !answer.contains("cuda_graph_bs") || !answer.at("cuda_graph_bs").is_number_integer())
    return refuse(engine, QuestionKind::bucket, "there is no \"can_run\", or no whole number \"cuda_graph_bs\"");
  ReplayDecision out;
  out.cuda_graph_bs = answer.at("cuda_graph_bs").get<std::int64_t>();
  out.can_run = *can_run;
  if (const auto bs = answer.find("bs"); bs != answer.end()) {
    if (!bs->is_number_integer() || !std::ranges::binary_search(in.capture_bs, bs->get<std::int64_t>()))
      return refuse(engine, QuestionKind::bucket, "\"bs\" is none of the captured sizes");
    out.bs = bs->get<std::int64_t>();
  }
  return out;
}

}  // namespace a2asim::asked
