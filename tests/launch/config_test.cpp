// What stands beside and around a command: files of options, mpirun and srun, images, LLM(..) in a Python file.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/launch/launch_file.h"

using namespace a2asim;
using Words = std::vector<std::string>;

namespace {

std::vector<LaunchedServer> servers_of(const std::string& text) {
  const auto servers = find_servers_in_file(text);
  REQUIRE_MESSAGE(servers, (servers ? "" : servers.error().message));
  return *servers;
}

LaunchCommand command_of(const std::string& text) {
  const auto servers = servers_of(text);
  REQUIRE(servers.size() == 1);
  return servers[0].command;
}

bool has_word(const LaunchCommand& command, const std::string& word) {
  return std::ranges::count(command.argv, word) > 0;
}

}  // namespace

TEST_CASE("config: a flat file stands in front, a nested one behind") {
  LaunchCommand flat = command_of("python3 -m sglang.launch_server --config c.yaml --tp 4");
  auto use = find_config(flat);
  REQUIRE(use.has_value());
  CHECK(use->file == "c.yaml");
  REQUIRE(merge_config(flat, *use, "tp-size: 2\nenable-dp-attention: true\nchunked-prefill-size: null\n"));
  CHECK(flat.argv == Words{"--tp-size", "2", "--enable-dp-attention", "--tp", "4"});

  LaunchCommand nested = command_of("trtllm-serve M --extra_llm_api_options=c.yaml --tp_size 4");
  use = find_config(nested);
  REQUIRE(use.has_value());
  REQUIRE(merge_config(nested, *use, "moe_config: {backend: X, n: 3}\nsizes: [1, 2]\ngraphs: null\noff: false\n"));
  CHECK(nested.argv == Words{"M", "--tp_size", "4", "--moe_config.backend=X", "--moe_config.n=3", "--sizes=[1,2]",
                             "--graphs=null", "--off=false"});
  CHECK_FALSE(find_config(nested).has_value());
  LaunchCommand broken = command_of("trtllm-serve M --config c.yaml");
  CHECK_FALSE(merge_config(broken, *find_config(broken), "a: [1\n"));
  CHECK_FALSE(merge_config(broken, *find_config(broken), "- 1\n"));
}

TEST_CASE("config: a file that the text itself writes is read at once") {
  const LaunchCommand script = command_of(
      "cat > /tmp/c.yaml <<EOF\nenable_attention_dp: true\nEOF\ntrtllm-serve M --config /tmp/c.yaml --tp_size 8\n");
  CHECK(script.argv == Words{"M", "--tp_size", "8", "--enable_attention_dp=true"});
  const LaunchCommand mounted = command_of(
      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  decode.yaml: |\n    tensor_parallel_size: "
      "4\n---\n"
      "kind: Pod\nspec:\n  containers:\n  - name: w\n    image: reg/tensorrt-llm/release:1.2.0\n"
      "    command: [python3, -m, dynamo.trtllm]\n    args: [--model-path, M, --extra-engine-args, "
      "/etc/decode.yaml]\n");
  CHECK(mounted.image == "reg/tensorrt-llm/release:1.2.0");
  CHECK(has_word(mounted, "--tensor_parallel_size=4"));
}

TEST_CASE("config: recipes by role, and a file of options alone") {
  const auto roles = servers_of(
      "resources: {gpu_type: gb200}\nbackend:\n  prefill_environment: {A: '1'}\n  trtllm_config:\n    prefill:\n"
      "      tensor_parallel_size: 8\n      moe_config: {backend: WIDEEP}\n    decode: {tensor_parallel_size: 16}\n");
  REQUIRE(roles.size() == 2);
  CHECK(roles[0].name == "prefill");
  CHECK(has_word(roles[0].command, "--moe_config.backend=WIDEEP"));
  CHECK(has_word(roles[0].command, "--disaggregation_mode=prefill"));
  CHECK(roles[0].command.gpu == "gb200");
  CHECK(roles[0].command.env.get("A") == "1");
  CHECK(has_word(roles[1].command, "--tensor_parallel_size=16"));
  CHECK(has_word(command_of("enable_attention_dp: true\ntensor_parallel_size: 8\n"), "--tensor_parallel_size=8"));
}

TEST_CASE("launcher: which variables reach every rank") {
  const auto forwarded = [](const std::string& text) { return command_of(text).forwarded; };
  CHECK_FALSE(forwarded("A=1 trtllm-serve M").has_value());
  CHECK(forwarded("mpirun -n 8 -x A -x B=2 trtllm-llmapi-launch trtllm-serve M") == Words{"A", "B"});
  CHECK(command_of("mpirun -n 8 -x B=2 trtllm-serve M").env.get("B") == "2");
  CHECK_FALSE(forwarded("srun --export=ALL,A=1 trtllm-serve M").has_value());
  CHECK(command_of("srun --export=ALL,A=1 trtllm-serve M").env.get("A") == "1");
  CHECK(forwarded("srun --export=A,B trtllm-serve M") == Words{"A", "B"});
  CHECK(forwarded("srun --export NONE -N 2 trtllm-serve M") == Words{"NONE"});
}

TEST_CASE("launcher: parts of an MPI launch have variables of their own") {
  const LaunchCommand command =
      command_of("mpirun -n 1 -x A=1 -x C=3 trtllm-serve M --tp_size 8 : -n 7 -x C=3 trtllm-serve M --tp_size 8");
  CHECK(command.argv == Words{"M", "--tp_size", "8"});
  CHECK(command.env.get("A") == "1 on ranks 0..0 only");
  CHECK(command.env.get("C") == "3");
}

TEST_CASE("launchers: mpirun with several programs, and variables from files") {
  const auto all =
      find_servers("mpirun -n 1 -x A=1 sglang serve --tp 1 : -n 2 -x A=2 sglang serve --tp 2 : -n 1 python3 x.py");
  REQUIRE(all);
  REQUIRE(all->size() == 2);
  CHECK((*all)[0].command.argv == Words{"--tp", "1"});
  CHECK((*all)[1].command.argv == Words{"--tp", "2"});
  CHECK((*all)[1].command.env.get("A") == "2");
  for (const char* launch : {"env $(cat .env | xargs) sglang serve", "docker run --env-file .env i:1 sglang serve",
                             "docker run --env-file=.env i:1 sglang serve"}) {
    CAPTURE(launch);
    const auto found = find_servers(launch);
    REQUIRE(found);
    REQUIRE(found->front().command.notes.size() == 1);
    CHECK(found->front().command.notes.front().message.find(" is not read: what it sets is not known") !=
          std::string::npos);
  }
}

TEST_CASE("launcher: images of docker run and srun") {
  CHECK(command_of("docker run --rm -p 8000:8000 -v /a:/b -e A=b:c nvcr.io/x/release:1.2.0 trtllm-serve M").image ==
        "nvcr.io/x/release:1.2.0");
  CHECK(command_of("srun --container-image=nvcr.io/x/release:1.3.0rc1 trtllm-serve M").image ==
        "nvcr.io/x/release:1.3.0rc1");
  CHECK(command_of("trtllm-serve M --host a:b").image.empty());
}

TEST_CASE("python: LLM(..) is read as data") {
  const std::string head = "from tensorrt_llm import LLM\nimport os\nTP = 8\nother = dict(enable_attention_dp=True)\n";
  const LaunchCommand command = command_of(
      head +
      "llm = LLM(model='a/b',  # with ) and , in it\n  tensor_parallel_size=TP, moe_expert_parallel_size=TP,\n"
      "  moe_config=MoeConfig(backend=\"TRTLLM\", max_num_tokens=1_000),\n  cuda_graph_config=None,\n"
      "  kv_cache_config={'free_gpu_memory_fraction': 0.5}, sizes=[1, 2], **other)\n");
  for (const char* word :
       {"--model=a/b", "--tensor_parallel_size=8", "--moe_expert_parallel_size=8", "--moe_config.backend=TRTLLM",
        "--moe_config.max_num_tokens=1000", "--cuda_graph_config=null",
        "--kv_cache_config.free_gpu_memory_fraction=0.5", "--sizes=[1,2]", "--enable_attention_dp=true"}) {
    CAPTURE(word);
    CHECK(has_word(command, word));
  }
  CHECK(command.unread.empty());
  for (const char* open : {"tensor_parallel_size=int(os.environ['TP'])", "tensor_parallel_size=TP * 2", "**more",
                           "tensor_parallel_size=f\"{TP}\"", "sizes=[x for x in y]"}) {
    CAPTURE(open);
    CHECK(command_of(head + "llm = LLM('m', " + open + ")\n").unread.size() == 1);
  }
  CHECK(has_word(command_of(head + "llm = LLM('m')\n"), "--model=m"));
  for (const char* broken : {"LLM(", "LLM(model=", "LLM(a={", "LLM(a=[[[[", "LLM(\"", "LLM(a=b(c(d("})
    CHECK(find_servers_in_file(head + broken).has_value());
  CHECK_FALSE(find_servers_in_file("import os\nLLM(model='m')\n").has_value());
}
