// What check says of a launch of TensorRT-LLM beside its verdict: numbers by hand.
#include <algorithm>

#include "tests/trtllm/trtllm_launch.h"

namespace a2asim {
namespace {

CheckReport report_of(const std::string& config, const std::string& command_rest = "") {
  return check_deployment(
      *test::deploy({.command = "trtllm-serve M --tp_size 8 --ep_size 8 --extra_llm_api_options c.yaml" + command_rest,
                     .config = "{enable_attention_dp: true, " + config + "}"}));
}

}  // namespace

TEST_CASE("trtllm remarks: chunks of a step are all ranks' tokens over those of a chunk, rounded up") {
  CHECK(test::mentions(report_of("max_num_tokens: 1024, moe_config: {max_num_tokens: 2048}"),
                       "moe_config.max_num_tokens 2048: up to 4 chunks a step (8 ranks x 1024 tokens)"));
  CHECK(test::mentions(report_of("max_num_tokens: 1024, moe_config: {max_num_tokens: 8191}"),
                       "moe_config.max_num_tokens 8191: up to 2 chunks a step (8 ranks x 1024 tokens)"));
  CHECK_FALSE(test::mentions(report_of("max_num_tokens: 1024, moe_config: {max_num_tokens: 8192}"), "chunks a step"));
}

TEST_CASE("trtllm remarks: requests that never decode together are counted with their draft tokens") {
  const std::string drafts = "speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 3}, ";
  const CheckReport drafted = report_of(drafts + "max_batch_size: 600, max_num_tokens: 1024");
  CHECK(test::mentions(drafted,
                       "max_batch_size 600 is more than max_num_tokens 1024 / 4 tokens: 344 slots can never decode"));
  CHECK_FALSE(test::mentions(report_of("max_batch_size: 600, max_num_tokens: 1024"), "never decode together"));
  CHECK_FALSE(test::mentions(report_of(drafts + "max_batch_size: 256, max_num_tokens: 1024"), "never decode together"));
  CHECK(test::mentions(report_of(drafts + "max_batch_size: 257, max_num_tokens: 1024"), ": 1 slots can never decode"));
  const CheckReport graphs = report_of(drafts + "cuda_graph_config: {batch_sizes: [1, 2, 4]}");
  CHECK(test::mentions(graphs, "decode graphs of 1, 2, 4 requests, 4 tokens each"));
  CHECK(test::mentions(report_of("cuda_graph_config: {batch_sizes: [1, 2, 4]}"),
                       "decode graphs of 1, 2, 4 requests, 1 token each"));
}

TEST_CASE("trtllm remarks: a variable is said to be read, or to have no effect") {
  test::TrtllmLaunch launch{.command = "trtllm-serve M --tp_size 8 --ep_size 8 --extra_llm_api_options c.yaml",
                            .config = "{enable_attention_dp: true}",
                            .env_name = "TRTLLM_MOE_POST_QUANT_ALLTOALLV",
                            .env_value = "1"};
  CHECK(test::mentions(check_deployment(*test::deploy(launch)),
                       "TRTLLM_MOE_POST_QUANT_ALLTOALLV=1 is read: it "
                       "quantises before the dispatch"));
}

}  // namespace a2asim
