// conform, and --sglang-source of the other commands, on a package of our own in SGLang's shape.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kPackage = A2ASIM_SOURCE_DIR "/tests/data/source_package";

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A copy of the package with the changes that tests/data/source_variants.json lists under the name.
class Package {
 public:
  explicit Package(const std::string& variant) {
    fs::copy(kPackage, path, fs::copy_options::recursive);
    const Json variants = Json::parse(read(kPackage.parent_path() / "source_variants.json"));
    for (const Json& change : variants.at(variant)) replace(change[0], change[1], change[2]);
  }
  ~Package() { fs::remove_all(path); }
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  void replace(const std::string& file, const std::string& text, const std::string& with) const {
    const fs::path changed = path / "python" / "sglang" / "srt" / file;
    std::string whole = read(changed);
    const std::size_t at = whole.find(text);
    REQUIRE_MESSAGE(at != std::string::npos, file, " has no ", text);
    whole.replace(at, text.size(), with);
    std::ofstream(changed, std::ios::binary) << whole;
  }
  std::string str() const { return path.string(); }

  const fs::path path = fs::temp_directory_path() / fmt::format("a2asim_source_{}_{}", ::getpid(), ++made);

 private:
  static inline int made = 0;
};

Json conform(const std::string& folder, std::vector<std::string> more, int exit_code) {
  std::vector<std::string> args = {"conform", "--sglang-source", folder, "--format", "json", "--budget", "300"};
  args.insert(args.end(), more.begin(), more.end());
  const Outcome outcome = run(args);
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == exit_code);
  return Json::parse(outcome.out);
}

const Json& kind_of(const Json& report, const std::string& kind) {
  for (const Json& one : report.at("kinds"))
    if (one.at("kind") == kind) return one;
  FAIL("no kind ", kind);
  return report;
}

TEST_CASE("conform finds the package equal to the version whose rules it has, in every kind") {
  const Json report = conform(kPackage.string(), {}, 0);
  CHECK(report["nearest"]["generation"] == "pr29461");
  CHECK(report["nearest"]["equal_kinds"] == 8);
  for (const Json& kind : report["kinds"]) {
    CAPTURE(kind.dump());
    CHECK(kind["not_loaded"].is_null());
    CHECK(kind["differing"] == 0);
    CHECK(kind["questions"] > 40);
  }
}

TEST_CASE("conform against another version gives the smallest question with two answers") {
  const Json report = conform(kPackage.string(), {"--against", "pr30450"}, 1);
  const Json& gather = kind_of(report, "gather");
  REQUIRE(gather["differing"] > 0);
  const Json question = Json::parse(gather["smallest"]["question"].get<std::string>());
  CHECK(question["moe_a2a_backend"] == "flashinfer");
  CHECK(question["enable_dp_lm_head"] == true);
  CHECK(kind_of(report, "capture")["differing"] == 0);
  CHECK(report["nearest"]["generation"] == "pr29461");
}

TEST_CASE("one changed word of the dispatcher is found") {
  const Package minimum("minimum");
  const Json report = conform(minimum.str(), {}, 1);
  CHECK(report["nearest"]["equal_kinds"] == 7);
  const Json& sizing = kind_of(report, "sizing");
  CHECK(sizing["differing"] > 0);
  CHECK(Json::parse(sizing["smallest"]["question"].get<std::string>())["dp_global"].size() >= 2);
  CHECK(run({"explore", "--sglang", "pr29461", "--sglang-source", minimum.str(), "--budget", "3000"}).exit_code == 1);
}

// Named: the file, the function, and what was expected.
void check_not_loaded(const std::string& variant, const std::string& kind, const std::vector<std::string>& says) {
  const Package package(variant);
  const Json report = conform(package.str(), {}, 2);
  const std::string why = kind_of(report, kind)["not_loaded"].get<std::string>();
  INFO(why);
  for (const std::string& part : says) CHECK(contains(why, part));
  CHECK(kind_of(report, "sizing")["differing"] == 0);
  CHECK(report["nearest"]["generation"] == "pr29461");
}

TEST_CASE("a function that was renamed is named with its file, and the other kinds are asked") {
  check_not_loaded("renamed", "sync", {"dp_attn.py", "prepare_mlp_sync_batch_raw", "there is none"});
}

TEST_CASE("an argument that nobody knows is named") {
  check_not_loaded("signature", "sync", {"dp_attn.py", "prepare_mlp_sync_batch_raw", "rank_table"});
}

TEST_CASE("what raises while it is loaded is named with its line") {
  check_not_loaded("raising", "capture",
                   {"base_cuda_graph_runner.py:", "raised while it was loaded", "ZeroDivisionError"});
}

TEST_CASE("what a stand-in lacks is no answer of the code: the kind is named, and comes from the version") {
  check_not_loaded("lacking", "sync", {"dp_attn.py:", "a stand-in does not fit", "'Ints' object has no attribute"});
  const Package package("lacking");
  const Outcome explored =
      run({"explore", "--sglang", "pr29461", "--sglang-source", package.str(), "--budget", "50", "--format", "json"});
  CHECK(contains(explored.out, "sync could not be loaded: "));
}

TEST_CASE("code that answers one question in two ways is no answer") {
  const Package package("random");
  const Outcome outcome = run({"conform", "--sglang-source", package.str(), "--budget", "100"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(contains(outcome.err, "to one question"));
}

TEST_CASE("variables of who asks, and of the question before, do not reach the code") {
  const Package package("environment");
  ::setenv("SGLANG_ASKED", "1", 1);
  const Json report = conform(package.str(), {}, 0);
  ::unsetenv("SGLANG_ASKED");
  CHECK(kind_of(report, "startup")["differing"] == 0);
}

TEST_CASE(
    "explore finds the defect of the package, and replay of its scenario confirms it, and with the fix there is none") {
  const Package fixed("fixed");
  const fs::path out = fixed.path / "witnesses";
  const std::vector<std::string> more = {"--sglang", "pr29461", "--budget", "20000"};
  std::vector<std::string> args = {"explore", "--sglang-source", kPackage.string(), "--out", out.string()};
  args.insert(args.end(), more.begin(), more.end());
  const Outcome found = run(args);
  INFO(found.out << found.err);
  CHECK(found.exit_code == 1);
  const std::string file = (out / "pr29461-collapsed-graph_decode-disagrees.yaml").string();
  REQUIRE(fs::exists(file));
  const Outcome replayed = run({"replay", "--sglang-source", kPackage.string(), "--format", "json", file});
  CHECK(replayed.exit_code == 1);
  CHECK(Json::parse(replayed.out)["scenarios"][0]["verdict"] == "disagrees");
  CHECK(run({"replay", "--sglang-source", fixed.str(), file}).exit_code == 0);
  args[2] = fixed.str();
  const Outcome none = run(args);
  INFO(none.out << none.err);
  CHECK(none.exit_code == 0);
}

TEST_CASE("before the middle branch the collapse is found in eager steps") {
  const Package before("before");
  const Outcome found = run({"explore", "--sglang", "pr26643", "--sglang-source", before.str(), "--budget", "20000"});
  CHECK(found.exit_code == 1);
  CHECK(contains(found.out, "eager_decode"));
}

TEST_CASE("explore over code outside does not depend on threads") {
  std::vector<std::string> outputs;
  for (const char* threads : {"1", "3"})
    outputs.push_back(run({"explore", "--sglang", "pr29461", "--sglang-source", kPackage.string(), "--budget", "2000",
                           "--threads", threads, "--format", "json"})
                          .out);
  CHECK_FALSE(outputs[0].empty());
  CHECK(outputs[0] == outputs[1]);
}

const std::vector<std::string> kLaunch = {"--",
                                          "python3",
                                          "-m",
                                          "sglang.launch_server",
                                          "--model-path",
                                          "M",
                                          "--tp",
                                          "4",
                                          "--dp",
                                          "4",
                                          "--enable-dp-attention",
                                          "--enable-dp-lm-head",
                                          "--moe-dense-tp-size",
                                          "1",
                                          "--moe-a2a-backend",
                                          "flashinfer",
                                          "--moe-runner-backend",
                                          "flashinfer_cutlass",
                                          "--cuda-graph-max-bs",
                                          "8",
                                          "--chunked-prefill-size",
                                          "4096",
                                          "--max-running-requests",
                                          "64"};

Outcome run_with(std::vector<std::string> args, const std::vector<std::string>& launch) {
  args.insert(args.end(), launch.begin(), launch.end());
  return run(args);
}

// Without its line ends.
std::string flat(const std::string& text) {
  std::istringstream words(text);
  std::string out, word;
  while (words >> word) out += (out.empty() ? "" : " ") + word;
  return out;
}

TEST_CASE("check says which kinds the code answers, and finds the defect of the launch") {
  const Package fixed("fixed");
  for (const bool is_fixed : {false, true}) {
    const std::string folder = is_fixed ? fixed.str() : kPackage.string();
    const Outcome outcome = run_with({"check", "--verbose", "--sglang", "pr29461", "--sglang-source", folder}, kLaunch);
    INFO(outcome.out << outcome.err);
    CHECK(outcome.exit_code == (is_fixed ? 0 : 1));
    CHECK(contains(flat(outcome.out), "fix remove --enable-dp-lm-head") != is_fixed);
    CHECK(contains(flat(outcome.out), "answers startup, gather, sync, padding, capture, bucket, sizing, cap"));
  }
}

TEST_CASE("check takes the version nearest to the checkout, and asks it about servers of its engine only") {
  const std::vector<std::string> args = {"check", "--verbose", "--sglang-source", kPackage.string()};
  const Outcome own = run_with(args, kLaunch);
  INFO(own.out << own.err);
  CHECK(own.exit_code == 1);
  CHECK(contains(own.out, "nearest to the checkout"));
  CHECK(contains(own.out, "pr29461"));
  const Outcome other = run_with(args, {"--", "vllm", "serve", "M", "-dp", "8", "--enable-expert-parallel"});
  INFO(other.out << other.err);
  CHECK(contains(other.out, "vllm"));
  CHECK_FALSE(contains(flat(other.out), "answers startup"));
}

TEST_CASE("upgrade to a checkout says what its code changes, and which kinds it answers") {
  const Package fixed("fixed");
  for (const bool is_fixed : {false, true}) {
    const std::string folder = is_fixed ? fixed.str() : kPackage.string();
    const Outcome outcome =
        run_with({"upgrade", "--from", "pr29461", "--sglang-source", folder, "--format", "json"}, kLaunch);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == (is_fixed ? 0 : 1));
    const Json server = Json::parse(outcome.out)["servers"][0];
    CHECK(server["verdict_before"] == "disagrees");
    CHECK(server["verdict_after"] == (is_fixed ? "agrees" : "disagrees"));
    CHECK(contains(server["to"].get<std::string>(), "--sglang-source"));
    CHECK(contains(server["rules"].get<std::string>(), "answers startup, gather"));
  }
}

TEST_CASE("explore and replay say which kinds come from where") {
  const Package renamed("renamed");
  const Outcome explored =
      run({"explore", "--sglang", "pr29461", "--sglang-source", renamed.str(), "--budget", "50", "--format", "json"});
  INFO(explored.err);
  const std::string answered = Json::parse(explored.out)["answered"].get<std::string>();
  CHECK(contains(answered, "sync and everything else come from pr29461"));
  CHECK(contains(answered, "sync could not be loaded: "));
  const Outcome replayed = run({"replay", "--sglang-source", renamed.str(), "--sglang", "pr29461",
                                A2ASIM_SOURCE_DIR "/sim/scenarios/collapse.yaml"});
  CHECK(contains(flat(replayed.out), "sync could not be loaded: "));
}

TEST_CASE("what cannot be asked is one line") {
  const auto refused = [](const std::vector<std::string>& args, const std::string& says) {
    const Outcome outcome = run(args);
    INFO(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, says));
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
  };
  refused({"conform"}, "--sglang-source DIR");
  refused({"upgrade", "--sglang-source", "/nowhere", A2ASIM_SOURCE_DIR "/tools/examples/collapse.sh"},
          "no SGLang checkout");
  refused({"check", "--sglang", "all", "--sglang-source", kPackage.string(),
           A2ASIM_SOURCE_DIR "/tools/examples/collapse.sh"},
          "is one version");
  refused({"explore", "--vllm", "v0.12.0", "--sglang-source", kPackage.string()}, "leave out --vllm");
  refused({"conform", "--sglang-source", "/nowhere"}, "no SGLang checkout");
  refused({"conform", "--sglang-source", A2ASIM_SOURCE_DIR "/tests/data/logs"}, "no SGLang checkout");
  refused({"conform", "--sglang-source", kPackage.string(), "--against", "pr1"}, "--against");
  refused({"conform", "--sglang-source", kPackage.string(), "--budget", "0"}, "--budget");
  refused({"explore", "--sglang-source", kPackage.string(), "--rule-cmd", "true"}, "give one");
}

TEST_CASE("--engine-cmd asks a program that speaks the protocol") {
  const std::string program = "python3 '" A2ASIM_SOURCE_DIR "/tools/sglang_source' '" + kPackage.string() + "'";
  const Outcome outcome = run({"conform", "--engine-cmd", program, "--budget", "50"});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.out, "the code behaves as pr29461 in 8 of 8 kinds"));
}

}  // namespace
}  // namespace a2asim
