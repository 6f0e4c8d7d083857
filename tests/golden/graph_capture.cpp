#include "model/engines/sglang/rules/graph_buckets.h"
#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {

json answer_graph_capture(Fields& in, const json&) {
  // "^" is the parent of pr26643's commit.
  const auto rule = by_variant<CaptureTokenListRule>(in.get<std::string>("variant"),
                                                     {{"jan2026", capture_token_list_pr14668},
                                                      {"june02_b603f08c0c^", capture_token_list_pr14668},
                                                      {"june02_b603f08c0c", capture_token_list_pr26643},
                                                      {"june2026", capture_token_list_pr26643},
                                                      {"pr30450", capture_token_list_pr26643},
                                                      {"main2026", capture_token_list_pr26643}});
  const CaptureTokenList list =
      rule(in.get<bool>("require_mlp_tp_gather"), in.get<bool>("require_attn_tp_gather"),
           in.get<std::int64_t>("dp_size"), in.get<std::int64_t>("bs"), in.get<std::int64_t>("num_tokens_per_bs"));
  const bool has_list = list.entries > 0;
  const json tokens = has_list
                          ? json(std::vector<std::int64_t>(static_cast<std::size_t>(list.entries), list.num_tokens))
                          : json(nullptr);
  return {{"out",
           {{"num_tokens", list.num_tokens},
            {"global_dp_buffer_len", has_list ? json(list.global_dp_buffer_len_tokens()) : json(nullptr)},
            {"dp_global_at_capture", list.dispatch_sees_it ? tokens : json(nullptr)},
            {"global_num_tokens_gpu", tokens}}}};
}

}  // namespace a2asim::golden
