#include "model/engines/sglang/questions/asked.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/engines/sglang/questions/json_args.h"

namespace a2asim::asked {
namespace {

using Json = nlohmann::json;
using Sizes = std::vector<std::int64_t>;

// All that a question holds, as bytes.
class Key {
 public:
  Key& add(std::int64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Key& add(std::string_view text) {
    add(std::ssize(text));
    bytes_ += text;
    return *this;
  }
  Key& add(std::span<const std::int64_t> list) {
    add(std::ssize(list));
    for (const std::int64_t entry : list) add(entry);
    return *this;
  }
  Key& add(const std::optional<std::int64_t>& value) { return add(value ? 1 : 0).add(value.value_or(0)); }
  std::string_view view() const { return bytes_; }

 private:
  std::string bytes_;
};

Json or_null(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(nullptr); }

// Reads an answer; what is wrong with it ends the run.
class Reader {
 public:
  Reader(ExternalEngine& engine, QuestionKind kind, const Json& answer)
      : engine_(engine), kind_(kind), answer_(answer) {}

  Result<std::int64_t> count(const char* field) { return count_of(at(field), field); }
  Result<Sizes> sizes(const Json* value, const char* what) {
    Sizes out;
    if (value == nullptr || !value->is_array()) return wrong(what, "a list of whole numbers");
    for (const Json& entry : *value) {
      const Result<std::int64_t> number = count_of(&entry, what);
      if (!number) return tl::unexpected(number.error());
      out.push_back(*number);
    }
    return out;
  }
  const Json* at(const char* field) const {
    if (!answer_.is_object()) return nullptr;
    const auto found = answer_.find(field);
    return found == answer_.end() ? nullptr : &*found;
  }
  Result<bool> flag(const char* field) {
    const Json* value = at(field);
    if (value == nullptr || !value->is_boolean()) return wrong(field, "true or false");
    return value->get<bool>();
  }
  tl::unexpected<Error> wrong(const char* field, std::string_view expected) {
    return tl::unexpected(engine_.refuse(kind_, fmt::format("\"{}\" is not {}", field, expected)));
  }

 private:
  Result<std::int64_t> count_of(const Json* value, const char* what) {
    const std::optional<std::int64_t> count = value != nullptr ? count_in(*value) : std::nullopt;
    if (!count) return wrong(what, "a whole number within 0..2147483647");
    return *count;
  }

  ExternalEngine& engine_;
  QuestionKind kind_;
  const Json& answer_;
};

}  // namespace

Result<StartOutcome> start(ExternalEngine& engine, const ServerArgs& args, const Environment& env, StartOutcome ours) {
  Json set = json_of(args), variables = Json::object();
  for (const auto& [name, value] : env.values()) variables[name] = value;
  const Json question = {{"argv", {"--model-path", "M"}}, {"set", set}, {"env", variables}};
  const auto asked = engine.ask(QuestionKind::startup, question.dump(), [&] { return question; });
  if (!asked) return tl::unexpected(asked.error());
  Reader answer(engine, QuestionKind::startup, **asked);
  const Json* changed = answer.at("changed");
  if (changed == nullptr || !changed->is_object()) return answer.wrong("changed", "an object");
  // A handler of ours that the code outside has its own of does not count.
  if (ours.error && (ours.error->handler == "_handle_data_parallelism" || ours.error->handler == "_handle_a2a_moe"))
    ours.error.reset();
  if (ours.error) return ours;
  for (const auto& [name, value] : set.items()) set_field(ours.args, name, value);
  for (const auto& [name, value] : changed->items())
    if (!set_field(ours.args, name, value)) return answer.wrong("changed", "made of fields that are known here");
  if (const Json* left = answer.at("env"); left != nullptr && left->is_object())
    for (const auto& [name, value] : left->items())
      if (value.is_string()) ours.env.set(name, value.get<std::string>());
  const Json* raised = answer.at("handler_error");
  if (raised == nullptr || !raised->is_object() || raised->empty()) return ours;
  const bool first = raised->contains("_handle_data_parallelism");
  ours.error = HandlerError{first ? "_handle_data_parallelism" : "_handle_a2a_moe",
                            raised_error(raised->begin()->is_string() ? raised->begin()->get<std::string>() : "")};
  return ours;
}

Result<Predicates> gather(ExternalEngine& engine, const GatherInputs& in) {
  Key key;
  key.add(in.enable_dp_attention).add(in.dp_size).add(in.tp_size).add(in.moe_dense_tp_size).add(in.enable_dp_lm_head);
  key.add(in.moe_a2a_backend).add(in.disable_attn_tp_gather).add(in.mori_recv_bound);
  const auto asked = engine.ask(QuestionKind::gather, key.view(), [&] {
    return Json{{"enable_dp_attention", in.enable_dp_attention},
                {"dp_size", in.dp_size},
                {"tp_size", in.tp_size},
                {"moe_dense_tp_size", or_null(in.moe_dense_tp_size)},
                {"enable_dp_lm_head", in.enable_dp_lm_head},
                {"moe_a2a_backend", in.moe_a2a_backend},
                {"disable_attn_tp_gather", in.disable_attn_tp_gather},
                {"SGLANG_MORI_RECV_BOUND", in.mori_recv_bound}};
  });
  if (!asked) return tl::unexpected(asked.error());
  Reader answer(engine, QuestionKind::gather, **asked);
  const auto predicate = [&](const char* field) -> Result<Result<bool>> {
    const Json* value = answer.at(field);
    if (value != nullptr && value->is_object() && value->contains("error") && value->at("error").is_string())
      return Result<bool>(tl::unexpected(raised_error(value->at("error").get<std::string>())));
    return answer.flag(field).map([](bool holds) { return Result<bool>(holds); });
  };
  auto mlp = predicate("require_mlp_tp_gather");
  if (!mlp) return tl::unexpected(mlp.error());
  auto attn = predicate("require_attn_tp_gather");
  if (!attn) return tl::unexpected(attn.error());
  return Predicates{*mlp, *attn};
}

Result<Sizes> decode_sizes(ExternalEngine& engine, std::int64_t max_bs, bool speculative,
                           bool disable_cuda_graph_padding) {
  const auto asked = engine.ask(QuestionKind::capture,
                                Key().add(1).add(max_bs).add(speculative).add(disable_cuda_graph_padding).view(), [&] {
                                  return Json{{"fn", "decode_sizes"},
                                              {"max_bs", max_bs},
                                              {"speculative_algorithm", speculative ? Json("EAGLE") : Json(nullptr)},
                                              {"disable_cuda_graph_padding", disable_cuda_graph_padding}};
                                });
  if (!asked) return tl::unexpected(asked.error());
  return Reader(engine, QuestionKind::capture, **asked).sizes(*asked, "decode_sizes");
}

Result<Sizes> batch_sizes(ExternalEngine& engine, const CaptureFilter& in) {
  Key key;
  key.add(2).add(in.decode_bs).add(in.req_to_token_pool_size).add(in.num_tokens_per_bs).add(in.require_gathered_buffer);
  key.add(in.attn_tp_size).add(in.attn_cp_size).add(in.enable_two_batch_overlap);
  const auto asked = engine.ask(QuestionKind::capture, key.view(), [&] {
    return Json{{"fn", "batch_sizes"},
                {"decode_bs", Sizes(in.decode_bs.begin(), in.decode_bs.end())},
                {"req_to_token_pool_size", in.req_to_token_pool_size},
                {"num_tokens_per_bs", in.num_tokens_per_bs},
                {"require_gathered_buffer", in.require_gathered_buffer},
                {"attn_tp_size", in.attn_tp_size},
                {"attn_cp_size", in.attn_cp_size},
                {"enable_two_batch_overlap", in.enable_two_batch_overlap}};
  });
  if (!asked) return tl::unexpected(asked.error());
  return Reader(engine, QuestionKind::capture, **asked).sizes(*asked, "batch_sizes");
}

Result<CaptureTokenList> token_list(ExternalEngine& engine, bool require_mlp_tp_gather, bool require_attn_tp_gather,
                                    std::int64_t dp_size, std::int64_t bs, std::int64_t num_tokens_per_bs) {
  Key key;
  key.add(3).add(require_mlp_tp_gather).add(require_attn_tp_gather).add(dp_size).add(bs).add(num_tokens_per_bs);
  const auto asked = engine.ask(QuestionKind::capture, key.view(), [&] {
    return Json{{"fn", "token_list"},
                {"require_mlp_tp_gather", require_mlp_tp_gather},
                {"require_attn_tp_gather", require_attn_tp_gather},
                {"dp_size", dp_size},
                {"bs", bs},
                {"num_tokens_per_bs", num_tokens_per_bs}};
  });
  if (!asked) return tl::unexpected(asked.error());
  Reader answer(engine, QuestionKind::capture, **asked);
  const Result<std::int64_t> tokens = answer.count("num_tokens");
  if (!tokens) return tl::unexpected(tokens.error());
  CaptureTokenList out{.num_tokens = *tokens};
  const Json* list = answer.at("dp_global_at_capture");
  if (list == nullptr || list->is_null()) return out;
  const Result<Sizes> entries = answer.sizes(list, "dp_global_at_capture");
  if (!entries) return tl::unexpected(entries.error());
  for (const std::int64_t entry : *entries)
    if (entry != *tokens) return answer.wrong("dp_global_at_capture", "num_tokens in every entry");
  out.entries = std::ssize(*entries);
  out.dispatch_sees_it = true;
  return out;
}

Result<Cap> cap(ExternalEngine& engine, const CapacityInputs& in) {
  const Json question = {
      {"env", in.env ? Json(*in.env) : Json(nullptr)},
      {"chunked_prefill_size", or_null(in.chunked_prefill_size)},
      {"ep_size", in.ep_size},
      {"hidden_size", in.hidden_size},
      {"router_topk", in.top_k},
      {"speculative_algorithm", in.speculative_algorithm ? Json(*in.speculative_algorithm) : Json(nullptr)},
      {"SGLANG_MOE_NVFP4_DISPATCH", in.moe_nvfp4_dispatch}};
  const auto asked = engine.ask(QuestionKind::cap, question.dump(), [&] { return question; });
  if (!asked) return tl::unexpected(asked.error());
  Reader answer(engine, QuestionKind::cap, **asked);
  Cap out;
  // A cap may be anything that the variable says.
  const Json* tokens = answer.at("max_num_tokens");
  if (tokens == nullptr || !tokens->is_number_integer()) return answer.wrong("max_num_tokens", "a whole number");
  out.max_num_tokens = tokens->get<std::int64_t>();
  for (const auto& [field, to] : {std::pair{"total_dispatch_payload_size_per_token", &out.dispatch_bytes_per_token},
                                  std::pair{"combine_payload_size_per_token", &out.combine_bytes_per_token}}) {
    const Result<std::int64_t> bytes = answer.count(field);
    if (!bytes) return tl::unexpected(bytes.error());
    *to = *bytes;
  }
  return out;
}

}  // namespace a2asim::asked
