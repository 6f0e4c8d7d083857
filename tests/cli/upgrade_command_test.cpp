// a2asim upgrade: what appears, what goes, what stays, for one launch of SGLang.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/launches.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

Outcome upgrade(std::vector<std::string> options, const std::string& more = "") {
  options.insert(options.begin(), "upgrade");
  options.emplace_back("--");
  return run(with_words(std::move(options), kCollapsing + " " + more));
}

json server_of(const Outcome& done) { return json::parse(done.out).at("servers").at(0); }

}  // namespace

TEST_CASE("upgrade: what both versions find neither appears nor goes") {
  const Outcome same = upgrade({"--from", "pr25907", "--to", "pr26643", "--format", "json"});
  CHECK(same.exit_code == 1);  // it disagrees after the upgrade, too
  const json one = server_of(same);
  CHECK(one["verdict_before"] == "disagrees");
  CHECK(one["verdict_after"] == "disagrees");
  CHECK(one["findings_appeared"].empty());
  CHECK(one["findings_gone"].empty());
  const Outcome text = upgrade({"--from", "pr25907", "--to", "pr26643"});
  CHECK(contains(text.out, "verdict disagrees (as before)"));
  CHECK(contains(text.out, "1 server: 0 change verdict, 1 with an error after the upgrade"));
  CHECK_FALSE(contains(text.out, "findings that"));
}

TEST_CASE("upgrade: a finding that the new version has not goes without its fix, one that only it has comes with it") {
  const std::string more = "--max-running-requests 4096";  // beyond the graphs, too
  const Outcome up = upgrade({"--from", "pr26643", "--to", "v0.5.16", "--format", "json"}, more);
  CHECK(up.exit_code == 0);
  const json gone = server_of(up)["findings_gone"];
  REQUIRE(gone.size() == 3);  // graph decode, eager decode, prefill
  CHECK(server_of(up)["findings_appeared"].empty());
  const json words = json::parse(upgrade({"--from", "v0.5.16", "--to", "pr26643", "--format", "json"}, more).out);
  const json appeared = words["servers"][0]["findings_appeared"];
  REQUIRE(appeared.size() == 3);
  CHECK(words["servers"][0]["findings_gone"].empty());
  const char* phases[] = {"graph decode", "eager decode", "prefill"};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string away = gone[i], here = appeared[i];
    CHECK(away.starts_with(std::string("error: geometry_disagreement in ") + phases[i] + ": "));
    CHECK_FALSE(contains(away, "fix: "));
    CHECK(here.starts_with(away + "; fix: remove --enable-dp-lm-head"));
  }
}

TEST_CASE("upgrade: an option that is gone, one whose default moved, and one that the command gives itself") {
  const json without = server_of(upgrade({"--from", "v0.5.16", "--to", "pr26643", "--format", "json"}));
  const json with = server_of(upgrade({"--from", "v0.5.16", "--to", "pr26643", "--format", "json"},
                                      "--hicache-mem-layout page_first --bf16-gemm-backend auto"));
  const std::string moved = "--hicache-mem-layout: \"page_first\" -> \"layer_first\"";
  const auto lists = [](const json& list, const std::string& text) {
    return std::find(list.begin(), list.end(), json(text)) != list.end();
  };
  CHECK(lists(without["defaults_moved"], moved));
  CHECK_FALSE(lists(with["defaults_moved"], moved));
  CHECK(without["options_vanished"].empty());
  CHECK(with["options_vanished"] == json{"--bf16-gemm-backend"});
}

TEST_CASE("upgrade: what changes, in one screen") {
  const TemporaryFile file("serve.sh", kCollapsing + "\n");
  const Outcome outcome = run({"upgrade", "--from", "v0.5.13", "--to", "v0.5.16", file.path});
  CHECK(outcome.exit_code == kNothingWrong);
  CHECK(contains(outcome.out, "disagrees -> agrees"));
  CHECK(contains(outcome.out, "geometry_disagreement"));
  CHECK(contains(outcome.out, "options that are new"));
  CHECK(std::ranges::count(outcome.out, '\n') <= 24);
  const json one = json::parse(
      run({"upgrade", "--from", "v0.5.13", "--to", "v0.5.16", "--format", "json", file.path}).out)["servers"][0];
  CHECK(one["verdict_before"] == "disagrees");
  CHECK(one["verdict_after"] == "agrees");
  CHECK(run({"upgrade", "--from", "v0.5.16", "--to", "v0.5.13", file.path}).exit_code == kErrorFound);
  CHECK(run({"upgrade", "--from", "nothing", file.path}).exit_code == kUnusableInput);
  CHECK(run({"upgrade", file.path}).exit_code == kUnusableInput);
}

}  // namespace a2asim
