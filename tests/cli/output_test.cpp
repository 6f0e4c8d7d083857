// Files that commands write, and what reaches standard output.
#include "tools/program/output.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/run.h"
#include "tools/program/json_document.h"
#include "tools/program/template.h"

namespace a2asim {
namespace {

namespace fs = std::filesystem;

struct OutputFolder {
  fs::path path = fs::temp_directory_path() / ("a2asim_output_" + std::to_string(::getpid()));
  OutputFolder() { fs::create_directories(path); }
  ~OutputFolder() { fs::remove_all(path); }
  std::string at(const std::string& name) const { return (path / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return at(name);
  }
  std::size_t files() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {})); }
};

std::string contents_of(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string refusal(const std::vector<OutputPath>& outputs, const std::vector<std::string>& inputs) {
  const auto apart = check_outputs(outputs, inputs);
  return apart ? "" : apart.error().message;
}

TEST_CASE("output: written whole, beside and renamed, with the mode that was there and through a link") {
  const OutputFolder folder;
  const std::string file = folder.write("a", "before");
  ::chmod(file.c_str(), 0640);
  fs::create_symlink("a", folder.path / "link");
  REQUIRE(write_output("--out", folder.at("link"), "after"));
  CHECK(contents_of(file) == "after");
  CHECK(fs::is_symlink(folder.path / "link"));
  CHECK((fs::status(file).permissions() & fs::perms::mask) == static_cast<fs::perms>(0640));
  REQUIRE(write_output("--out", folder.at("new"), "x"));
  CHECK(folder.files() == 3);  // nothing is left beside
  REQUIRE(write_output("--out", "/dev/null", "x"));
}

TEST_CASE("output: what cannot be written leaves what was there, and the reason is said") {
  const OutputFolder folder;
  const auto nowhere = write_output("--out", folder.at("no/where"), "x");
  REQUIRE_FALSE(nowhere);
  CHECK(contains(nowhere.error().message, "No such file or directory"));
  const auto full = write_output("--report", "/dev/full", "x");
  REQUIRE_FALSE(full);
  CHECK(contains(full.error().message, "--report: cannot write '/dev/full': No space left on device"));
  CHECK_FALSE(write_output("--out", folder.path.string(), "x"));
  CHECK(folder.files() == 0);
}

TEST_CASE("output: a file that cannot take its name is said, and the one beside is gone") {
  const OutputFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path);
  const auto unnamed = write_output("--out", "", "x");
  fs::current_path(before);
  REQUIRE_FALSE(unnamed);
  CHECK(unnamed.error().message ==
        "--out: cannot write '': No such file or directory; give a path that can be written");
  CHECK(folder.files() == 0);
}

TEST_CASE("output: an output that is an input or another output is refused") {
  const OutputFolder folder;
  const std::string input = folder.write("in.sh", "x");
  fs::create_hard_link(input, folder.path / "hard");
  fs::create_symlink("in.sh", folder.path / "soft");
  for (const std::string& name : {input, folder.at("hard"), folder.at("soft"), folder.at("./in.sh")})
    CHECK(contains(refusal({{"--report", name}}, {input}), "which it would replace"));
  CHECK(contains(
      refusal({{"--trace", folder.at("a")}, {"--report", folder.at("../") + folder.path.filename().string() + "/a"}},
              {}),
      "is the output of --trace"));
  CHECK(refusal({{"--trace", folder.at("a")}, {"--report", folder.at("b")}}, {input}).empty());
  CHECK(refusal({{"--trace", "/dev/null"}, {"--report", "/dev/null"}}, {"/dev/null"}).empty());
  CHECK(refusal({{"--report", std::nullopt}}, {input, "-", folder.at("missing")}).empty());
}

TEST_CASE("output: every command refuses to replace what it reads") {
  const OutputFolder folder;
  const std::string scenario = folder.write("s.yaml", contents_of(A2ASIM_SOURCE_DIR "/sim/scenarios/idle_rank.yaml"));
  const std::string before = contents_of(scenario);
  const std::string launch = folder.write("l.sh", contents_of(A2ASIM_SOURCE_DIR "/tools/examples/collapse.sh"));
  const std::string log = folder.write("x.log", contents_of(A2ASIM_SOURCE_DIR "/tests/data/logs/collapse.log"));
  const std::string config =
      folder.write("c.json", R"({"num_experts": 8, "num_experts_per_tok": 2, "hidden_size": 64})");
  const std::vector<std::vector<std::string>> commands = {
      {"replay", scenario, "--trace", scenario},
      {"replay", scenario, "--report", scenario},
      {"replay", scenario, "--report", folder.at("o"), "--trace", folder.at("o")},
      {"check", "--file", launch, "--report", launch},
      {"check", "--file", launch, "--model-config", config, "--report", config},
      {"from-log", log, "--model-config", config, "--out", log},
      {"from-log", log, "--launch", launch, "--model-config", config, "--out", launch},
      {"plan", "--model-config", config, "--ep", "4", "--tokens", "8", "--report", config},
      {"explore", "--budget", "1", "--rule-cmd", "python3 " + launch, "--report", launch},
      {"merge", config, "--report", config}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = run(command);
    INFO(command[0] << ": " << outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK((contains(outcome.err, "would replace") || contains(outcome.err, "was not written by")));
  }
  CHECK(contents_of(scenario) == before);
  CHECK(contents_of(config).starts_with("{\"num_experts\""));
}

TEST_CASE("output: whatever a command prints, its reader sees text") {
  std::ostringstream to;
  {
    EscapingBuffer buffer(to, {"\x1b[1m", "\x1b[0m"});
    std::ostream out(&buffer);
    out << "\x1b[1mbold\x1b[0m \x1b[31mred\r\n\ttab \xe2\x80\xae"
        << "\xff" << '\x07';
    CHECK(to.str() == "\x1b[1mbold\x1b[0m \\x1b[31mred\\r\n");
  }
  CHECK(to.str() == "\x1b[1mbold\x1b[0m \\x1b[31mred\\r\n\ttab \\u202e\\xff\\x07");
}

TEST_CASE("output: JSON and pages carry the same strings without what a terminal obeys") {
  const std::string hostile = "a\x1b[2J\xc2\x9b\xe2\x80\xae\x7f\"é";
  const std::string json = print({{"k", hostile}});
  CHECK(nlohmann::json::parse(json).at("k") == hostile);
  CHECK(json.find_first_of("\x1b\x7f") == std::string::npos);
  CHECK(contains(json, "\\u009b\\u202e\\u007f\\\"é"));
  CHECK(html_text("<\x1b\xe2\x80\xae>\n") == "&lt;\\x1b\\u202e&gt;\n");
}

}  // namespace
}  // namespace a2asim
