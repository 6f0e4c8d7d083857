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

TEST_CASE("trtllm: a list has up to 4096 whole numbers") {
  const auto list_of = [](std::size_t count) {
    std::string list = "[1";
    for (std::size_t i = 1; i < count; ++i) list += ",1";
    return read({"--cuda_graph_config.batch_sizes=" + list + "]"}).numbers("cuda_graph_config.batch_sizes");
  };
  CHECK(list_of(4096).value().size() == 4096);
  CHECK_FALSE(list_of(4097).has_value());
  CHECK(read({}).numbers("cuda_graph_config.batch_sizes").value().empty());
  CHECK(read({"--a.b=[]"}).numbers("a.b").value().empty());
  CHECK(read({"--a.b=null"}).numbers("a.b").value().empty());
  for (const std::string value : {"8", "[1.5]", "[1,\"2\"]", "{}", "[1"}) {
    CAPTURE(value);
    const auto refused = read({"--a.b=" + value}).numbers("a.b");
    REQUIRE_FALSE(refused.has_value());
    // A map that holds nothing is written as it was read.
    CHECK(refused.error().message == "a.b " + value + ": give a list of whole numbers");
  }
}

TEST_CASE("trtllm: a number is whole and within its limits, both ends included") {
  const auto number = [](const std::string& value) {
    const auto got = read({"--max_batch_size=" + value}).number("max_batch_size", 5, 2, 9);
    return got ? std::to_string(*got) : got.error().message;
  };
  CHECK(number("2") == "2");
  CHECK(number("9") == "9");
  CHECK(number("null") == "5");
  for (const std::string value : {"1", "10", "-2", "2.0", "two", "", "99999999999999999999"})
    CHECK(number(value) == "max_batch_size " + value + ": give a whole number from 2 to 9");
  const Arguments args = read({"--a=0", "--b=1073741824", "--c=1073741825"});
  CHECK_FALSE(args.number("a", 1).has_value());
  CHECK(args.number("b", 1).value() == 1 << 30);
  CHECK_FALSE(args.number("c", 1).has_value());
  CHECK(args.number("d", 7).value() == 7);
}

TEST_CASE("trtllm: what means true, what means nothing, and which words are decimal numbers") {
  for (const std::string value : {"true", "True", "1", "yes", "on"}) CHECK(read({"--a=" + value}).flag("a"));
  for (const std::string value : {"false", "False", "0", "no", "off", "2", "TRUE"}) {
    CHECK_FALSE(read({"--a=" + value}).flag("a", true));
  }
  for (const std::string value : {"null", "None", "~"}) {
    const Arguments args = read({"--a=" + value});
    CHECK(args.is_given("a"));
    CHECK(args.is_null("a"));
    CHECK_FALSE(args.text("a").has_value());
    CHECK(args.flag("a", true));
    CHECK_FALSE(args.flag("a"));
  }
  const Arguments args = read({"--a=0.5", "--b=0.5x", "--c=x", "--d=3", "--e=null"});
  CHECK_FALSE(args.is_null("a"));
  CHECK_FALSE(args.is_null("z"));
  CHECK_FALSE(args.is_given("z"));
  CHECK(args.real("a") == 0.5);
  CHECK(args.real("d") == 3.0);
  for (const std::string_view name : {"b", "c", "e", "z"}) CHECK_FALSE(args.real(name).has_value());
}

TEST_CASE("trtllm: which words of a command are values, the model, or unknown") {
  const Arguments flags = read({"--enable_attention_dp", "false", "--use-cuda-graph", "None", "--grpc", "org/M",
                                "other", "--enable_chunked_prefill", "--tp-size", "4"});
  CHECK_FALSE(flags.flag("enable_attention_dp", true));
  CHECK(flags.is_null("use_cuda_graph"));
  CHECK(flags.flag("grpc"));
  CHECK(flags.model == "org/M");
  CHECK(flags.flag("enable_chunked_prefill"));
  CHECK(flags.text("tensor_parallel_size") == "4");
  CHECK(read({"-tp", "2", "-ep", "4", "-pp", "3", "-x", "M"}).text("moe_expert_parallel_size") == "4");
  CHECK(read({"-tp", "2", "-pp", "3"}).text("pipeline_parallel_size") == "3");
  CHECK(read({"throughput", "M"}).model == "M");
  CHECK(read({"M", "serve"}).model == "M");
  CHECK(read({"M", "--model_path", "N"}).model == "N");

  const Arguments unknown = read({"M", "--no-such", "3", "--moe_config.any=1", "--none.such=2"});
  REQUIRE(unknown.notes.size() == 1);
  CHECK(unknown.notes[0].message == "not known here, and taken to have no part in this: no_such none.such");
  CHECK(read({"M", "--no_such", "3"}, false).notes.empty());

  const Arguments map = read({R"(--moe_config={"backend": "CUTLASS", "load_balancer": {}, "max_num_tokens": 64})"});
  CHECK(map.text("moe_config.backend") == "CUTLASS");
  CHECK(map.text("moe_config.load_balancer") == "{}");
  CHECK(map.text("moe_config.max_num_tokens") == "64");
  CHECK(read({"--moe_config={x"}).text("moe_config") == "{x");

  const auto refusal = [](const std::vector<std::string>& words) {
    const auto refused = read_arguments(nullptr, words);
    return refused ? "" : refused.error().message;
  };
  CHECK(refusal({"M", "--tp_size"}) == "option --tp_size needs a value");
  CHECK(refusal({"M", "--max_batch_size", "--port", "1"}) == "option --max_batch_size needs a value");
  CHECK(refusal({"M", "--override-engine-args", "[1]"}) == "option --override-engine-args needs a JSON object");
  CHECK(refusal({"M", "--extra_llm_args"}) == "option --extra_llm_args needs a JSON object");
  CHECK(refusal({"M", "--override-engine-args", "{}"}).empty());
}

TEST_CASE("trtllm: every spelling of an option is known, with the short ones and those with dashes") {
  using Spellings = std::vector<std::string>;
  CHECK(spellings_of("--tp_size") ==
        Spellings{"--tensor_parallel_size", "--tensor-parallel-size", "--tp", "--tp", "-tp", "--tp_size", "--tp-size"});
  CHECK(spellings_of("moe_config.max_num_tokens") ==
        Spellings{"--moe_config.max_num_tokens", "--moe-config.max_num_tokens", "--moe_max_num_tokens",
                  "--moe-max-num-tokens", "--pytorch_backend_config.moe_max_num_tokens",
                  "--pytorch-backend-config.moe_max_num_tokens"});
  CHECK(spellings_of("port") == Spellings{"--port", "--port"});
  // Every older name means one of today's.
  const std::pair<std::string, std::string> names[] = {
      {"tp", "tensor_parallel_size"},
      {"pp", "pipeline_parallel_size"},
      {"pp_size", "pipeline_parallel_size"},
      {"cp_size", "context_parallel_size"},
      {"ep", "moe_expert_parallel_size"},
      {"expert_parallel_size", "moe_expert_parallel_size"},
      {"cluster_size", "moe_cluster_parallel_size"},
      {"kv_cache_free_gpu_memory_fraction", "kv_cache_config.free_gpu_memory_fraction"},
      {"kv-cache-free-gpu-mem-fraction", "kv_cache_config.free_gpu_memory_fraction"},
      {"free_gpu_memory_fraction", "kv_cache_config.free_gpu_memory_fraction"},
      {"server_role", "disaggregation_mode"},
      {"moe_backend", "moe_config.backend"},
      {"moe_load_balancer", "moe_config.load_balancer"},
      {"pytorch_backend_config.moe_backend", "moe_config.backend"},
      {"pytorch-backend-config.enable_attention_dp", "enable_attention_dp"},
      {"pytorch_backend_config.cuda_graph_padding_enabled", "cuda_graph_config.enable_padding"},
      {"cuda_graph_padding_enabled", "cuda_graph_config.enable_padding"},
      {"cuda_graph_batch_sizes", "cuda_graph_config.batch_sizes"},
      {"pytorch_backend_config.cuda_graph_max_batch_size", "cuda_graph_config.max_batch_size"},
      {"pytorch_backend_config.use_cuda_graph", "use_cuda_graph"}};
  for (const auto& [older, today] : names) {
    CAPTURE(older);
    CHECK(read({"--" + older, "true"}).text(today) == "true");
  }
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
