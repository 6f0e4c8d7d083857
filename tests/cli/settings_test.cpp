// a2asim.toml: what each key sets, for which paths, and what is said of a file that cannot be used.
#include "tools/program/settings.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

namespace fs = std::filesystem;

class SettingsFolder {
 public:
  explicit SettingsFolder(std::string_view text)
      : path(fs::canonical(fs::temp_directory_path()) / ("a2asim_settings_" + std::to_string(std::random_device{}()))) {
    fs::create_directories(path);
    std::ofstream(path / "a2asim.toml", std::ios::binary) << text;
  }
  SettingsFolder(const SettingsFolder&) = delete;
  SettingsFolder& operator=(const SettingsFolder&) = delete;
  ~SettingsFolder() { fs::remove_all(path); }

  Result<Settings> of(const std::string& below) const { return SettingsFiles().of((path / below).string()); }

  const fs::path path;
};

// What is said, behind the file's name.
std::string settings_error(const std::string& text) {
  const SettingsFolder folder(text);
  const Result<Settings> read = folder.of("serve.sh");
  if (read) return "";
  CHECK(read.error().kind == ErrorKind::bad_input);
  const std::string file = (folder.path / "a2asim.toml").string() + ": ";
  REQUIRE(read.error().message.starts_with(file));
  return read.error().message.substr(file.size());
}

}  // namespace

TEST_CASE("settings: every key sets its own value, and a number is as good as its text") {
  const SettingsFolder folder(
      "model = \"m\"\nmodel-config = \"sub/config.json\"\nnum-experts = 256\ntop-k = \"8\"\nhidden-size = 7168\n"
      "gpu-memory = 79.5\ngpu = \"H200\"\nnvlink-domain = 72\nsglang = \"v0.5.16\"\nvllm = \"v1\"\ntrtllm = 1.25\n"
      "env = { A = \"x\", B = 2, C = 0.5 }\nstrict = true\npaths = [\"deploy\", \"b/*.sh\"]\nexclude = [\"old/**\"]\n"
      "ignore = [{ id = \"over_capacity\", reason = \"why\" }, { id = \"static_cap\", reason = \"known\" }]\n");
  const Result<Settings> read = folder.of("serve.sh");
  REQUIRE(read);
  CHECK(read->file == (folder.path / "a2asim.toml").string());
  CHECK(read->shape.model == "m");
  CHECK(read->shape.model_config == (folder.path / "sub/config.json").string());
  CHECK(read->shape.num_experts == "256");
  CHECK(read->shape.top_k == "8");
  CHECK(read->shape.hidden_size == "7168");
  CHECK(read->gpu_memory == "79.5");
  CHECK(read->gpu == "H200");
  CHECK(read->nvlink_domain == "72");
  CHECK(read->versions == decltype(read->versions){{"sglang", "v0.5.16"}, {"vllm", "v1"}, {"trtllm", "1.25"}});
  CHECK(read->env == decltype(read->env){{"A", "x"}, {"B", "2"}, {"C", "0.5"}});
  CHECK(read->strict == true);
  CHECK(read->paths == std::vector<std::string>{"deploy", "b/*.sh"});
  CHECK(read->excluded == std::vector<std::string>{"old/**"});
  CHECK(read->ignored == decltype(read->ignored){{"over_capacity", "why"}, {"static_cap", "known"}});
}

TEST_CASE("settings: what is not said is not set") {
  const SettingsFolder folder("strict = false\npaths = []\nmodel-config = \"/etc/config.json\"\n");
  const Result<Settings> read = folder.of("a/b/c.sh");  // of the nearest file above, though no folder of these is there
  REQUIRE(read);
  CHECK(read->strict == false);
  CHECK(read->shape.model_config == "/etc/config.json");
  CHECK(read->paths.empty());
  CHECK((read->excluded.empty() && read->ignored.empty() && read->env.empty() && read->versions.empty()));
  CHECK_FALSE((read->gpu || read->gpu_memory || read->nvlink_domain || read->shape.model || read->shape.num_experts ||
               read->shape.top_k || read->shape.hidden_size));
  const SettingsFolder empty("");
  REQUIRE(empty.of("x"));
  CHECK_FALSE(empty.of("x")->strict);
  CHECK_FALSE(empty.of("x")->shape.model_config);
}

TEST_CASE("settings: a table of a path holds for that path and what lies below, the later one more") {
  const SettingsFolder folder(
      "gpu = \"all\"\nenv = { A = \"all\", B = \"all\" }\n[[per-path]]\npath = \"one\"\ngpu = \"one\"\nenv = { A = "
      "\"one\" }\n[[per-path]]\npath = \"one/deep/*.sh\"\ngpu = \"deep\"\nsglang = \"v0.5.16\"\nignore = [{ id = "
      "\"over_capacity\", reason = \"deep\" }]\n");
  const std::vector<std::pair<std::string, std::string>> gpus = {{"a.sh", "all"},
                                                                 {"one", "one"},
                                                                 {"one/a.sh", "one"},
                                                                 {"one.sh", "all"},
                                                                 {"one/deep/a.sh", "deep"},
                                                                 {"one/deep/a.yml", "one"},
                                                                 {"two/one/deep/a.sh", "all"}};
  for (const auto& [path, gpu] : gpus) {
    CAPTURE(path);
    const Result<Settings> read = folder.of(path);
    REQUIRE(read);
    CHECK(read->gpu == gpu);
    CHECK(read->env == decltype(read->env){{"A", gpu == "all" ? "all" : "one"}, {"B", "all"}});
    CHECK(read->versions.size() == (gpu == "deep" ? 1 : 0));
    CHECK(read->ignored.size() == (gpu == "deep" ? 1 : 0));
  }
}

TEST_CASE("settings: what cannot be used is said with its line") {
  const std::string form = "ignore is a list: ignore = [{ id = \"ID\", reason = \"WHY\" }]";
  const std::string env = "env is a table: env = { NAME = \"VALUE\" }";
  const std::vector<std::pair<std::string, std::string>> table = {
      {"strict = 1", "line 1: strict is true or false"},
      {"strict = \"true\"", "line 1: strict is true or false"},
      {"\nmodel = true", "line 2: model is a text or a number"},
      {"top-k = [8]", "line 1: top-k is a text or a number"},
      {"vllm = {}", "line 1: vllm is a text or a number"},
      {"paths = \"a\"", "line 1: paths is a list of texts"},
      {"paths = [1]", "line 1: paths is a list of texts"},
      {"exclude = [\"a\", 1]", "line 1: exclude is a list of texts"},
      {"env = 1", "line 1: " + env},
      {"env = [\"A=1\"]", "line 1: " + env},
      {"env = { A = true }", "line 1: A is a text or a number"},
      {"ignore = {}", "line 1: " + form},
      {"ignore = [1]", "line 1: " + form},
      {"ignore = [{ id = \"over_capacity\" }]", "line 1: " + form},
      {"ignore = [{ reason = \"why\" }]", "line 1: " + form},
      {"ignore = [{ id = \"over_capacity\", reason = \"\" }]", "line 1: " + form},
      {"ignore = [{ id = \"no_such\", reason = \"why\" }]",
       "line 1: there is no finding 'no_such': `a2asim explain` lists them"},
      {"per-path = 1", "line 1: per-path is a list of tables: [[per-path]]"},
      {"gpu = \"x\"\n[[per-path]]\ngpu = \"y\"", "line 2: [[per-path]] needs path = \"PATTERN\""},
      {"[[per-path]]\npath = \"elsewhere/**\"\ngpu = false", "line 3: gpu is a text or a number"},
      {"path = \"a\"", "line 1: unknown key path: did you mean paths?"},
      {"qqqqqqqq = 1", "line 1: unknown key qqqqqqqq"},
      {"[[per-path]]\npath = \"a\"\nmodl = \"m\"", "line 3: unknown key modl: did you mean model?"},
      {"[[per-path]]\npath = \"a\"\nstrict = true",
       "line 3: strict is for all paths: put it above the first [[per-path]]"},
      {"[[per-path]]\npath = \"a\"\nexclude = []",
       "line 3: exclude is for all paths: put it above the first [[per-path]]"},
      {"[[per-path]]\npath = \"a\"\npaths = []", "line 3: paths is for all paths: put it above the first [[per-path]]"},
      {"[[per-path]]\npath = \"a\"\nper-path = []", "line 3: unknown key per-path"},
  };
  for (const auto& [text, error] : table) {
    CAPTURE(text);
    CHECK(settings_error(text) == error);
  }
}

TEST_CASE("settings: of a long word 60 characters are shown") {
  const std::string fits(60, 'q'), cut = std::string(60, 'q') + "..";
  for (const auto& [word, shown] : {std::pair(fits, fits), std::pair(fits + "q", cut)}) {
    CHECK(settings_error(word + " = 1") == "line 1: unknown key " + shown);
    CHECK(settings_error("ignore = [{ id = \"" + word + "\", reason = \"why\" }]") ==
          "line 1: there is no finding '" + shown + "': `a2asim explain` lists them");
  }
}

}  // namespace a2asim
