#include "model/engines/trtllm/arguments.h"

#include <doctest/doctest.h>

#include "model/engines/trtllm/rank_environment.h"

namespace a2asim::trtllm {
namespace {

Arguments read(std::vector<std::string> words, bool is_server = true) {
  FrontEnd front_end;
  front_end.is_server = is_server;
  const auto read = read_arguments(&front_end, words);
  REQUIRE(read.has_value());
  return *read;
}

}  // namespace

TEST_CASE("trtllm: options have one name, and what stands behind wins") {
  const Arguments args =
      read({"serve", "org/M", "--tp_size", "8", "--ep_size=4", "--enable_attention_dp", "--port", "80",
            "--moe_config.backend=TRTLLM", "--cuda_graph_config=null", "--tensor_parallel_size=16"});
  CHECK(args.model == "org/M");
  CHECK(args.number("tensor_parallel_size", 1).value() == 16);
  CHECK(args.number("moe_expert_parallel_size", 1).value() == 4);
  CHECK(args.flag("enable_attention_dp"));
  CHECK(args.text("moe_config.backend") == "TRTLLM");
  CHECK(args.is_null("cuda_graph_config"));
  CHECK(args.notes.empty());
}

TEST_CASE("trtllm: older names of the YAML file, lists, and Dynamo's overrides") {
  const Arguments args =
      read({"--pytorch_backend_config.cuda_graph_batch_sizes=[1,2,4]",
            "--speculative_config.num_nextn_predict_layers=3", "--moe_max_num_tokens=64", "--override-engine-args",
            R"({"moe_config": {"backend": "WIDEEP"}, "tensor_parallel_size": 2})"},
           false);
  CHECK(args.numbers("cuda_graph_config.batch_sizes").value() == std::vector<std::int64_t>{1, 2, 4});
  CHECK(args.number("speculative_config.max_draft_len", 0).value() == 3);
  CHECK(args.number("moe_config.max_num_tokens", 0).value() == 64);
  CHECK(args.text("moe_config.backend") == "WIDEEP");
  CHECK(args.number("tensor_parallel_size", 1).value() == 2);
}

TEST_CASE("trtllm: what is not known is said, and what is no number is refused") {
  CHECK(read({"M", "--no_such_option", "3"}).notes.size() == 1);
  const Arguments args =
      read({"M", "--tp_size", "eight", "--max_num_tokens", "0", "--cuda_graph_config.batch_sizes=[1,x]"});
  CHECK_FALSE(args.number("tensor_parallel_size", 1).has_value());
  CHECK_FALSE(args.number("max_num_tokens", 1).has_value());
  CHECK_FALSE(args.numbers("cuda_graph_config.batch_sizes").has_value());
  const std::vector<std::string> no_value = {"M", "--tp_size"};
  CHECK_FALSE(read_arguments(nullptr, no_value).has_value());
}

TEST_CASE("trtllm: a variable of some ranks only") {
  Environment env;
  env.set("A", "2048 on rank 0 only");
  env.set("B", "1 on ranks 2..3,5 only");
  env.set("C", "all");
  CHECK(environment_of(env, 0)->get("A") == "2048");
  CHECK_FALSE(environment_of(env, 1)->is_set("A"));
  CHECK(environment_of(env, 3)->get("B") == "1");
  CHECK(environment_of(env, 5)->get("B") == "1");
  CHECK_FALSE(environment_of(env, 4)->is_set("B"));
  CHECK(environment_of(env, 4)->get("C") == "all");
  env.set("D", "1 on rank x only");
  CHECK_FALSE(environment_of(env, 0).has_value());
}

}  // namespace a2asim::trtllm
