// Numbers that options take: each end is read, one beyond it is refused with the option, the number and both ends.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/engines/sglang/start/server_args.h"
#include "tests/cli/launches.h"
#include "tests/cli/run.h"
#include "tests/trtllm/trtllm_launch.h"
#include "tests/vllm/vllm.h"

namespace a2asim {
namespace {

struct NumberEnds {
  std::string_view option;
  std::int64_t least, most;
};

constexpr std::int64_t kInt32 = std::numeric_limits<std::int32_t>::max();

// `refusal` gives what is said of the option with a number; empty: it is read.
template <class Refusal>
void check_ends(const NumberEnds& limit, std::string_view shown, Refusal refusal) {
  CAPTURE(limit.option);
  const auto words = [&](std::int64_t value) {
    return fmt::format("{} {}: give a {}number from {} to {}", limit.option, value, shown, limit.least, limit.most);
  };
  for (const std::int64_t value : {limit.least, limit.most}) CHECK(!contains(refusal(value), "number from"));
  for (const std::int64_t value : {limit.least - 1, limit.most + 1})
    CHECK_MESSAGE(contains(refusal(value), words(value)), refusal(value), " has not ", words(value));
}

}  // namespace

TEST_CASE("sglang: the ends of every number") {
  for (const NumberEnds& limit : {NumberEnds{"--tp-size", 1, 65536},
                                  {"--dp-size", 1, 65536},
                                  {"--ep-size", 1, 65536},
                                  {"--pp-size", 1, 65536},
                                  {"--attn-cp-size", 1, 65536},
                                  {"--moe-dp-size", 1, 65536},
                                  {"--dcp-size", 1, 65536},
                                  {"--nnodes", 1, 65536},
                                  {"--moe-dense-tp-size", 1, 65536},
                                  {"--cuda-graph-bs", 1, 1 << 20},
                                  {"--cuda-graph-max-bs", 0, 1 << 20},
                                  {"--max-running-requests", -kInt32, kInt32}})
    check_ends(limit, "", [&](std::int64_t value) {
      const std::vector<std::string> words = {"--model", "m", fmt::format("{}={}", limit.option, value)};
      const auto parsed = parse_server_args(OptionList{"v0.5.15"}, words, ParseMode::lenient);
      return parsed ? "" : parsed.error().message;
    });
}

TEST_CASE("vllm: the ends of every number") {
  for (const NumberEnds& limit : {NumberEnds{"--tensor-parallel-size", 1, 4096},
                                  {"--pipeline-parallel-size", 1, 4096},
                                  {"--data-parallel-size", 1, 4096},
                                  {"--prefill-context-parallel-size", 1, 4096},
                                  {"--decode-context-parallel-size", 1, 4096},
                                  {"--nnodes", 1, 4096},
                                  {"--max-num-seqs", 1, kInt32},
                                  {"--max-num-batched-tokens", 1, kInt32}})
    check_ends(limit, "", [&](std::int64_t value) {
      const auto deployed = test::deploy_vllm("newest", fmt::format("vllm serve M {}={}", limit.option, value));
      return deployed ? "" : deployed.error().message;
    });
  const auto said = [](const std::string& option) {
    const auto deployed = test::deploy_vllm("newest", "vllm serve M " + option);
    return deployed ? "" : deployed.error().message;
  };
  for (const auto& [value, is_read] : {std::pair{0, true}, {1024, true}, {-1, false}, {1025, false}}) {
    const std::string config =
        fmt::format("--speculative-config '{{\"method\": \"mtp\", \"num_speculative_tokens\": {}}}'", value);
    CHECK(contains(said(config), fmt::format("num_speculative_tokens {}: give a number from 0 to 1024", value)) !=
          is_read);
  }
  for (const auto& [value, is_read] : {std::pair{1, true}, {1 << 20, true}, {0, false}, {(1 << 20) + 1, false}}) {
    const std::string config = fmt::format("--compilation-config '{{\"cudagraph_capture_sizes\": [{}]}}'", value);
    CHECK(contains(said(config), "capture sizes: give numbers from 1 to 1048576") != is_read);
  }
  CHECK(contains(said("-tp 64 -pp 65"), "4160 ranks: give at most 4096"));
  CHECK_FALSE(contains(said("-tp 64 -pp 64"), "ranks: give"));
}

TEST_CASE("trtllm: the ends of every number") {
  for (const NumberEnds& limit : {NumberEnds{"tensor_parallel_size", 1, 4096},
                                  {"pipeline_parallel_size", 1, 4096},
                                  {"context_parallel_size", 1, 4096},
                                  {"moe_tensor_parallel_size", -1, 4096},
                                  {"moe_expert_parallel_size", -1, 4096},
                                  {"moe_cluster_parallel_size", -1, 4096},
                                  {"max_num_tokens", 1, 1 << 24},
                                  {"max_batch_size", 1, 1 << 24},
                                  {"moe_config.max_num_tokens", 1, 1 << 30},
                                  {"speculative_config.max_draft_len", 0, 1024}})
    check_ends(limit, "whole ", [&](std::int64_t value) {
      const auto command = parse_launch_command(fmt::format("trtllm-serve M --{}={}", limit.option, value));
      REQUIRE(command.has_value());
      const Engine& engine = find_engine(*command);
      DeployOptions options;
      options.version = *engine.find_version("newest");
      const auto deployed = engine.deploy(*command, options);
      return deployed ? "" : deployed.error().message;
    });
}

// Of the program's own options one beyond each end, N; what is between is read in the tests of each command.
TEST_CASE("the program's numbers: one beyond each end is refused") {
  const std::string shape = " --num-experts 256 --top-k 8 --hidden-size 7168";
  const std::string server = " -- vllm serve M -tp 2";
  const std::vector<std::pair<std::string, NumberEnds>> rows = {
      {"check --num-experts N --top-k 8 --hidden-size 8" + server, {"--num-experts", 1, 1 << 20}},
      {"check --num-experts 8 --top-k N --hidden-size 8" + server, {"--top-k", 1, 1 << 20}},
      {"check --num-experts 8 --top-k 8 --hidden-size N" + server, {"--hidden-size", 1, 1 << 20}},
      {"plan --ep N --tokens 8" + shape, {"--ep", 2, 1024}},
      {"plan --ep 8 --tokens N" + shape, {"--tokens", 1, 1 << 20}},
      {"plan --ep 8 --tokens 8 --layers N" + shape, {"--layers", 1, 1024}},
      {"plan --ep 8 --tokens 8 --attn-tp-size N" + shape, {"--attn-tp-size", 1, 1024}},
      {"explore --threads N", {"--threads", 1, 1024}},
      {"explore --budget Ns", {"--budget", 1, 1'000'000}},
      {"explore --budget N", {"--budget", 1, std::int64_t{1} << 53}},
      {"explore --shard 0/N", {"--shard, after the slash", 1, 1'000'000}},
      {"conform --budget N", {"--budget", 1, 1'000'000}}};
  for (const auto& [command, ends] : rows)
    for (const std::int64_t value : {ends.least - 1, ends.most + 1}) {
      std::string filled = command;
      filled.replace(filled.find('N'), 1, std::to_string(value));
      const Outcome outcome = run(with_words({}, filled));
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.err == fmt::format("a2asim {}: {} takes a whole number from {} to {}, not '{}'\n",
                                       command.substr(0, command.find(' ')), ends.option, ends.least, ends.most,
                                       value));
    }
}

}  // namespace a2asim
