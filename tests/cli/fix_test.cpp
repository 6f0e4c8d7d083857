// A fix that check offers is tried: the command is changed as the text says, and checked again.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "model/engines/sglang/generation.h"
#include "tests/cli/launches.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

struct Launch {
  std::string sglang;
  std::vector<std::string> words;
  std::map<std::string, std::string> env;
  std::int64_t top_k = 8;

  std::string text() const {
    std::string out = "--sglang " + sglang + " ";
    for (const auto& [name, value] : env) out += name + "=" + value + " ";
    for (const std::string& word : words) out += word + " ";
    return out;
  }
};

json check(const Launch& launch) {
  std::vector<std::string> args = {"check",         "--format",    "json",
                                   "--sglang",      launch.sglang, "--num-experts",
                                   "256",           "--top-k",     std::to_string(launch.top_k),
                                   "--hidden-size", "7168"};
  for (const auto& [name, value] : launch.env) args.insert(args.end(), {"--env", name + "=" + value});
  args.push_back("--");
  args.insert(args.end(), launch.words.begin(), launch.words.end());
  const Outcome outcome = run(args);
  REQUIRE_MESSAGE(outcome.err.empty(), outcome.err);
  return json::parse(outcome.out);
}

bool is_good(const json& report) { return report.at("verdict") == "agrees" || report.at("verdict") == "out_of_scope"; }

const json* first_error(const json& report) {
  const json& all = report.at("findings");
  const auto found = std::ranges::find_if(all, [](const json& one) { return one.at("severity") == "error"; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<std::string> split(std::string text, const std::string& by) {
  std::vector<std::string> parts;
  for (std::size_t at; (at = text.find(by)) != std::string::npos; text.erase(0, at + by.size()))
    parts.push_back(text.substr(0, at));
  parts.push_back(text);
  return parts;
}

void leave_out(Launch& launch, const std::string& flag) {
  launch.env.erase(flag);
  const auto found = std::ranges::find(launch.words, flag);
  if (found == launch.words.end()) return;
  const bool has_value = found + 1 != launch.words.end() && !(found + 1)->starts_with("--");
  launch.words.erase(found, found + (has_value ? 2 : 1));
}

void set(Launch& launch, const std::string& name, const std::string& value) {
  if (name.starts_with("--")) {
    launch.words.insert(launch.words.end(), {name, value});
  } else {
    launch.env[name] = value;
  }
}

// One clause of a fix, with the verb of the one before where it has none; false: words for people only.
bool apply(const std::string& clause, std::string& verb, Launch& launch) {
  static const std::regex with_verb("^ *(leave out|unset|give|use|set|raise|lower) (.*)$");
  std::smatch match;
  std::string rest = clause;
  if (std::regex_match(clause, match, with_verb)) {
    verb = match[1];
    rest = match[2];
  }
  if (verb == "leave out" || verb == "unset") {
    if (!std::regex_search(rest, match, std::regex("^ *([-A-Za-z0-9_]+)"))) return false;
    leave_out(launch, match[1]);
    return true;
  }
  if (std::regex_search(rest, match, std::regex("^SGLang (?:of |with #)([-0-9]+)"))) {
    launch.sglang = match[1];
    return true;
  }
  if (std::regex_search(rest, match, std::regex("^([-A-Za-z0-9_]+)(?: to(?: at most)? |=)([0-9]+)"))) {
    set(launch, match[1], match[2]);
    return true;
  }
  if (!rest.starts_with("--")) return false;
  for (const std::string& word : split(rest, " "))
    if (!word.empty()) launch.words.push_back(word);
  return true;
}

// The launches that a fix offers. What stands in parentheses or behind a colon explains.
std::vector<Launch> fixed(const Launch& launch, const std::string& fix) {
  std::vector<Launch> out;
  std::string plain = std::regex_replace(fix, std::regex(" ?\\([^)]*\\)"), "");
  plain = std::regex_replace(plain, std::regex(": [^;]*"), "");
  for (const std::string& independent : split(plain, "; or ")) {
    std::string verb = "give";
    for (const std::string& alternative : split(independent, ", or ")) {
      Launch next = launch;
      bool understood = true;
      for (const std::string& clause : split(alternative, ", and "))
        understood = understood && apply(clause, verb, next);
      if (understood) out.push_back(next);
    }
  }
  return out;
}

// The same of fixes that come as steps.
std::vector<Launch> edited(const Launch& launch, const json& fixes) {
  std::vector<Launch> out;
  for (const json& fix : fixes) {
    CHECK_MESSAGE(fix.at("cures") == true, launch.text(), fix.dump());
    Launch& next = out.emplace_back(launch);
    for (const json& step : fix.at("steps")) {
      const std::string what = step.at("do"), name = step.at("name");
      if (what == "upgrade") next.sglang = name;
      if (what == "remove_flag" || what == "unset_variable" || what == "set_flag") leave_out(next, name);
      if (what == "set_variable") next.env[name] = step.at("values").at(0);
      if (what != "set_flag") continue;
      next.words.push_back(name);
      for (const json& value : step.at("values")) next.words.push_back(value);
    }
  }
  return out;
}

// Follows the first fix that is offered, for as long as something is wrong; every other one must do no less.
void follow(Launch launch, const std::string& of) {
  constexpr int kMostRounds = 4;
  for (int round = 0; round < kMostRounds; ++round) {
    const json report = check(launch);
    if (is_good(report)) return;
    const json* error = first_error(report);
    REQUIRE_MESSAGE(error != nullptr, launch.text());
    const std::string fix = error->at("fix");
    const std::vector<Launch> offers =
        error->at("fixes").empty() ? fixed(launch, fix) : edited(launch, error->at("fixes"));
    REQUIRE_MESSAGE(!offers.empty(), launch.text(), "\nfix: ", fix);
    for (const Launch& offer : offers) {
      const json after = check(offer);
      const json* left = first_error(after);
      CHECK_MESSAGE((left == nullptr || left->at("message") != error->at("message")), of, "\nbefore: ", launch.text(),
                    "\nfix: ", fix, "\nafter: ", offer.text());
      CHECK_MESSAGE((report.at("verdict") == "rejected" || after.at("verdict") != "rejected"), offer.text());
    }
    launch = offers.front();
  }
  FAIL_CHECK("still wrong after ", kMostRounds, " fixes: ", of, "\nnow: ", launch.text());
}

const std::vector<std::string> kLaunches = {
    // refused at the start
    "--tp 4 --moe-a2a-backend flashinfer",
    "--tp 4 --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass",
    "--tp 4 --dp 2 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass",
    "--tp 8 --dp 3 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass",
    "--tp 8 --dp 3 --enable-dp-attention --moe-a2a-backend deepep",
    "--tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutedsl",
    "--tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend triton",
    "--tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutedsl "
    "--quantization modelopt_fp4 --max-prefill-tokens 65536",
    "--tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer --quantization fp8 --moe-runner-backend "
    "flashinfer_cutlass",
    "--tp 4 --dp 4 --enable-dp-lm-head --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass",
    "--tp 4 --dp 4 --enable-dp-attention --max-running-requests 2 --moe-a2a-backend flashinfer --moe-runner-backend "
    "flashinfer_cutlass",
    "--tp 1 --moe-a2a-backend flashinfer",
    "--tp 8 --dp 2 --enable-dp-attention --cuda-graph-bs 1 --moe-a2a-backend flashinfer --moe-runner-backend "
    "flashinfer_cutlass",
    "--tp 128 --dp 128 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass",
    "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep --deepep-mode normal --moe-runner-backend "
    "flashinfer_cutedsl --quantization modelopt_fp4",
    // disagreeing, or above the cap
    "--tp 4 --dp 4 --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 --moe-a2a-backend flashinfer "
    "--moe-runner-backend flashinfer_cutlass",
    "--tp 4 --dp 4 --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 --disable-cuda-graph "
    "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass",
    "--tp 4 --dp 4 --enable-dp-attention --chunked-prefill-size 65536 --max-running-requests 64 --moe-a2a-backend "
    "flashinfer --moe-runner-backend flashinfer_cutlass",
};

// Options that only some versions have.
const std::vector<std::pair<std::string, std::string>> kLaterLaunches = {
    {"pr35758", "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep_v2 --moe-runner-backend triton"},
    {"main20260823", "--tp 8 --moe-a2a-backend pplx"},
    {"main20260823",
     "--tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend pplx --cuda-graph-max-bs 64 --chunked-prefill-size 8192"},
    {"pr26643", "--tp 8 --moe-a2a-backend mori --chunked-prefill-size 16384"},
};

Launch launch_of(std::string_view sglang, const std::string& flags) {
  return {std::string(sglang), split("python3 -m sglang.launch_server --model-path M " + flags, " "), {}};
}

}  // namespace

TEST_CASE("fix: what check offers fixes the launch, in every version") {
  for (const Generation& generation : generations())
    for (const std::string& flags : kLaunches) follow(launch_of(generation.name, flags), flags);
  for (const auto& [sglang, flags] : kLaterLaunches) follow(launch_of(sglang, flags), flags);
}

TEST_CASE("fix: of a command the first fix that cures it is shown, and no second") {
  const std::string wanted = kAgreeing + " --moe-dense-tp-size 1";
  CHECK(run(with_words({"check", "--sglang", "pr26643", "--fix", "--"}, kCollapsing)).out ==
        "--- a/command\n+++ b/command\n@@ -1,1 +1,1 @@\n-" + kCollapsing + "\n+" + wanted + "\n");
}

TEST_CASE("fix: environments and shapes that are refused") {
  for (const Generation& generation : generations()) {
    Launch launch = launch_of(generation.name,
                              "--tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend "
                              "flashinfer_cutlass --chunked-prefill-size 16384 --max-running-requests 64");
    Launch small = launch, odd = launch;
    launch.env["SGLANG_SCHEDULER_SKIP_ALL_GATHER"] = "1";
    follow(launch, "SGLANG_SCHEDULER_SKIP_ALL_GATHER");
    small.env["SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK"] = "16";
    follow(small, "a small cap");
    for (const std::int64_t top_k : {std::int64_t{7}, std::int64_t{10}, std::int64_t{14}}) {
      odd.top_k = top_k;
      follow(odd, "top_k " + std::to_string(top_k));
    }
  }
}

TEST_CASE("fix: changes that are needed together are offered together") {
  const json report = check(launch_of("pr29461", kLaunches.front()));
  CHECK(report.at("verdict") == "rejected");
  CHECK(first_error(report)->at("fix") ==
        "add --enable-dp-attention, and set --dp-size 4 (now 1), and set --moe-runner-backend flashinfer_cutlass (now "
        "auto)");
}

}  // namespace a2asim
