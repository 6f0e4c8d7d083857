// Replaying many files with many threads: the same bytes as with one, and the first unusable file is the one named.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(A2ASIM_SOURCE_DIR "/sim/scenarios"))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  std::ranges::sort(files);
  return files;
}

Outcome replay_with(const std::string& threads, const std::vector<std::string>& files) {
  std::vector<std::string> args = {"replay", "--format", "json", "--threads", threads};
  args.insert(args.end(), files.begin(), files.end());
  return run(args);
}

TEST_CASE("threads share the files of replay") {
  const std::vector<std::string> files = scenario_files();
  REQUIRE(files.size() > 10);
  const Outcome one = replay_with("1", files), many = replay_with("8", files);
  CHECK(one.exit_code == 0);
  CHECK(many.exit_code == one.exit_code);
  CHECK(many.out == one.out);
  CHECK(many.err == one.err);
}

TEST_CASE("of several unusable files the first is named, whoever read it") {
  std::vector<std::string> files = scenario_files();
  files.insert(files.begin() + 2, "no_such_file_one.yaml");
  files.push_back("no_such_file_two.yaml");
  for (const char* threads : {"1", "8"}) {
    const Outcome outcome = replay_with(threads, files);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.find("no_such_file_one.yaml") != std::string::npos);
    CHECK(outcome.err.find("no_such_file_two.yaml") == std::string::npos);
  }
  CHECK(replay_with("0", files).exit_code == 2);
}

}  // namespace
}  // namespace a2asim
