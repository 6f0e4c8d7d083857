#include "model/step/external_engine.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/one_line.h"

namespace a2asim {

using Json = nlohmann::json;

std::optional<std::int64_t> count_in(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (!value.is_number_unsigned() && value.get<std::int64_t>() < 0) return std::nullopt;
  if (value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max()))
    return std::nullopt;
  return value.get<std::int64_t>();
}

Error raised_error(const std::string& text) {
  constexpr std::array kKinds = {ErrorKind::assertion_error,     ErrorKind::value_error,     ErrorKind::type_error,
                                 ErrorKind::zero_division_error, ErrorKind::attribute_error, ErrorKind::index_error,
                                 ErrorKind::parse_error,         ErrorKind::runtime_error};
  const std::size_t colon = text.find(':');
  for (const ErrorKind kind : kKinds)
    if (name(kind) == std::string_view(text).substr(0, colon))
      return {kind, colon == std::string::npos ? "" : one_line(text.substr(std::min(colon + 2, text.size())), 400)};
  return {ErrorKind::runtime_error, one_line(text, 400)};
}

namespace {

Json question_of(const RankView& view) {
  const bool raises = view.require_mlp_tp_gather == GatherPredicate::raises;
  Json list;
  if (view.dp_global) list = std::vector<std::int64_t>(view.dp_global->begin(), view.dp_global->end());
  return {{"ep_size", view.ep_size},
          {"ep_rank", view.ep_rank},
          {"dp_global", list},
          {"rows", view.rows},
          {"capture", view.capture},
          {"extend", view.extend},
          {"require_mlp_tp_gather", raises ? Json() : Json(view.require_mlp_tp_gather == GatherPredicate::yes)},
          {"enable_dp_attention", view.enable_dp_attention},
          {"attn_tp_size", view.attn_tp_size},
          {"max_num_tokens", view.max_num_tokens}};
}

std::string key_of(const RankView& view) {
  const std::int64_t flags = (view.capture ? 1 : 0) + (view.extend ? 2 : 0) + (view.enable_dp_attention ? 4 : 0) +
                             8 * static_cast<int>(view.require_mlp_tp_gather) + (view.dp_global ? 32 : 0);
  const std::int64_t fixed[] = {flags, view.ep_size, view.ep_rank, view.rows, view.attn_tp_size, view.max_num_tokens};
  std::string key(reinterpret_cast<const char*>(fixed), sizeof fixed);
  if (view.dp_global)
    key.append(reinterpret_cast<const char*>(view.dp_global->data()), view.dp_global->size() * sizeof(std::int64_t));
  return key;
}

}  // namespace

Result<SizedOutside> ask_size(ExternalEngine& engine, const RankView& view) {
  const auto asked = engine.ask(QuestionKind::sizing, key_of(view), [&] { return question_of(view); });
  if (!asked) return tl::unexpected(asked.error());
  const Json& answer = **asked;
  const auto refuse = [&](std::string_view field, std::string_view expected) {
    return tl::unexpected(engine.refuse(QuestionKind::sizing, fmt::format("\"{}\" is {}", field, expected)));
  };
  if (!answer.is_object()) return refuse("out", "no object");
  SizedOutside out{{.dispatched_rows = view.rows, .branch = SizingBranch::external}, true};
  if (answer.value("path", Json()) == "allgather_prefill") {
    out.decision.branch = SizingBranch::allgather_prefill;
    return out;
  }
  const std::optional<std::int64_t> r = count_in(answer.value("runtime_max_tokens_per_rank", Json()));
  if (!r) return refuse("runtime_max_tokens_per_rank", "no whole number within 0..2147483647");
  out.decision.runtime_max_tokens_per_rank = *r;
  out.is_complete = answer.contains("dispatched_rows");
  if (!out.is_complete) return out;
  const std::optional<std::int64_t> rows = count_in(answer.at("dispatched_rows"));
  const Json dummy = answer.value("has_dummy_token", Json(false));
  if (!rows || !dummy.is_boolean()) return refuse("dispatched_rows", "no count, or \"has_dummy_token\" no flag");
  out.decision.dispatched_rows = *rows;
  out.decision.has_dummy_token = dummy.get<bool>();
  return out;
}

Result<SizingDecision> ExternalRule::operator()(const RankView& view) const {
  return ask_size(*engine, view).map([](const SizedOutside& sized) { return sized.decision; });
}

}  // namespace a2asim
