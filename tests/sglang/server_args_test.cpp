#include "model/engines/sglang/start/server_args.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "model/base/words.h"
#include "model/engines/sglang/generation.h"
#include "model/launch/argparse.h"

using namespace a2asim;
namespace V {
constexpr OptionList jan{"pr14668"}, june{"pr27945"}, july{"pr30450"}, main{"main20260823"}, newest{"pr35758"};
}

namespace {

std::vector<std::string> words(std::string_view line) {
  std::vector<std::string> result;
  for (const std::string_view word : split_words(line)) result.emplace_back(word);
  return result;
}

Result<ParsedArgs> strict(std::string_view line, OptionList list = V::main) {
  return parse_server_args(list, words("--model m " + std::string(line)), ParseMode::strict);
}

Result<ParsedArgs> lenient(std::string_view line, OptionList list = V::main) {
  return parse_server_args(list, words("--model m " + std::string(line)), ParseMode::lenient);
}

std::string strict_error(std::string_view line, OptionList list = V::main) {
  const auto parsed = strict(line, list);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().kind == ErrorKind::parse_error);
  return parsed.error().message.substr(std::string("launch_server: error: ").size());
}

Error lenient_error(std::string_view line, OptionList list = V::main) {
  const auto parsed = lenient(line, list);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().message.find('\n') == std::string::npos);
  return parsed.error();
}

bool has_note(const ParsedArgs& parsed, std::string_view part) {
  for (const Note& note : parsed.notes)
    if (note.message.find(part) != std::string::npos) return true;
  return false;
}

ServerArgs args_of(std::string_view line, OptionList list = V::main) {
  const auto parsed = lenient(line, list);
  REQUIRE_MESSAGE(parsed, (parsed ? "" : parsed.error().message));
  return parsed->args;
}

}  // namespace

TEST_CASE("argparse: a unique prefix is the option, an exact name wins over longer ones") {
  CHECK(strict("--tp 8 --dp 4")->args.tp_size == 8);
  CHECK(strict("--moe-dense-tp 1")->args.moe_dense_tp_size == 1);
  CHECK(strict("--enable-dp-att", V::jan)->args.enable_dp_attention);
  CHECK(strict("--ep 2")->args.ep_size == 2);  // declared, although --ep-num-redundant-experts begins with it
}

TEST_CASE("argparse: an ambiguous prefix lists the candidates in registration order") {
  CHECK(strict_error("--enable-dp-att") ==
        "ambiguous option: --enable-dp-att could match --enable-dp-attention, "
        "--enable-dp-attention-local-control-broadcast");
  CHECK(strict_error("--enable-dp=1", V::jan) ==
        "ambiguous option: --enable-dp=1 could match --enable-dp-attention, --enable-dp-lm-head");
}

TEST_CASE("argparse: values behind a blank, behind =, negative and none") {
  CHECK(strict("--tp-size=8")->args.tp_size == 8);
  CHECK(strict("--tp=8")->args.tp_size == 8);
  CHECK(strict("--chunked-prefill-size -1")->args.chunked_prefill_size == -1);
  CHECK(strict_error("--tp --dp 2") == "argument --tp-size/--tensor-parallel-size: expected one argument");
  CHECK(strict_error("--trust-remote-code=2") == "argument --trust-remote-code: ignored explicit argument '2'");
  CHECK(strict_error("--cuda-graph-bs") == "argument --cuda-graph-bs: expected at least one argument");
}

TEST_CASE("argparse: nargs + takes words up to the next option or --") {
  CHECK(strict("--cuda-graph-bs 1 2 4 --tp 2")->args.cuda_graph_bs == std::vector<std::int64_t>{1, 2, 4});
  CHECK(strict_error("--cuda-graph-bs=1 2 4") == "unrecognized arguments: 2 4");
  CHECK(strict_error("--cuda-graph-bs 1 -- 2 --tp 4") == "unrecognized arguments: -- 2 --tp 4");
}

TEST_CASE("argparse: converters and choices") {
  CHECK(strict("--tp 1_0")->args.tp_size == 10);
  CHECK(strict_error("--tp 1.0") == "argument --tp-size/--tensor-parallel-size: invalid int value: '1.0'");
  CHECK(strict("--mem-fraction-static .5")->args.mem_fraction_static == 0.5);
  CHECK(strict("--max-prefill-tokens 4Ki")->args.max_prefill_tokens == 4096);
  CHECK(strict("--max-prefill-tokens 1.5k")->args.max_prefill_tokens == 1500);
  CHECK(strict_error("--max-prefill-tokens 4Ki", V::jan) == "argument --max-prefill-tokens: invalid int value: '4Ki'");
  CHECK(strict_error("--disaggregation-mode x") ==
        "argument --disaggregation-mode: invalid choice: 'x' (choose from 'null', 'prefill', 'decode')");
  CHECK(strict_error("--moe-a2a-backend pplx", V::july)
            .starts_with("argument --moe-a2a-backend: invalid choice: 'pplx'"));
  CHECK(strict("--moe-a2a-backend pplx", V::main)->args.moe_a2a_backend == "pplx");
  CHECK_FALSE(strict("--moe-a2a-backend deepep_v2", V::main));
  CHECK(strict("--moe-a2a-backend deepep_v2", V::newest)->args.moe_a2a_backend == "deepep_v2");
}

TEST_CASE("argparse: required and unrecognized") {
  const std::vector<std::string> nothing;
  const auto missing = parse_server_args(V::main, nothing, ParseMode::strict);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message == "launch_server: error: the following arguments are required: --model-path/--model");
  CHECK(strict_error("--no-such-flag 2") == "unrecognized arguments: --no-such-flag 2");
}

TEST_CASE("repr: quotes as Python chooses them") {
  CHECK(python_repr("a") == "'a'");
  CHECK(python_repr("it's") == "\"it's\"");
  CHECK(python_repr("a'b\"c\n\x01") == "'a\\'b\"c\\n\\x01'");
}

TEST_CASE("server_args: one field under the names of all versions") {
  CHECK(args_of("--cuda-graph-max-bs 64", V::jan).cuda_graph_max_bs == 64);
  CHECK(args_of("--cuda-graph-max-bs 64", V::june).cuda_graph_max_bs == 64);
  CHECK(args_of("--cuda-graph-max-bs-decode 64", V::june).cuda_graph_max_bs == 64);
  CHECK(args_of("--enable-nsa-prefill-context-parallel", V::jan).enable_nsa_prefill_context_parallel);
  CHECK(args_of("--enable-nsa-prefill-context-parallel", V::main).enable_nsa_prefill_context_parallel);
  CHECK(args_of("--disable-piecewise-cuda-graph").cuda_graph_backend_prefill == "disabled");
  CHECK(args_of("--enforce-piecewise-cuda-graph").cuda_graph_backend_prefill == "tc_piecewise");
  CHECK(args_of("--enable-breakable-cuda-graph").cuda_graph_backend_prefill == "breakable");
}

TEST_CASE("server_args: when graphs are disabled") {
  CHECK(decode_graphs_disabled(args_of("--disable-cuda-graph")));
  CHECK(decode_graphs_disabled(args_of("--cuda-graph-backend-decode disabled")));
  CHECK(decode_graphs_disabled(args_of("--cuda-graph-config {\"decode\":{\"backend\":\"disabled\"}}")));
  CHECK_FALSE(decode_graphs_disabled(args_of("")));
  CHECK(prefill_graphs_disabled(args_of("--disable-cuda-graph")));
  CHECK_FALSE(prefill_graphs_disabled(args_of("")));
}

TEST_CASE("server_args: --cuda-graph-config gives way to the options of one phase") {
  const ServerArgs args = args_of(
      "--cuda-graph-config {\"decode\":{\"max_bs\":8,\"bs\":[1,8]},\"prefill\":{\"max_bs\":512}} --cuda-graph-max-bs "
      "16");
  CHECK(args.cuda_graph_max_bs == 16);
  CHECK(args.cuda_graph_bs == std::vector<std::int64_t>{1, 8});
  CHECK(args.cuda_graph_max_bs_prefill == 512);
}

TEST_CASE("lenient: unknown options are notes, and their values go with them") {
  const auto parsed = lenient("--no-such-flag 2 3 --tp 4 --also=x stray");
  REQUIRE(parsed);
  CHECK(parsed->args.tp_size == 4);
  CHECK(parsed->notes.size() == 2);
  CHECK(has_note(*parsed, "--no-such-flag is no option that is known here: ignored"));
  CHECK(has_note(*parsed, "--also is no option"));
  CHECK(parsed->unrecognized == std::vector<std::string>{"--no-such-flag", "--also=x"});
  CHECK(has_note(*lenient("--enable-dp-atention"), "did you mean --enable-dp-attention?"));
  CHECK(has_note(*lenient("--cuda-graph-bs=1 2"), "'2' belongs to no option"));
}

TEST_CASE("lenient: an option of another version is named with that version") {
  const auto parsed = lenient("--dwdp-size 2", V::jan);
  REQUIRE(parsed);
  CHECK(has_note(*parsed, "--dwdp-size does not exist in SGLang of January 2026"));
  CHECK(has_note(*parsed, "only in v0.5.17 (August 2026) to v0.5.20"));
  CHECK(parsed->args.dwdp_size == 1);
  CHECK(parsed->unrecognized == std::vector<std::string>{"--dwdp-size"});
}

TEST_CASE("lenient: old spellings") {
  const auto deepep = lenient("--enable-deepep-moe");
  CHECK(deepep->args.moe_a2a_backend == "deepep");
  CHECK(has_note(*deepep, "--enable-deepep-moe is an old spelling"));
  CHECK(lenient("--enable-deepep-moe --moe-a2a-backend mooncake")->args.moe_a2a_backend == "mooncake");
  const auto ep = lenient("--tp 8 --enable-ep-moe");
  CHECK(ep->args.ep_size == 8);
  CHECK(ep->args.moe_a2a_backend == "none");
  CHECK(lenient("--tp 8 --enable-ep-moe --ep 2")->args.ep_size == 2);
}

TEST_CASE("lenient: the last of two values counts, with a note") {
  const auto parsed = lenient("--tp 4 --tensor-parallel-size 8 --enable-dp-attention --enable-dp-attention");
  CHECK(parsed->args.tp_size == 8);
  CHECK(parsed->notes.size() == 1);
  CHECK(has_note(*parsed, "given 2 times: the last one counts"));
}

TEST_CASE("lenient: what cannot be used is bad input in one line") {
  for (const char* line : {"--tp abc", "--tp 0", "--tp -4", "--dp 0", "--dp -1", "--ep 0", "--pp-size 0", "--tp",
                           "--help", "--tp 99999999999999999999", "--tp 70000", "--enable-dp", "--cuda-graph-bs 0 1",
                           "--cuda-graph-max-bs 2000000000", "--chunked-prefill-size 9000000000", "--tp $TP"}) {
    CAPTURE(line);
    CHECK(lenient_error(line).kind == ErrorKind::bad_input);
  }
  CHECK(lenient_error("--tp -4").message.find("--tp-size -4") != std::string::npos);
  CHECK(lenient_error("--tp $TP").message.find("shell variable") != std::string::npos);
  CHECK(lenient_error("--enable-dp").message.find("--enable-dp-attention, --enable-dp-attention-local") !=
        std::string::npos);
  const auto parsed = lenient("--tp " + std::string(5000, '9'));
  CHECK(parsed.error().message.size() < 1200);
}

TEST_CASE("lenient: a value that nobody filled in leaves its option out, unless the verdict needs it") {
  for (const char* line : {"--node-rank $SLURM_NODEID", "--port=${PORT}", "--mem-fraction-static $F",
                           "--nnodes `wc -l < hosts`", "--port <PORT>", "--random-seed $SEED"}) {
    CAPTURE(line);
    const auto parsed = lenient(std::string(line) + " --tp 4");
    REQUIRE(parsed);
    CHECK(parsed->args.tp_size == 4);
    CHECK(parsed->args.node_rank == 0);
    CHECK(has_note(*parsed, "the command does not set this value"));
  }
  const auto limit = lenient("--max-running-requests $N");
  REQUIRE(limit);
  CHECK_FALSE(limit->args.max_running_requests);  // open, as if it were not given
  CHECK_FALSE(limit->given.contains("max_running_requests"));
  for (const char* line : {"--tp $TP", "--chunked-prefill-size $C", "--moe-a2a-backend $B", "--cuda-graph-bs 1 $B",
                           "--quantization $Q", "--speculative-num-draft-tokens ${D}"}) {
    CAPTURE(line);
    CHECK(lenient_error(line).kind == ErrorKind::bad_input);
  }
  CHECK(lenient_error("--port abc").kind == ErrorKind::bad_input);  // written, and wrong
  CHECK_FALSE(strict("--port $PORT"));                              // argparse itself makes no such exception
}

TEST_CASE("lenient: options hidden in a variable are said to be unknown") {
  const auto parsed = lenient("--trust-remote-code $EXTRA --tp 4");
  REQUIRE(parsed);
  CHECK(has_note(*parsed, "$EXTRA is not set in the command"));
  CHECK(parsed->notes.back().is_warning);
}

TEST_CASE("lenient: a value that this version does not know is SGLang's own refusal") {
  const Error error = lenient_error("--moe-a2a-backend pplx", V::jan);
  CHECK(error.kind == ErrorKind::parse_error);
  CHECK(error.message.find("January 2026") != std::string::npos);
}

TEST_CASE("lenient: a configuration file is not read, a missing model is said") {
  CHECK(has_note(*lenient("--config a.yaml"), "--config: the file is not read"));
  CHECK(has_note(*parse_server_args(V::main, words("--tp 8"), ParseMode::lenient), "--model-path is missing"));
}

TEST_CASE("server_args: which options were given") {
  const auto parsed = lenient("--max-prefill-tokens 16384");
  CHECK(parsed->given.contains("max_prefill_tokens"));
  CHECK_FALSE(parsed->given.contains("tp_size"));
}

TEST_CASE("environment: integers as Python reads them") {
  Environment env;
  CHECK(env.get_int("N", 128) == 128);
  const std::pair<const char*, std::int64_t> readings[] = {{"0", 0},       {"-1", -1},  {"abc", 128},  {"", 128},
                                                           {" 512 ", 512}, {"1_0", 10}, {"1__0", 128}, {"0x10", 128}};
  for (const auto& [text, value] : readings) {
    CAPTURE(text);
    env.set("N", text);
    CHECK(env.get_int("N", 128) == value);
  }
  env.set("N", "99999999999999999999");
  CHECK(env.get_int("N", 128) == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("environment: the two readers of booleans") {
  Environment env;
  CHECK(env.get_bool("B", true));
  CHECK_FALSE(env.get_bool_env_var("B"));
  env.set("B", "Yes");
  CHECK(env.get_bool("B", false));
  CHECK_FALSE(env.get_bool_env_var("B", true));
  env.set("B", "TRUE");
  CHECK(env.get_bool_env_var("B"));
  env.set("B", "maybe");
  CHECK(env.get_bool("B", true));
  CHECK_FALSE(env.get_bool("B", false));
}

// ---- start-up rules

namespace {

const Generation& generation_named(std::string_view name) {
  const auto match = find_generation(name);
  REQUIRE(match.has_value());
  return *match->generation;
}

StartOutcome start(std::string_view line, std::string_view generation, Environment env = {}) {
  const Generation& rules = generation_named(generation);
  return start_up(rules.start, args_of(line, rules.options), std::move(env));
}

std::string refusal(std::string_view line, std::string_view generation, Environment env = {}) {
  const StartOutcome outcome = start(line, generation, std::move(env));
  return outcome.error ? outcome.error->error.message : "";
}

constexpr std::string_view kFlashinfer =
    "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass";

}  // namespace

TEST_CASE("start: data parallelism") {
  const StartOutcome split = start("--tp 8 --dp 4 --enable-dp-attention --chunked-prefill-size 8190", "pr30450");
  CHECK_FALSE(split.error);
  CHECK(split.args.chunked_prefill_size == 2047);
  CHECK(split.args.schedule_conservativeness == doctest::Approx(0.3));
  CHECK(start("--tp 8 --dp 4 --enable-dp-attention --chunked-prefill-size -1", "pr30450").args.chunked_prefill_size ==
        -1);
  const StartOutcome single = start("--tp 8 --enable-dp-attention --enable-dp-lm-head", "pr30450");
  CHECK_FALSE(single.args.enable_dp_attention);
  CHECK_FALSE(single.args.enable_dp_lm_head);
  CHECK(start("--tp 8 --dp 3 --enable-dp-attention", "pr30450").error->handler == "_handle_data_parallelism");
  CHECK(refusal("--tp 8 --dp 8 --enable-dp-lm-head", "pr30450").starts_with("Please enable dp attention"));
}

TEST_CASE("start: backends that spread the experts over all of tp_size") {
  for (const char* backend : {"deepep", "mooncake", "nixl", "megamoe", "ascend_fuseep"})
    CHECK(start("--tp 8 --ep 2 --moe-a2a-backend " + std::string(backend), "pr30450").args.ep_size == 8);
  CHECK(start("--tp 8 --ep 2 --moe-a2a-backend none", "pr30450").args.ep_size == 2);
  CHECK(start("--tp 8 --moe-a2a-backend ascend_tp", "main20260823").args.moe_a2a_backend == "none");
}

TEST_CASE("start: flashinfer and data-parallel attention") {
  const std::string_view no_dp = "--tp 8 --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass";
  for (const char* generation : {"pr14668", "pr24850", "pr25685"}) CHECK(refusal(no_dp, generation) == "");
  for (const char* generation :
       {"pr25907", "pr26643", "pr27945", "pr29461", "pr22394", "pr30450", "main20260823", "pr35758"})
    CHECK(refusal(no_dp, generation).find("dp_size == tp_size") != std::string::npos);
  CHECK(start(kFlashinfer, "pr30450").args.ep_size == 8);
  CHECK(start(kFlashinfer, "pr30450").args.disable_shared_experts_fusion);
}

TEST_CASE("start: runners of flashinfer by generation") {
  const auto accepts = [](std::string_view runner, std::string_view generation) {
    const std::string quantization = runner == "flashinfer_cutedsl" ? " --quantization modelopt_fp4" : "";
    return refusal("--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend " +
                       std::string(runner) + quantization,
                   generation)
        .empty();
  };
  CHECK_FALSE(accepts("flashinfer_cutedsl", "pr25685"));
  CHECK(accepts("flashinfer_cutedsl", "pr25907"));
  CHECK_FALSE(accepts("flashinfer_trtllm_routed", "pr29461"));
  CHECK(accepts("flashinfer_trtllm_routed", "pr22394"));
  CHECK_FALSE(accepts("deep_gemm", "main20260823"));
  CHECK(accepts("deep_gemm", "pr35758"));
}

TEST_CASE("start: SGLANG_MOE_NVFP4_DISPATCH is turned on when unset") {
  const auto dispatch = [](std::string_view extra, std::string_view generation, Environment env = {}) {
    return start(std::string(kFlashinfer) + std::string(extra), generation, std::move(env))
        .env.get_bool("SGLANG_MOE_NVFP4_DISPATCH", false);
  };
  CHECK(dispatch("", "pr27945"));
  CHECK(dispatch("", "pr29461"));  // as its rows of launch_verdicts show
  CHECK_FALSE(dispatch("", "pr30450"));
  CHECK(dispatch(" --quantization modelopt_fp4", "pr30450"));
  Environment off;
  off.set("SGLANG_MOE_NVFP4_DISPATCH", "0");
  CHECK_FALSE(dispatch("", "pr27945", off));
}

TEST_CASE("start: the expert parallel size and quantization of a runner") {
  CHECK(refusal("--tp 8 --dp 8 --ep 2 --enable-dp-attention --moe-a2a-backend flashinfer "
                "--moe-runner-backend flashinfer_cutlass",
                "pr30450")
            .starts_with("The expert parallel size"));
  CHECK(refusal("--tp 8 --moe-runner-backend flashinfer_cutlass --quantization fp8", "pr30450")
            .starts_with("Invalid quantization 'fp8'"));
  CHECK(
      refusal("--tp 8 --moe-runner-backend flashinfer_cutedsl", "pr30450").starts_with("Invalid quantization 'None'"));
  CHECK(refusal("--tp 8 --moe-runner-backend flashinfer_trtllm_routed --quantization fp8", "pr30450") == "");
}

TEST_CASE("start: deepep") {
  CHECK(start("--tp 8 --moe-a2a-backend deepep --deepep-mode normal", "pr14668").args.disable_cuda_graph);
  CHECK(decode_graphs_disabled(start("--tp 8 --moe-a2a-backend deepep --deepep-mode normal", "pr30450").args));
  CHECK_FALSE(decode_graphs_disabled(start("--tp 8 --moe-a2a-backend deepep", "pr30450").args));
  const std::string cutedsl =
      "--tp 8 --quantization modelopt_fp4 --moe-a2a-backend deepep --moe-runner-backend flashinfer_cutedsl";
  CHECK(start(cutedsl, "pr30450").args.deepep_mode == "auto");
  CHECK(start(cutedsl, "main20260823").args.deepep_mode == "low_latency");
  CHECK(start(cutedsl + " --deepep-mode normal", "main20260823").error->error.kind == ErrorKind::value_error);
}

TEST_CASE("start: deepep_v2 runs deep_gemm and no two-batch overlap") {
  CHECK(start("--tp 8 --moe-a2a-backend deepep_v2", "pr35758").args.moe_runner_backend == "deep_gemm");
  CHECK(start("--tp 8 --moe-a2a-backend deepep_v2", "pr35758").args.ep_size == 8);
  CHECK(refusal("--tp 8 --moe-a2a-backend deepep_v2 --moe-runner-backend triton", "pr35758") != "");
  CHECK(refusal("--tp 8 --moe-a2a-backend deepep_v2 --enable-two-batch-overlap", "pr35758") != "");
}

TEST_CASE("start: mori compares its cap with the chunk of one rank") {
  const std::string mori = "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend mori --chunked-prefill-size ";
  CHECK(refusal(mori + "32768", "pr27945") == "");
  CHECK(refusal(mori + "32776", "pr27945").find("SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK") != std::string::npos);
  CHECK(refusal(mori + "65536 --disaggregation-mode decode", "pr27945") == "");
  CHECK(refusal(mori + "-1", "pr27945") == "");
  Environment env;
  env.set("SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "8192");
  CHECK(refusal(mori + "65536", "pr27945", env) == "");
  CHECK(start(mori + "4096", "pr27945").args.deepep_mode == "normal");
}

TEST_CASE("start: pplx") {
  const std::string pplx = "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend pplx --chunked-prefill-size 1024";
  const StartOutcome good = start(pplx, "main20260823");
  CHECK_FALSE(good.error);
  CHECK(good.args.deepep_mode == "low_latency");
  CHECK(good.args.moe_runner_backend == "deep_gemm");
  CHECK(refusal(pplx + " --chunked-prefill-size 1032", "main20260823").find("SGLANG_PPLX_NUM_MAX") !=
        std::string::npos);
  CHECK(refusal(pplx + " --cuda-graph-max-bs 129", "main20260823").find("SGLANG_PPLX_NUM_MAX") != std::string::npos);
  CHECK(refusal(pplx + " --moe-runner-backend triton", "main20260823").find("deep_gemm (or auto)") !=
        std::string::npos);
  CHECK(refusal(pplx + " --deepep-mode normal", "main20260823").find("low-latency mode") != std::string::npos);
  CHECK(refusal("--tp 8 --moe-a2a-backend pplx --chunked-prefill-size 64", "main20260823").find("2 DP groups") !=
        std::string::npos);
}

TEST_CASE("start: the token budget of flashinfer_cutedsl") {
  const std::string line =
      "--tp 4 --dp 4 --enable-dp-attention --quantization modelopt_fp4 --moe-a2a-backend flashinfer "
      "--moe-runner-backend flashinfer_cutedsl";
  const auto refused = [&](const std::string& extra, std::string_view generation, std::int64_t decode_tokens = 0) {
    const StartOutcome outcome = start(line + extra, generation);
    REQUIRE_FALSE(outcome.error);
    const StartRules& rules = generation_named(generation).start;
    return check_cutedsl_token_budget(rules, outcome.args, outcome.env, decode_tokens, 0).has_value();
  };
  CHECK(refused("", "pr30450"));  // 1024 x 4 < 16384, the default of max_prefill_tokens
  CHECK_FALSE(refused(" --max-prefill-tokens 4096", "pr30450"));
  CHECK(refused(" --max-prefill-tokens 4097", "pr30450"));
  CHECK(refused(" --max-prefill-tokens 4096", "pr30450", 4097));
  CHECK_FALSE(refused(" --max-prefill-tokens 4096", "pr25907", 4097));
  CHECK_FALSE(refused(" --disaggregation-mode decode", "pr30450"));
}

TEST_CASE("start: start_up gives arguments and environment, or why not") {
  const StartOutcome good = start(kFlashinfer, "pr14668");
  REQUIRE_FALSE(good.error);
  CHECK(good.args.ep_size == 8);
  CHECK(good.env.is_set("SGLANG_MOE_NVFP4_DISPATCH"));
  CHECK(start("--tp 8 --dp 3 --enable-dp-attention", "pr30450").error);
}
