// The rules of vLLM at both sides of each limit: defaults by GPU, capture sizes, which graph a batch takes, why an
// all-to-all was chosen, versions between releases.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/engines/vllm/deployment.h"
#include "tests/vllm/vllm.h"

namespace a2asim {
namespace {

using vllm::GpuClass;
using vllm::GraphMode;

std::string vllm_limits(const vllm::DefaultRules& rules, const vllm::BatchArgs& args, GpuClass gpu) {
  const vllm::BatchLimits out = vllm::batch_limits(rules, args, gpu);
  return fmt::format("{} {}", out.max_num_batched_tokens, out.max_num_seqs);
}

std::string vllm_sizes(const vllm::DefaultRules& rules, const vllm::CaptureArgs& args, vllm::BatchLimits limits) {
  const auto sizes = vllm::capture_sizes(rules, args, limits);
  return sizes ? fmt::format("{}", fmt::join(*sizes, " ")) : sizes.error().message;
}

vllm::Graphs vllm_graphs(std::string_view mode, std::vector<std::int64_t> sizes, std::int64_t width,
                         std::int64_t seqs) {
  return {vllm::find_graph_setting(mode), std::move(sizes), width, seqs};
}

std::string vllm_graph(const Result<vllm::Dispatched>& graph) {
  return graph ? fmt::format("{} {}", vllm::name(graph->mode), graph->num_tokens) : graph.error().message;
}

}  // namespace

TEST_CASE("vllm: GPUs fall into classes at 70 and 160 GiB, by name at A100, B200 and B300") {
  CHECK(vllm::gpu_class(69.9, "H100") == GpuClass::small);
  CHECK(vllm::gpu_class(70, "H100") == GpuClass::large);
  CHECK(vllm::gpu_class(80, "NVIDIA A100-SXM4") == GpuClass::small);
  CHECK(vllm::gpu_class(159.9, "") == GpuClass::large);
  CHECK(vllm::gpu_class(160, "") == GpuClass::blackwell_large);
  CHECK(vllm::gpu_class(160, "a100") == GpuClass::blackwell_large);
  for (const std::string_view gpu : {"B200", "NVIDIA GB200", "b300 SXM6"}) CHECK(vllm::is_sm100(gpu));
  for (const std::string_view gpu : {"H200", "", "A100"}) CHECK_FALSE(vllm::is_sm100(gpu));
}

TEST_CASE("vllm: the defaults of a batch follow the GPU, the front end, the mode and the longest request") {
  using enum GpuClass;
  const vllm::DefaultRules plain;
  CHECK(vllm_limits(plain, {}, small) == "2048 256");
  CHECK(vllm_limits(plain, {}, large) == "8192 1024");
  CHECK(vllm_limits(plain, {}, blackwell_large) == "8192 1024");
  CHECK(vllm_limits({.largest_for_160_gib = true}, {}, blackwell_large) == "16384 1024");
  CHECK(vllm_limits({.largest_for_160_gib = true}, {}, large) == "8192 1024");
  CHECK(vllm_limits(plain, {.is_offline = true}, small) == "8192 256");
  CHECK(vllm_limits(plain, {.is_offline = true}, large) == "16384 1024");
  CHECK(vllm_limits(plain, {.performance_mode = "throughput"}, small) == "2048 256");
  CHECK(vllm_limits({.has_performance_mode = true}, {.performance_mode = "throughput"}, small) == "4096 512");
  CHECK(vllm_limits({.has_performance_mode = true}, {.performance_mode = "interactivity"}, small) == "2048 256");
  CHECK(vllm_limits({.small_for_batched_dp = true}, {.batched_dp_moe = true}, large) == "256 256");
  CHECK(vllm_limits({.small_for_batched_dp = true}, {}, large) == "8192 1024");
  CHECK(vllm_limits(plain, {.batched_dp_moe = true}, large) == "8192 1024");
  const vllm::DefaultRules capped{.tokens_capped_by_length = true};
  CHECK(vllm_limits(capped, {.max_num_seqs = 4, .max_model_len = 100}, small) == "400 4");
  CHECK(vllm_limits(capped, {.max_num_seqs = 4, .max_model_len = 512}, small) == "2048 4");
  CHECK(vllm_limits(capped, {.max_num_seqs = 4, .max_model_len = 513}, small) == "2048 4");
  CHECK(vllm_limits(capped, {.max_num_batched_tokens = 1000, .max_num_seqs = 4, .max_model_len = 100}, small) ==
        "1000 4");
  CHECK(vllm_limits(plain, {.max_num_seqs = 4, .max_model_len = 100}, small) == "2048 4");
  CHECK(vllm_limits(plain, {.max_num_batched_tokens = 100}, small) == "100 100");
  CHECK(vllm_limits(plain, {.max_num_batched_tokens = 100, .max_num_seqs = 101}, small) == "100 101");
  CHECK_FALSE(vllm::refuse_limits({100, 100}));
  CHECK(vllm::refuse_limits({100, 101}).value().message ==
        "max_num_batched_tokens (100) must be greater than or equal to max_num_seqs (101).");
}

TEST_CASE(
    "vllm: capture sizes are 1, 2, 4, then steps of 8 and 16, up to twice the requests, the platform, the batch") {
  const vllm::DefaultRules plain;
  CHECK(vllm_sizes(plain, {}, {2048, 4}) == "1 2 4 8");
  CHECK(vllm_sizes(plain, {}, {2048, 3}) == "1 2 4");
  CHECK(vllm_sizes(plain, {}, {3, 3}) == "1 2");
  CHECK(vllm_sizes(plain, {.width = 2}, {2048, 4}) == "1 2 4 8");
  CHECK(vllm_sizes({.width_counts = true}, {.width = 2}, {2048, 4}) == "1 2 4 8 16");
  CHECK(vllm_sizes(plain, {.max_size = 24}, {2048, 4}) == "1 2 4 8 16 24");
  CHECK(vllm_sizes(plain, {.max_size = 24}, {20, 4}) == "1 2 4 8 16");
  CHECK(vllm_sizes({.captures_largest_batch = true}, {.max_size = 24}, {20, 4}) == "1 2 4 8 16 20");
  CHECK(vllm_sizes({.captures_largest_batch = true}, {.max_size = 20}, {20, 4}) == "1 2 4 8 16 20");
  CHECK(vllm_sizes({.captures_largest_batch = true}, {.max_size = 19}, {20, 4}) == "1 2 4 8 16");
  CHECK(vllm_sizes(plain, {.max_size = 12, .interactivity = true}, {2048, 4}) == "1 2 4 8");
  CHECK(vllm_sizes({.has_performance_mode = true}, {.max_size = 5, .interactivity = true}, {2048, 4}) == "1 2 3 4 5");
  CHECK(vllm_sizes({.has_performance_mode = true}, {.max_size = 48, .interactivity = true}, {2048, 4})
            .ends_with(" 30 31 32 40 48"));
  CHECK(vllm_sizes(plain, {.max_size = 280}, {2048, 4}).ends_with(" 240 248 256 272"));
  CHECK(vllm_sizes({.steps_of_16 = false}, {.max_size = 280}, {2048, 4}).ends_with(" 248 256 264 272 280"));
  CHECK(vllm_sizes(plain, {.sm100 = true}, {8192, 1024}).ends_with(" 496 512"));
  CHECK(vllm_sizes({.up_to_1024_on_sm100 = true}, {.sm100 = true}, {8192, 1024}).ends_with(" 1008 1024"));
  CHECK(vllm_sizes({.up_to_1024_on_sm100 = true}, {}, {8192, 1024}).ends_with(" 496 512"));
  CHECK(vllm_sizes(plain, {.enforce_eager = true}, {2048, 4}).empty());
  CHECK(vllm_sizes(plain, {.sizes = {{16, 4, 4, 21}}}, {20, 4}) == "4 16");
  CHECK(vllm_sizes(plain, {.sizes = {{20}}, .max_size = 20}, {20, 4}) == "20");
  CHECK(vllm_sizes(plain, {.max_size = 1}, {2048, 4}) == "1");
}

TEST_CASE("vllm: a batch takes the smallest graph that holds it, of a mode that may serve it") {
  using Rule = vllm::Dispatch;
  struct Row {
    Rule rule;
    std::string_view setting;
    std::int64_t tokens;
    bool decodes;
    unsigned allowed;
    std::string_view expected;
  };
  const Rule first = vllm::dispatch_pr28579, keys = vllm::dispatch_pr34102, last = vllm::dispatch_pr36165;
  const unsigned any = vllm::kAnyMode, full = vllm::only(GraphMode::full), none = vllm::only(GraphMode::none);
  const std::string_view no_graph = "No matching cudagraph found and NONE is not in allowed_modes";
  // Sizes 4, 8, 16; requests of 2 tokens, at most 4 of them.
  for (const Row& row : {Row{last, "FULL_AND_PIECEWISE", 4, true, any, "FULL 4"},
                         {last, "FULL_AND_PIECEWISE", 5, true, any, "FULL 8"},
                         {last, "FULL_AND_PIECEWISE", 9, true, any, "PIECEWISE 16"},
                         {last, "FULL_AND_PIECEWISE", 16, false, any, "PIECEWISE 16"},
                         {last, "FULL_AND_PIECEWISE", 17, true, any, "NONE 17"},
                         {last, "FULL_AND_PIECEWISE", 4, true, none, "NONE 4"},
                         {last, "FULL_AND_PIECEWISE", 4, false, full, no_graph},
                         {first, "FULL_AND_PIECEWISE", 4, false, full, "NONE 4"},
                         {last, "FULL_AND_PIECEWISE", 4, true, vllm::all_but(GraphMode::full), "PIECEWISE 4"},
                         {last, "FULL_AND_PIECEWISE", 4, true, 8, "NONE 4"},
                         {last, "FULL_DECODE_ONLY", 8, true, any, "FULL 8"},
                         {last, "FULL_DECODE_ONLY", 8, false, any, "NONE 8"},
                         {last, "FULL", 8, false, any, "FULL 8"},
                         {last, "FULL", 16, true, any, "FULL 16"},
                         {keys, "FULL", 8, true, any, "FULL 8"},
                         {keys, "FULL", 9, true, full, no_graph},
                         {keys, "FULL", 9, true, any, "NONE 9"},
                         {keys, "FULL", 9, false, any, "FULL 16"},
                         {first, "FULL", 9, true, any, "FULL 16"},
                         {last, "PIECEWISE", 3, true, any, "PIECEWISE 4"},
                         {last, "PIECEWISE", 3, true, full, no_graph},
                         {last, "NONE", 3, true, any, "NONE 3"},
                         {last, "NONE", 3, true, full, "NONE 3"}}) {
    CAPTURE(fmt::format("{} {} {} {}", row.setting, row.tokens, row.decodes, row.allowed));
    CHECK(vllm_graph(row.rule(vllm_graphs(row.setting, {4, 8, 16}, 2, 4), row.tokens, row.decodes, row.allowed)) ==
          row.expected);
  }
  // A size that is no multiple of the width: decodes assert it, others do not.
  const std::string_view uneven = "num_tokens_padded % uniform_decode_query_len == 0";
  CHECK(vllm_graph(last(vllm_graphs("FULL_DECODE_ONLY", {4}, 3, 4), 3, true, any)) == uneven);
  CHECK(vllm_graph(keys(vllm_graphs("FULL", {4}, 3, 4), 3, true, any)) == uneven);
  CHECK(vllm_graph(last(vllm_graphs("FULL", {4}, 3, 4), 3, true, any)) == "FULL 4");
  CHECK(vllm_graph(last(vllm_graphs("FULL_AND_PIECEWISE", {4}, 3, 4), 3, false, any)) == "PIECEWISE 4");
}

TEST_CASE("vllm: why an all-to-all was chosen") {
  struct Row {
    std::string_view version, options, variable, expected;
  };
  const std::string_view by_flag = "by --all2all-backend", by_variable = "by VLLM_ALL2ALL_BACKEND",
                         by_default = "the default of this version";
  const std::string_view ep = "-dp 4 --enable-expert-parallel";
  const std::string_view flag = "-dp 4 --enable-expert-parallel --all2all-backend deepep_low_latency";
  for (const Row& row :
       {Row{"v0.28.0", "-dp 4", "", "without --enable-expert-parallel experts are sharded, not exchanged"},
        {"v0.12.0", "--enable-expert-parallel", "", "expert parallelism over one replica needs no all-to-all"},
        {"v0.28.0", ep, "", by_default},
        {"v0.28.0", flag, "", by_flag},
        {"v0.28.0", ep, "deepep_low_latency", by_default},
        {"v0.28.0", flag, "deepep_high_throughput", by_flag},
        {"v0.11.0", ep, "deepep_low_latency", by_variable},
        {"v0.11.0", ep, "", by_default},
        {"v0.12.0", ep, "deepep_low_latency", by_variable},
        {"v0.12.0", flag, "deepep_high_throughput", by_flag},
        {"v0.14.0", flag, "deepep_high_throughput", by_variable},
        {"v0.14.0", flag, "", by_flag},
        {"v0.28.0", "-dp 4 --enable-expert-parallel --all2all-backend pplx", "", "pplx was removed"}}) {
    CAPTURE(fmt::format("{} {} {}", row.version, row.options, row.variable));
    std::map<std::string, std::string> env;
    if (!row.variable.empty()) env["VLLM_ALL2ALL_BACKEND"] = row.variable;
    const auto deployed = test::deploy_vllm(row.version, "vllm serve M " + std::string(row.options), env);
    REQUIRE(deployed.has_value());
    REQUIRE(deployed->deployment);
    CHECK(vllm::vllm_part(*deployed->deployment).choice() == row.expected);
  }
}

TEST_CASE("vllm: a release that is not known by itself has the rules of its series, and says so") {
  const auto patch = vllm::find_generation("v0.12.9");
  REQUIRE(patch.has_value());
  CHECK(patch->version->name == "pr28579");
  CHECK(patch->note == "v0.12.9 is not known here by itself: the rules are those of v0.12.0, the first of its series");
  CHECK(vllm::find_generation("pre25906")->version->name == "pr24982");
  CHECK(vllm::find_generation("v25906")->version->name == "pr25906");
  CHECK_FALSE(vllm::find_generation("before1").has_value());
  CHECK_FALSE(vllm::find_generation("v0.99.3").has_value());
}

}  // namespace a2asim
