// a2asim plan as a person or a program calls it.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "model/engines/sglang/generation.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using Args = std::vector<std::string>;

const Args kShape = {"--num-experts", "256", "--top-k", "8", "--hidden-size", "7168"};

Outcome plan(Args args, const Args& shape = kShape) {
  args.insert(args.begin(), "plan");
  args.insert(args.end(), shape.begin(), shape.end());
  return run(args);
}

nlohmann::json json_of(const Outcome& outcome) {
  REQUIRE_MESSAGE(outcome.err.empty(), outcome.err);
  return nlohmann::json::parse(outcome.out);
}

nlohmann::json check_point(const std::string& launch, const std::string& generation) {
  Args args = {"check", "--format", "json", "--sglang", generation};
  args.insert(args.end(), kShape.begin(), kShape.end());
  return nlohmann::json::parse(run(args, launch).out);
}

}  // namespace

TEST_CASE("plan: check gives the same capacity for the launch command that the plan names") {
  for (const Generation& generation : generations()) {
    for (const std::string type : {"bf16", "nvfp4"}) {
      for (const Args& more : {Args{}, Args{"--max-num-tokens", "1000"}, Args{"--chunked-prefill-size", "65536"}}) {
        Args args = {"--ep", "4,8", "--tokens", "64", "--format", "json", "--dispatch-dtype", type};
        args.insert(args.end(), {"--sglang", std::string(generation.name)});
        args.insert(args.end(), more.begin(), more.end());
        const nlohmann::json planned = json_of(plan(args));
        CHECK(planned.at("points").size() == 2);
        for (const nlohmann::json& point : planned.at("points")) {
          const nlohmann::json checked = check_point(point.at("launch"), std::string(generation.name));
          CHECK(checked.at("capacity") == point.at("capacity"));
          CHECK(checked.at("topology").at("ep_size") == point.at("ep_size"));
          CHECK(checked.at("generation") == generation.name);
        }
      }
    }
  }
}

TEST_CASE("plan: the default cap, and one of one's own") {
  const auto capacity = [](const Args& more) {
    Args args = {"--ep", "8", "--tokens", "64", "--format", "json"};
    args.insert(args.end(), more.begin(), more.end());
    return json_of(plan(args)).at("points").at(0).at("capacity").at("max_num_tokens");
  };
  CHECK(capacity({}) == 4096);
  CHECK(capacity({"--max-num-tokens", "77"}) == 77);
  CHECK(capacity({"--chunked-prefill-size", "65536"}) == 65536 / 8);
  CHECK(capacity({"--sglang", "pr14668"}) == 1024 * 8);
}

TEST_CASE("plan: a sweep has a point for every pair, in order and once") {
  const Outcome outcome = plan({"--ep", "16,8,8", "--tokens", "128,64", "--format", "json", "--link-gbps", "400"});
  const nlohmann::json document = json_of(outcome);
  CHECK(document.at("command") == "plan");
  std::vector<std::pair<int, int>> pairs;
  for (const nlohmann::json& point : document.at("points")) {
    pairs.emplace_back(point.at("ep_size"), point.at("tokens_per_rank"));
    const nlohmann::json& time = point.at("traffic").at("expected").at("least_time_us");
    CHECK(time.at("together").get<double>() ==
          doctest::Approx(time.at("dispatch").get<double>() + time.at("combine").get<double>()));
  }
  CHECK(pairs == std::vector<std::pair<int, int>>{{8, 64}, {8, 128}, {16, 64}, {16, 128}});
  CHECK(document.at("link_bytes_per_second") == 50e9);
  CHECK(plan({"--sweep-ep", "16,8,8", "--sweep-tokens", "128,64", "--format", "json", "--link-gbps", "400"}).out ==
        outcome.out);
}

TEST_CASE("plan: without a rate there is no time") {
  const nlohmann::json document = json_of(plan({"--ep", "8", "--tokens", "64", "--format", "json"}));
  CHECK(document.at("link_bytes_per_second").is_null());
  CHECK(document.at("points").at(0).at("traffic").at("worst").at("least_time_us").is_null());
  CHECK(plan({"--ep", "8", "--tokens", "64"}).out.find("link time") == std::string::npos);
}

TEST_CASE("plan: headroom on common GPUs, or on one's own") {
  const nlohmann::json common = json_of(plan({"--ep", "8", "--tokens", "64", "--weights", "100", "--format", "json"}));
  const nlohmann::json& gpus = common.at("points").at(0).at("headroom");
  CHECK(gpus.size() >= 5);
  for (const nlohmann::json& gpu : gpus) {
    const std::int64_t workspace = common.at("points").at(0).at("capacity").at("workspace_bytes_per_rank");
    const std::int64_t memory = gpu.at("memory_mib").get<std::int64_t>() << 20;
    CHECK(gpu.at("left_bytes") == memory - (std::int64_t{100} << 30) - workspace);
    CHECK(gpu.at("fits") == (gpu.at("left_bytes") >= 0));
  }
  CHECK(plan({"--ep", "8", "--tokens", "64", "--weights", "100"}).exit_code == 0);
  CHECK(plan({"--ep", "8", "--tokens", "64", "--gpu-memory", "80", "--weights", "70"}).exit_code == 0);
  const Outcome full = plan({"--ep", "8", "--tokens", "64", "--gpu-memory", "80", "--weights", "79.9"});
  CHECK(full.exit_code == 1);
  CHECK(full.out.find("CANNOT RUN: does not fit") != std::string::npos);
}

TEST_CASE("plan: what the version refuses is a problem, and exit code 1") {
  const Outcome over = plan({"--ep", "8", "--tokens", "5000", "--sglang", "pr30450"});
  CHECK(over.exit_code == 1);
  CHECK(over.out.find("exceeds max_num_tokens 4096") != std::string::npos);
  const Outcome seven =
      plan({"--ep", "8", "--tokens", "64"}, {"--num-experts", "64", "--top-k", "7", "--hidden-size", "64"});
  CHECK(seven.exit_code == 1);
  CHECK(seven.out.find("Unsupported top_k") != std::string::npos);
  CHECK(plan({"--ep", "128", "--tokens", "64"}).exit_code == 1);  // more ranks than FlashInfer's 64
}

// Text, JSON, page and exit code are asked for the same points, for every version.
TEST_CASE("plan: whether a point can run is said alike everywhere") {
  const TemporaryFile written("runs.html");
  std::set<std::string> seen;
  for (const Generation& generation : generations()) {
    for (const Args& more : {Args{}, Args{"--gpu-memory", "1", "--weights", "0.9"}}) {
      Args args = {"--ep", "8", "--tokens", "64,16384", "--sglang", std::string(generation.name)};
      args.insert(args.end(), more.begin(), more.end());
      const Outcome text = plan(args);
      Args as_json = args, with_page = args;
      as_json.insert(as_json.end(), {"--format", "json"});
      with_page.insert(with_page.end(), {"--report", written.path});
      const nlohmann::json points = json_of(plan(as_json)).at("points");
      CHECK(plan(with_page).exit_code == text.exit_code);
      const std::string page = written.text();
      std::size_t row_of_text = text.out.find("can run\n"), row_of_page = page.find("<th scope=\"col\">can run</th>");
      REQUIRE(row_of_text != std::string::npos);
      REQUIRE(row_of_page != std::string::npos);
      bool some_cannot = false;
      for (const nlohmann::json& point : points) {
        const std::string runs = point.at("can_run");
        seen.insert(runs);
        some_cannot = some_cannot || runs == "no";
        CHECK((runs == "no") == !point.at("problems").empty());
        bool refused_in_decode = false, refused_in_prefill = false;
        for (const nlohmann::json& rule : point.at("slots")) {
          if (!rule.at("chosen").get<bool>() || rule.at("own_count_only").get<bool>() || rule.at("refused").is_null())
            continue;
          refused_in_decode = refused_in_decode || rule.at("path") == "eager_decode";
          refused_in_prefill = refused_in_prefill || rule.at("path") == "prefill";
        }
        if (runs == "yes") CHECK_FALSE((refused_in_decode || refused_in_prefill));
        if (runs == "prefill only") CHECK((refused_in_decode && !refused_in_prefill));
        if (runs == "decode only") CHECK((!refused_in_decode && refused_in_prefill));
        if (refused_in_decode && refused_in_prefill) CHECK(runs == "no");
        row_of_text = text.out.find('\n', row_of_text + 1);
        const std::string line =
            text.out.substr(row_of_text + 1, text.out.find('\n', row_of_text + 1) - row_of_text - 1);
        CHECK_MESSAGE(line.ends_with(runs), line);
        CHECK_MESSAGE((line.find("refused") != std::string::npos) == refused_in_decode, line);
        row_of_page = page.find("<tr>", row_of_page + 1);
        const std::string cells = page.substr(row_of_page, page.find("</tr>", row_of_page) - row_of_page);
        CHECK_MESSAGE(cells.find(runs) != std::string::npos, cells);
        CHECK((cells.find("refused") != std::string::npos) == refused_in_decode);
        const Outcome alone = plan({"--ep", "8", "--tokens", std::to_string(point.at("tokens_per_rank").get<int>()),
                                    "--sglang", std::string(generation.name)});
        if (more.empty()) {
          CHECK(alone.exit_code == (runs == "no" ? 1 : 0));
          CHECK(alone.out.find("can run: " + runs + "\n") != std::string::npos);
        }
      }
      CHECK(text.exit_code == (some_cannot ? 1 : 0));
    }
  }
  CHECK(seen == std::set<std::string>{"no", "prefill only", "yes"});
}

TEST_CASE("plan: text has the regions, both routings, the rules, the GPUs and the command to check") {
  const Outcome outcome = plan({"--ep", "8", "--tokens", "64", "--link-gbps", "3600"});
  CHECK(outcome.exit_code == 0);
  // What people ask first stands first: does it fit, and how long does it take.
  CHECK(outcome.out.rfind("FITS ON EVERY GPU LISTED: the workspace takes 898.7 MiB per rank; weights are not counted",
                          0) == 0);
  CHECK(outcome.out.find("time: dispatch and combine take at least") < outcome.out.find("left on one GPU"));
  CHECK(outcome.out.find("left on one GPU") < outcome.out.find("receive: hidden states"));
  CHECK(plan({"--ep", "8", "--tokens", "64", "--gpu-memory", "80", "--weights", "79.9"}).out.rfind("CANNOT RUN: ", 0) ==
        0);
  CHECK(contains(plan({"--ep", "8", "--tokens", "64", "--weights", "100"}).out, " GPUS LISTED: "));
  for (const char* part :
       {"receive: hidden states", "uniform (expected)", "worst case", "max over the gathered token counts",
        "the static cap max_num_tokens", "this rank's own rows", "H200", "= 450 GB/s", "--enable-dp-attention"})
    CHECK_MESSAGE(outcome.out.find(part) != std::string::npos, part);
  for (const std::string& line : {std::string("8      64"), std::string("16      64")})
    CHECK(plan({"--ep", "8,16", "--tokens", "64"}).out.find(line) != std::string::npos);
}

TEST_CASE("plan: --report draws a sweep, every number in words too") {
  const TemporaryFile written("plan.html");
  const auto page_of = [&](Args args) {
    args.insert(args.end(), {"--report", written.path});
    CHECK(plan(args).exit_code == 0);
    return written.text();
  };
  const auto count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const Args sweep = {"--ep", "8,16,32", "--tokens", "64,8192", "--link-gbps", "400"};
  const std::string page = page_of(sweep);
  CHECK(page == page_of(sweep));
  CHECK(count(page, "role=\"img\"") == 7);
  CHECK(count(page, "<rect class=\"heat") == 7 * 6);
  CHECK(count(page, "<rect class=\"heat none\"") == 3);  // 8192 tokens are above the cap
  CHECK(page.find("ep 16, tokens per DP rank 64: 1024;") != std::string::npos);
  CHECK(page.find("ep 32, tokens per DP rank 8192: prefill only;") != std::string::npos);
  CHECK(page.find("Note:") != std::string::npos);
  const std::string one = page_of({"--ep", "8", "--tokens", "64", "--weights", "70"});
  CHECK(count(one, "role=\"img\"") == 0);
  for (const char* part : {"898.7 MiB per rank", "receive: hidden states", "static cap", "H200", "--dp-size 8"})
    CHECK_MESSAGE(one.find(part) != std::string::npos, part);
  const Outcome nowhere = plan({"--ep", "8", "--tokens", "64", "--report", "/no/such/folder/x.html"});
  CHECK(nowhere.exit_code == 2);
  CHECK(nowhere.out.empty());
  CHECK(nowhere.err.find("--report") != std::string::npos);
}

TEST_CASE("plan: presets, and fp8 as a word for mxfp8") {
  const Args args = {"--ep", "8", "--tokens", "64", "--format", "json"};
  CHECK(plan(args, {"--model", "DeepSeek-V3"}).out == plan(args).out);
  Args fp8 = args, mxfp8 = args;
  fp8.insert(fp8.end(), {"--dispatch-dtype", "fp8"});
  mxfp8.insert(mxfp8.end(), {"--dispatch-dtype", "mxfp8"});
  CHECK(plan(fp8).out == plan(mxfp8).out);
  CHECK(json_of(plan(fp8)).at("dispatch_dtype") == "mxfp8");
}

TEST_CASE("plan: what cannot be used is said in one line, with exit code 2") {
  const Args sizes = {"--ep", "8", "--tokens", "64"};
  const auto refused = [&](Args args, const Args& shape, const std::string& part) {
    const Outcome outcome = plan(std::move(args), shape);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK_MESSAGE(outcome.err.find(part) != std::string::npos, outcome.err);
  };
  refused(sizes, {}, "no model");
  refused({"--tokens", "64"}, kShape, "--ep is missing");
  refused({"--ep", "8"}, kShape, "--tokens is missing");
  for (const std::string bad : {"1", "0", "-8", "8,", ",8", "8;16", "1e3", "2000", "99999999999999999999"})
    refused({"--ep=" + bad, "--tokens", "64"}, kShape, "--ep takes a whole number");
  refused({"--ep", "", "--tokens", "64"}, kShape, "--ep takes a whole number");
  refused({"--ep", "8", "--tokens", "9223372036854775807"}, kShape, "--tokens takes a whole number");
  refused({"--ep", "8", "--tokens", "64", "--dispatch-dtype", "fp4"}, kShape, "--dispatch-dtype takes one of");
  refused({"--ep", "8", "--tokens", "64", "--combine-dtype", "nvfp4"}, kShape, "--combine-dtype takes one of");
  refused({"--ep", "8", "--tokens", "64", "--dispatch-dtype", "mxfp8", "--sglang", "pr30450"}, kShape, "pr35758");
  refused({"--ep", "8", "--tokens", "64", "--attn-tp-size", "3"}, kShape, "no multiple");
  refused({"--ep", "512", "--tokens", "64"}, kShape, "more than the 256 experts");
  refused({"--ep", "8", "--tokens", "64", "--link-gbps", "0"}, kShape, "--link-gbps takes Gbit/s");
  refused({"--ep", "8", "--tokens", "64", "--link-gbps", "nan"}, kShape, "--link-gbps takes Gbit/s");
  refused({"--ep", "8", "--tokens", "64", "--weights", "-1"}, kShape, "--weights takes GiB");
  refused({"--ep", "8", "--tokens", "64", "--sglang", "v0.5.8"}, kShape, "--sglang v0.5.8");
  refused({"--ep", "8", "--tokens", "64", "--dispatch-dtype", "nvfp4"},
          {"--num-experts", "8", "--top-k", "2", "--hidden-size", "24"}, "one scale stands for 16 elements");
  refused({"--ep", "256", "--tokens", "64", "--max-num-tokens", "2147483647"},
          {"--num-experts", "1048576", "--top-k", "1048576", "--hidden-size", "1048576"}, "2^62 bytes");
  refused({"--ep", "1024", "--tokens", "1048576", "--layers", "1024"},
          {"--num-experts", "1048576", "--top-k", "1048576", "--hidden-size", "1048576"}, "2^62 bytes");
}

}  // namespace a2asim
