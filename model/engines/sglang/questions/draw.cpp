// Drawn questions: small numbers often, edges always among them, and combinations that no launch reaches.
#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "model/engines/sglang/questions/questions.h"

namespace a2asim {
namespace {

using Json = nlohmann::json;
using Sizes = std::vector<std::int64_t>;

class Draw {
 public:
  Draw(Random& random, std::int64_t size) : random_(random), size_(size) {}

  bool flag(std::uint32_t one_in = 2) { return random_.chance(1, one_in); }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[random_.below(static_cast<std::uint32_t>(values.size()))];
  }
  Json json_of(std::initializer_list<Json> values) {
    return values.begin()[random_.below(static_cast<std::uint32_t>(values.size()))];
  }
  std::int64_t between(std::int64_t low, std::int64_t high) { return random_.between(low, high); }
  // Small, or an edge, or large.
  std::int64_t count() {
    if (flag(6)) return 0;
    if (flag()) return between(1, 4);
    return flag() ? between(1, size_) : of<std::int64_t>({8, 16, 64, 128, 256}) + between(-1, 1);
  }
  std::int64_t power(int most) { return std::int64_t{1} << between(0, most); }
  Sizes counts(std::int64_t entries) {
    Sizes list;
    const std::int64_t same = count();
    const bool equal = flag(4);
    for (std::int64_t at = 0; at < entries; ++at) list.push_back(equal ? same : count());
    return list;
  }

 private:
  Random& random_;
  std::int64_t size_;
};

constexpr const char* kModes[] = {"EXTEND", "DECODE", "MIXED", "IDLE", "TARGET_VERIFY"};

Json startup(Draw& draw) {
  Json argv = {"--model-path", "m"};
  const auto add = [&](std::string flag, const Json& value) {
    if (draw.flag(8)) return argv.push_back(flag + "=" + value.get<std::string>());
    argv.push_back(flag);
    argv.push_back(value);
  };
  const auto maybe = [&](std::initializer_list<Json> flags, std::initializer_list<Json> values, std::uint32_t one_in) {
    if (draw.flag(one_in)) add(draw.json_of(flags).get<std::string>(), draw.json_of(values));
  };
  const std::string tp = std::to_string(draw.power(4));
  if (!draw.flag(8)) add(draw.of<std::string>({"--tp-size", "--tensor-parallel-size", "--tp"}), tp);
  if (!draw.flag(4))
    add(draw.of<std::string>({"--dp-size", "--data-parallel-size", "--dp"}),
        draw.flag(3) ? std::to_string(draw.power(4)) : tp);
  if (!draw.flag(4)) argv.push_back("--enable-dp-attention");
  if (draw.flag()) argv.push_back("--enable-dp-lm-head");
  maybe({"--moe-dense-tp-size"}, {"1", "2"}, 2);
  if (!draw.flag(6))
    add("--moe-a2a-backend",
        draw.flag() ? Json("flashinfer") : draw.json_of({"none", "deepep", "mooncake", "ascend_fuseep", "x"}));
  maybe({"--moe-runner-backend"}, {"flashinfer_cutlass", "auto", "flashinfer_trtllm", "deep_gemm"}, 2);
  if (!draw.flag(8)) add("--chunked-prefill-size", draw.json_of({"8192", "4096", "1000", "512", "-1", "16384", "0"}));
  maybe({"--ep-size", "--expert-parallel-size", "--ep"}, {"1", "2", tp}, 4);
  maybe({"--deepep-mode"}, {"normal", "low_latency", "auto"}, 6);
  maybe({"--max-running-requests"}, {"16", "2048"}, 4);
  maybe({"--quantization"}, {"modelopt_fp4", "fp8"}, 4);
  maybe({"--cuda-graph-max-bs"}, {"8", "256"}, 4);
  maybe({"--max-prefill-tokens"}, {"16384", "1024"}, 6);
  maybe({"--speculative-num-steps"}, {"2"}, 8);
  maybe({"--disaggregation-mode"}, {"decode", "prefill"}, 8);
  maybe({"--load-balance-method"}, {"round_robin", "auto"}, 12);
  maybe({"--no-such-option"}, {"1"}, 40);
  return {{"argv", argv}};
}

Json gather(Draw& draw) {
  return {{"enable_dp_attention", !draw.flag(4)},
          {"dp_size", draw.power(4)},
          {"tp_size", draw.power(5)},
          {"moe_dense_tp_size", draw.json_of({nullptr, 1, 1, 2, 4, 8})},
          {"enable_dp_lm_head", draw.flag()},
          {"moe_a2a_backend", draw.json_of({"none", "flashinfer", "flashinfer", "deepep", "mooncake", "mori"})},
          {"disable_attn_tp_gather", draw.flag(4)},
          {"SGLANG_MORI_RECV_BOUND", draw.flag(3)}};
}

Json local_batch(Draw& draw) {
  if (draw.flag(4)) return nullptr;
  const auto mode = draw.of<const char*>({"DECODE", "DECODE", "EXTEND", "MIXED", "PREBUILT", "IDLE"});
  const std::string_view name = mode;
  const bool extends = name == "EXTEND" || name == "MIXED";
  const bool logprob = draw.flag(3);
  Sizes lens, starts;
  const std::int64_t requests = name == "IDLE" ? 0 : draw.between(1, 4);
  for (std::int64_t at = 0; extends && at < requests; ++at) {
    lens.push_back(draw.between(1, 64));
    starts.push_back(logprob ? draw.between(0, lens.back()) : lens.back() - draw.between(0, 1));
  }
  return {{"forward_mode", mode},
          {"batch_size", requests},
          {"extend_lens", lens},
          {"extend_logprob_start_lens", starts},
          {"return_logprob", logprob}};
}

Json sync(Draw& draw) {
  const std::int64_t ranks = draw.power(3);
  Json batches = Json::array();
  const bool one_mode = draw.flag(3);
  const Json first = local_batch(draw);
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    batches.push_back(one_mode && draw.flag() ? first : local_batch(draw));
  return {{"dp_size", ranks},
          {"attn_tp_size", draw.power(1)},
          {"require_mlp_tp_gather", draw.flag()},
          {"SGLANG_SCHEDULER_SKIP_ALL_GATHER", draw.flag(6)},
          {"disable_cuda_graph", draw.flag(4)},
          {"prefill_backend_breakable", draw.flag(3)},
          {"local_batches", batches}};
}

Json padding(Draw& draw) {
  const std::int64_t ranks = draw.power(3);
  const bool collapsed = draw.flag(4);
  const Sizes counts = draw.counts(collapsed ? 1 : ranks);
  const std::int64_t rank = draw.between(0, ranks - 1);
  const std::int64_t own = counts[collapsed ? 0 : static_cast<std::size_t>(rank)];
  const auto mode = own == 0 ? "IDLE" : kModes[draw.between(0, 4)];
  return {{"global_num_tokens_cpu", counts},
          {"attn_tp_size", draw.power(2)},
          {"attn_cp_size", draw.flag(3) ? 2 : 1},
          {"zigzag", draw.flag()},
          {"attn_dp_size", ranks},
          {"attn_dp_rank", rank},
          {"is_extend_in_batch", draw.flag(3)},
          {"forward_mode", mode},
          {"batch_size", std::string_view(mode) == "IDLE" ? 0 : std::max<std::int64_t>(own, 1)},
          {"spec_tokens_per_req", draw.json_of({nullptr, nullptr, 2, 4})},
          {"moe_a2a_backend", draw.json_of({"flashinfer", "flashinfer", "none", "pplx"})}};
}

Json capture(Draw& draw) {
  switch (draw.between(0, 3)) {
    case 0:
      return {{"fn", "decode_sizes"},
              {"max_bs", std::max<std::int64_t>(draw.count(), 1) * draw.power(2)},
              {"speculative_algorithm", draw.json_of({nullptr, "EAGLE"})},
              {"disable_cuda_graph_padding", draw.flag(4)}};
    case 1:
      return {{"fn", "prefill_sizes"}, {"max_bs", std::max<std::int64_t>(draw.count(), 1) * draw.power(6)}};
    case 2: {
      Sizes decode_bs = draw.counts(draw.between(1, 8));
      for (std::int64_t& bs : decode_bs) bs = std::max<std::int64_t>(bs, 1);
      std::ranges::sort(decode_bs);
      return {{"fn", "batch_sizes"},
              {"decode_bs", decode_bs},
              {"req_to_token_pool_size", std::max<std::int64_t>(draw.count(), 1)},
              {"num_tokens_per_bs", draw.power(2)},
              {"require_gathered_buffer", draw.flag()},
              {"attn_tp_size", draw.power(3)},
              {"attn_cp_size", 1},
              {"enable_two_batch_overlap", draw.flag(4)}};
    }
    default:
      return {{"fn", "token_list"},
              {"require_mlp_tp_gather", draw.flag()},
              {"require_attn_tp_gather", draw.flag()},
              {"dp_size", draw.power(3)},
              {"bs", draw.power(5)},
              {"num_tokens_per_bs", draw.power(2)}};
  }
}

Json bucket(Draw& draw) {
  Sizes capture_bs = draw.counts(draw.between(1, 8));
  for (std::int64_t& bs : capture_bs) bs = std::max<std::int64_t>(bs, 1);
  std::ranges::sort(capture_bs);
  capture_bs.erase(std::unique(capture_bs.begin(), capture_bs.end()), capture_bs.end());
  const std::int64_t width = draw.power(2);
  const Sizes requests = draw.counts(draw.power(3));
  Sizes tokens = requests;
  const bool multiplied = !draw.flag(4);
  for (std::int64_t& count : tokens) count = multiplied ? count * width : count;
  const bool none = draw.flag(12);
  return {
      {"capture_bs", capture_bs},
      {"require_mlp_tp_gather", draw.flag()},
      {"global_num_tokens_cpu", none ? Json(nullptr) : Json(tokens)},
      {"original_global_num_tokens_cpu", Json(requests)},
      {"batch_size", requests.front()},
      {"num_tokens_per_bs", width},
      {"speculative_algorithm", width == 1 ? Json(nullptr) : draw.json_of({"EAGLE", "EAGLE3", "NGRAM", "STANDALONE"})},
      {"require_mlp_sync", !draw.flag(3)},
      {"can_run_dp_cuda_graph", !draw.flag(3)}};
}

Json sizing(Draw& draw) {
  const std::int64_t ranks = draw.power(4);
  Json list = nullptr;
  std::int64_t rows = draw.count();
  if (!draw.flag(5)) {
    const Sizes counts = draw.counts(draw.flag(4) ? draw.between(0, 1) : ranks);
    list = counts;
    if (!counts.empty() && !draw.flag(4))
      rows = counts[static_cast<std::size_t>(draw.between(0, std::ssize(counts) - 1))];
  }
  return {
      {"ep_size", ranks},
      {"ep_rank", draw.between(0, ranks - 1)},
      {"dp_global", list},
      {"rows", rows},
      {"capture", draw.flag(3)},
      {"extend", draw.flag(3)},
      {"require_mlp_tp_gather", draw.json_of({true, false, false, true, nullptr})},
      {"enable_dp_attention", draw.flag()},
      {"attn_tp_size", draw.power(2)},
      {"max_num_tokens", draw.flag(4) ? draw.between(1, 16) : 4096},
      {"moe_runner_backend", draw.json_of({"flashinfer_cutlass", "flashinfer_cutedsl", "flashinfer_trtllm_routed"})}};
}

Json cap(Draw& draw) {
  return {{"env", draw.json_of({nullptr, nullptr, "1024", "128", "0", "-1", "abc", "", " 512 ", "8192"})},
          {"chunked_prefill_size", draw.json_of({nullptr, 0, -1, 512, 2048, 4096, 8192, 16384, 32768})},
          {"ep_size", draw.power(5)},
          {"hidden_size", draw.json_of({4096, 7168, 5120, 2048})},
          {"router_topk", draw.json_of({1, 2, 6, 8})},
          {"speculative_algorithm", draw.json_of({nullptr, nullptr, "EAGLE", "EAGLE3", "NGRAM", "STANDALONE"})},
          {"SGLANG_MOE_NVFP4_DISPATCH", draw.flag()}};
}

}  // namespace

Json draw_question(QuestionKind kind, Random& random, std::int64_t size) {
  constexpr Json (*kDraws[])(Draw&) = {startup, gather, sync, padding, capture, bucket, sizing, cap};
  Draw draw(random, size);
  return kDraws[static_cast<std::size_t>(kind)](draw);
}

}  // namespace a2asim
