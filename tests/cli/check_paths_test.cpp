// check in daily use: folders of launches, the version beside each, what does not count, fixes as edits, and formats
// for other programs.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "tests/cli/launches.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// A folder that is gone at the end of the test.
class Folder {
 public:
  Folder() : path(fs::temp_directory_path() / ("a2asim_folder_" + std::to_string(std::random_device{}()))) {
    fs::create_directories(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path file = path / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  std::string read(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(path / name, std::ios::binary).rdbuf();
    return out.str();
  }

  const fs::path path;
};

json servers_of(const std::vector<std::string>& args) {
  std::vector<std::string> all = {"check", "--format", "json"};
  all.insert(all.end(), args.begin(), args.end());
  const Outcome outcome = run(all);
  CAPTURE(outcome.err);
  REQUIRE(json::accept(outcome.out));
  return json::parse(outcome.out)["servers"];
}

std::string version_of(const std::string& text, const std::vector<std::string>& options = {}) {
  const TemporaryFile file("launch", text);
  std::vector<std::string> args = options;
  args.push_back(file.path);
  const json servers = servers_of(args);
  REQUIRE(!servers.empty());
  return servers[0]["generation"].get<std::string>() + ": " + servers[0]["version_from"].get<std::string>();
}

std::string text_after_fix(const Folder& folder, const std::string& name, const std::string& text) {
  const Outcome outcome = run({"check", "--fix", folder.write(name, text)});
  CAPTURE(outcome.err);
  CAPTURE(outcome.out);
  return folder.read(name);
}

void fill(const Folder& folder) {
  folder.write("compose.yaml", "services:\n  decode:\n    image: lmsysorg/sglang:v0.5.13\n    command: >\n      " +
                                   kCollapsing + "\n  prefill:\n    image: lmsysorg/sglang:v0.5.13\n    command: " +
                                   kAgreeing + " --disaggregation-mode prefill\n");
  folder.write("k8s/pod.yml",
               "kind: Pod\nspec:\n  containers:\n  - name: sglang\n    image: docker.io/lmsysorg/sglang:v0.5.16-cu126\n"
               "    command: [sh, -c]\n    args:\n    - |\n      exec " +
                   kCollapsing + "\n");
  folder.write("roles.sh", "#!/bin/bash\n# a2asim: version=v0.5.16\nif [ \"$ROLE\" = decode ]; then\n" + kAgreeing +
                               "\nelse\n" + kAgreeing + " --disaggregation-mode prefill\nfi\n");
  folder.write("README.md", "# Servers\n```bash\n" + kAgreeing +
                                "\n```\nand\n```bash\ndocker run lmsysorg/sglang:latest " + kAgreeing + "\n```\n");
  folder.write("notes.txt", "nothing is started here\n");
  folder.write(".git/hook.sh", kCollapsing + "\n");
}

}  // namespace

TEST_CASE("check: a folder, every server under its own version, one summary line, the worst exit code") {
  const Folder folder;
  fill(folder);
  const Outcome outcome = run({"check", folder.path.string()});
  CHECK(outcome.exit_code == kErrorFound);
  CHECK(outcome.err.empty());
  CHECK(contains(outcome.out, "\n4 files, 7 servers: 6 agree, 1 disagrees\n"));
  CHECK(contains(outcome.out, "image lmsysorg/sglang:v0.5.13)"));
  CHECK(contains(outcome.out, "image docker.io/lmsysorg/sglang:v0.5.16-cu126)"));
  CHECK(contains(outcome.out, "comment in line 2)"));
  CHECK(contains(outcome.out, "newest known"));
  CHECK_FALSE(contains(outcome.out, "hook.sh"));
  CHECK_FALSE(contains(outcome.out, "notes.txt"));
  const Outcome quiet = run({"check", "--quiet", folder.path.string()});
  CHECK(contains(quiet.out, "compose.yaml"));
  CHECK_FALSE(contains(quiet.out, "README.md"));
  const json servers = servers_of({folder.path.string() + "/**/*.y*ml"});
  CHECK(servers.size() == 3);
  CHECK(run({"check", folder.path.string() + "/*.nothing"}).exit_code == kUnusableInput);
}

TEST_CASE("check: a file given by hand that starts no server is named, and the others are checked") {
  const Folder folder;
  fill(folder);
  const Outcome outcome = run({"check", (folder.path / "notes.txt").string(), (folder.path / "roles.sh").string()});
  CHECK(outcome.exit_code == kUnusableInput);
  CHECK(contains(outcome.err, "notes.txt"));
  CHECK(contains(outcome.out, "2 agree, 1 not decided"));
}

TEST_CASE("check: the version, from the option, a comment, a2asim.toml, the image, or the newest") {
  CHECK(version_of("# a2asim: version=v0.5.13\n" + kAgreeing, {"--sglang", "pr30450"}) == "pr30450: --sglang");
  CHECK(version_of("# a2asim: version=pr29461\ndocker run lmsysorg/sglang:v0.5.16 " + kAgreeing) ==
        "pr29461: comment in line 1");
  CHECK(version_of("docker run --gpus all -p 30000:30000 lmsysorg/sglang:v0.5.16-cu126 " + kAgreeing) ==
        "pr30450: image lmsysorg/sglang:v0.5.16-cu126");
  CHECK(version_of("TAG=v0.5.16\ndocker run lmsysorg/sglang:$TAG bash -c '" + kAgreeing + "'") ==
        "pr30450: image lmsysorg/sglang:v0.5.16");
  CHECK(version_of("ARG VERSION=v0.5.16\nFROM lmsysorg/sglang:${VERSION}-cu126\nCMD " + kAgreeing) ==
        "pr30450: image lmsysorg/sglang:v0.5.16-cu126");
  CHECK(version_of("ARG VERSION=v0.5.9\nFROM lmsysorg/sglang:${VERSION}\nCMD " + kAgreeing,
                   {"--env", "VERSION=v0.5.16"}) == "pr30450: image lmsysorg/sglang:v0.5.16");
  CHECK(version_of("docker run lmsysorg/sglang:nightly-dev-20260710-0a1b2c3d " + kAgreeing)
            .starts_with("pr30450: image"));
  CHECK(contains(version_of("docker run other/image:v0.5.13 " + kAgreeing), "newest known"));
  for (const char* newest : {"main", "newest"})
    CHECK(version_of(kAgreeing, {"--sglang", newest}).substr(0, 4) == version_of(kAgreeing).substr(0, 4));
  CHECK(version_of(kAgreeing, {"--sglang", "v0.5.x"}) == version_of(kAgreeing, {"--sglang", "latest"}));
  for (const char* image : {"lmsysorg/sglang:v0.5.16-cu126", "lmsysorg/sglang:v0.5.16@sha256:00"})
    CHECK(version_of(kAgreeing, {"--sglang", image}) == "pr30450: --sglang");
  std::vector<std::string> words = {"check", "--format", "json", "--", "docker", "run", "lmsysorg/sglang:v0.5.16"};
  std::istringstream command(kAgreeing);
  for (std::string word; command >> word;) words.push_back(word);
  CHECK(json::parse(run(words).out)["servers"][0]["version_from"] == "image lmsysorg/sglang:v0.5.16");
  const TemporaryFile unknown("run.sh", "docker run lmsysorg/sglang:v9.9.9 " + kAgreeing);
  const Outcome refused = run({"check", unknown.path});
  CHECK(refused.exit_code == kUnusableInput);
  CHECK(contains(refused.err, "lmsysorg/sglang:v9.9.9"));
  CHECK(contains(refused.err, "--sglang"));
}

TEST_CASE("check: a2asim.toml, found upwards, with more for some paths") {
  const Folder folder;
  folder.write("a2asim.toml",
               "sglang = \"v0.5.16\"\nenv = { SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK = 8192 }\n"
               "exclude = [\"old/**\"]\n[[per-path]]\npath = \"decode/**\"\nsglang = \"v0.5.13\"\n"
               "ignore = [{ id = \"geometry_disagreement\", reason = \"known\" }]\n");
  folder.write("a.sh", kAgreeing + "\n");
  folder.write("decode/b.sh", kCollapsing + "\n");
  folder.write("old/c.sh", kCollapsing + "\n");
  const json servers = servers_of({folder.path.string()});
  REQUIRE(servers.size() == 2);
  CHECK(servers[0]["generation"] == "pr30450");
  CHECK(servers[0]["version_from"] == "a2asim.toml");
  CHECK(servers[0]["capacity"]["max_num_tokens"] == 8192);
  CHECK(servers[1]["findings"][0]["ignored"] == "known");
  folder.write("a2asim.toml", "sglng = \"v0.5.16\"\n");
  const Outcome wrong = run({"check", (folder.path / "a.sh").string()});
  CHECK(wrong.exit_code == kUnusableInput);
  CHECK(contains(wrong.err, "line 1: unknown key sglng: did you mean sglang?"));
  folder.write("a2asim.toml", "sglang = \n");
  CHECK(contains(run({"check", (folder.path / "a.sh").string()}).err, "a2asim.toml: line 1"));
}

TEST_CASE("check: findings that do not count need a reason") {
  const std::vector<std::string> version = {"check", "--sglang", "v0.5.13"};
  const auto check = [&](const std::string& text, std::vector<std::string> more = {}) {
    const TemporaryFile file("serve.sh", text);
    more.insert(more.begin(), version.begin(), version.end());
    more.push_back(file.path);
    return run(more);
  };
  CHECK(check(kCollapsing).exit_code == kErrorFound);
  const Outcome ignored = check("# a2asim: ignore=geometry_disagreement only tests run here\n" + kCollapsing);
  CHECK(ignored.exit_code == kNothingWrong);
  CHECK(contains(ignored.out, "ignored: geometry_disagreement (only tests run here)"));
  CHECK(check("# a2asim: ignore=over_capacity for another reason\n" + kCollapsing).exit_code == kErrorFound);
  CHECK(contains(check("# a2asim: ignore=geometry_disagreement\n" + kCollapsing).err, "needs a reason"));
  CHECK(contains(check("# a2asim: ignore=geometry_disagreemnt x\n" + kCollapsing).err, "did you mean"));
  const TemporaryFile file("serve.sh", kCollapsing);
  const TemporaryFile baseline("baseline.json",
                               run({"check", "--sglang", "v0.5.13", "--format", "json", file.path}).out);
  CHECK(run({"check", "--sglang", "v0.5.13", "--baseline", baseline.path, file.path}).exit_code == kNothingWrong);
  const json known = json::parse(
      run({"check", "--sglang", "v0.5.13", "--format", "sarif", "--baseline", baseline.path, file.path}).out);
  CHECK(known["runs"][0]["results"][0]["suppressions"][0]["kind"] == "external");
  CHECK(contains(run({"check", "--baseline", "/nonexistent", file.path}).err, "writes it"));
  for (const char* other : {"{}", "[]", "{\"servers\": 1}"})
    CHECK(
        contains(run({"check", "--baseline", TemporaryFile("b.json", other).path, file.path}).err, "is no output of"));
}

TEST_CASE("check: of a pattern, as of a folder, files that start no server are left out") {
  const Folder folder;
  folder.write("a/serve.yaml", "services:\n  s:\n    command: " + kAgreeing + "\n");
  folder.write("a/values.yaml", "replicas: 2\n");
  const Outcome all = run({"check", "--sglang", "v0.5.16", (folder.path / "**/*.yaml").string()});
  CHECK(all.exit_code == kNothingWrong);
  CHECK(all.err.empty());
  CHECK(run({"check", (folder.path / "a/values.yaml").string()}).exit_code == kUnusableInput);
  CHECK(run({"check", (folder.path / "**/values.yaml").string()}).exit_code == kUnusableInput);
}

TEST_CASE("check: --strict makes warnings count") {
  const std::string lost = kAgreeing + " \\\n  --host 0.0.0.0\n  --port 30000\n";
  CHECK(run({"check"}, lost).exit_code == kNothingWrong);
  CHECK(run({"check", "--strict"}, lost).exit_code == kErrorFound);
}

TEST_CASE("check: --diff and --fix edit what stands once, in the form in which it stands") {
  const Folder folder;
  const auto fixed = [&](const std::string& name, const std::string& text) {
    const std::string path = folder.write(name, text);
    const Outcome outcome = run({"check", "--sglang", "v0.5.13", "--fix", path});
    CAPTURE(outcome.err);
    CAPTURE(outcome.out);
    CHECK(run({"check", "--sglang", "v0.5.13", path}).exit_code == kNothingWrong);
    CHECK(contains(outcome.out, "--- a/"));
    return folder.read(name);
  };
  CHECK(fixed("one.sh", kCollapsing + "\n") == kAgreeing + " --moe-dense-tp-size 1\n");
  CHECK(fixed("lines.sh", kAgreeing + " \\\n  --moe-dense-tp-size 1 \\\n  --enable-dp-lm-head\n") ==
        kAgreeing + " \\\n  --moe-dense-tp-size 1\n");
  CHECK(fixed("middle.sh", kAgreeing + " \\\n  --enable-dp-lm-head \\\n  --moe-dense-tp-size 1\n") ==
        kAgreeing + " \\\n  --moe-dense-tp-size 1\n");
  CHECK(fixed("array.sh", "ARGS=(--enable-dp-lm-head --moe-dense-tp-size 1)\n" + kAgreeing + " \"${ARGS[@]}\"\n") ==
        "ARGS=(--moe-dense-tp-size 1)\n" + kAgreeing + " \"${ARGS[@]}\"\n");
  const std::string item = "spec:\n  containers:\n  - name: s\n    command:\n";
  const auto listed = [&](bool with_head) {
    std::string text = item;
    std::istringstream words(kAgreeing + (with_head ? " --enable-dp-lm-head" : "") + " --moe-dense-tp-size 1");
    for (std::string word; words >> word;) text += "    - \"" + word + "\"\n";
    return text;
  };
  CHECK(fixed("pod.yaml", listed(true)) == listed(false));
  CHECK(fixed("Dockerfile",
              "FROM x\nCMD [\"python3\", \"-m\", \"sglang.launch_server\", \"--model-path\", "
              "\"deepseek-ai/DeepSeek-V3\", \"--tp\", \"8\", \"--dp\", \"8\", \"--enable-dp-attention\", "
              "\"--moe-a2a-backend\", \"flashinfer\", \"--moe-runner-backend\", \"flashinfer_cutlass\", "
              "\"--enable-dp-lm-head\", \"--moe-dense-tp-size\", \"1\"]\n") ==
        "FROM x\nCMD [\"python3\", \"-m\", \"sglang.launch_server\", \"--model-path\", "
        "\"deepseek-ai/DeepSeek-V3\", \"--tp\", \"8\", \"--dp\", \"8\", \"--enable-dp-attention\", "
        "\"--moe-a2a-backend\", \"flashinfer\", \"--moe-runner-backend\", \"flashinfer_cutlass\", "
        "\"--moe-dense-tp-size\", \"1\"]\n");
}

TEST_CASE("check: --fix replaces an option that is written as an abbreviation of its name") {
  const Folder folder;
  std::string text = kAgreeing;
  const std::size_t at = text.find("--dp ");
  REQUIRE(at != std::string::npos);
  const std::size_t end = text.find(' ', at + 5);
  for (const char* half : {"--dp 4", "--dp=4", "--dp-s 4"}) {
    const std::string path = folder.write("serve.sh", text.substr(0, at) + half + text.substr(end) + "\n");
    CHECK(run({"check", "--sglang", "v0.5.13", path}).exit_code == kErrorFound);
    const Outcome outcome = run({"check", "--sglang", "v0.5.13", "--fix", path});
    CAPTURE(outcome.out);
    CHECK(contains(outcome.err, "--fix wrote "));
    CHECK(contains(folder.read("serve.sh"), std::string(half, std::string(half).size() - 1) + "8"));
    CHECK(run({"check", "--sglang", "v0.5.13", path}).exit_code == kNothingWrong);
  }
}

TEST_CASE("check: a folder may hold scenarios, and Markdown whose code is indented") {
  const Folder folder;
  folder.write("a.yaml", "version: pr30450\nlaunch: " + kAgreeing + "\nsteps:\n- tokens: [1]\n");
  folder.write("guide.md", "# sglang\nIt's text.\n\n    $ a2asim check -- " + kCollapsing +
                               "\n\nIt's run as\n\n    $ " + kAgreeing + "\n");
  const json servers = servers_of({folder.path.string()});
  REQUIRE(servers.size() == 1);
  CHECK(servers[0]["line"] == 8);
  CHECK(run({"check", (folder.path / "a.yaml").string()}).exit_code == kUnusableInput);
  folder.write("CMakeLists.txt", "if(HAS_SGLANG)\n  find_package(sglang)\nendif()\n");  // no shell, and no server
  CHECK(run({"check", folder.path.string()}).exit_code == kNothingWrong);
  folder.write("broken.sh", "if true; then\n" + kAgreeing + "\n");
  CHECK(run({"check", folder.path.string()}).exit_code == kUnusableInput);
}

TEST_CASE("check: --fix leaves a file alone where other servers share the words") {
  const Folder folder;
  const std::string shared = "HEAD=\"--enable-dp-lm-head --moe-dense-tp-size 1\"\nif [ \"$ROLE\" = a ]; then\n" +
                             kAgreeing + " $HEAD\nelse\n" + kAgreeing + " --port 1 $HEAD\nfi\n";
  const std::string path = folder.write("shared.sh", shared);
  const Outcome outcome = run({"check", "--sglang", "v0.5.13", "--fix", path});
  CHECK(outcome.exit_code == kErrorFound);
  CHECK(contains(outcome.err, "not edited"));
  CHECK(folder.read("shared.sh") == shared);
}

TEST_CASE("check: sarif has the place of the words, the edit, a fingerprint, and no notes unless asked") {
  const TemporaryFile file("serve.sh",
                           "#!/bin/bash\n" + kAgreeing + " \\\n  --enable-dp-lm-head --moe-dense-tp-size 1\n");
  const json sarif = json::parse(run({"check", "--sglang", "v0.5.13", "--format", "sarif", file.path}).out);
  const json& result = sarif["runs"][0]["results"][0];
  const json region = {{"startLine", 3}, {"startColumn", 3}, {"endLine", 3}, {"endColumn", 22}};
  CHECK(result["locations"][0]["physicalLocation"]["region"] == region);
  CHECK(result["partialFingerprints"]["a2asim/v1"].get<std::string>().size() == 16);
  CHECK(result["fixes"][0]["artifactChanges"][0]["replacements"][0].contains("deletedRegion"));
  const json& rule = sarif["runs"][0]["tool"]["driver"]["rules"][0];
  CHECK(rule["helpUri"].get<std::string>().starts_with("https://"));
  CHECK(rule["fullDescription"]["text"].is_string());
  for (const json& one : sarif["runs"][0]["results"]) CHECK(one["level"] != "note");
  const json all = json::parse(run({"check", "--sglang", "v0.5.13", "--format", "sarif", "--notes", file.path}).out);
  CHECK(all["runs"][0]["results"].size() > sarif["runs"][0]["results"].size());
}

TEST_CASE("check: github annotations and junit, with nothing that breaks out of them") {
  const TemporaryFile file("a,b%.sh", kCollapsing + "\n");
  const Outcome github = run({"check", "--sglang", "v0.5.13", "--format", "github", file.path});
  CHECK(github.exit_code == kErrorFound);
  CHECK(github.out.starts_with("::error file="));
  CHECK(contains(github.out, "a%2Cb%25.sh,line=1"));
  CHECK(contains(github.out, "title=a2asim%3A geometry_disagreement::"));
  CHECK(contains(github.out, "%0AFix: "));
  const Outcome junit = run({"check", "--sglang", "v0.5.13", "--format", "junit", file.path});
  CHECK(contains(junit.out, "tests=\"1\" failures=\"1\" errors=\"0\""));
  CHECK(contains(junit.out, "<failure type=\"geometry_disagreement\""));
  const TemporaryFile good("good.sh", kAgreeing + "\n");
  const Outcome passing = run({"check", "--sglang", "v0.5.16", "--format", "junit", good.path});
  CHECK(contains(passing.out, "failures=\"0\""));
  CHECK(contains(passing.out, "<testcase "));
  CHECK_FALSE(contains(passing.out, "<failure"));
  CHECK_FALSE(contains(passing.out, "<error"));
}

TEST_CASE("check: fixes of other engines are edits, too") {
  const Folder folder;
  const auto fixed = [&](const std::string& name, const std::string& text) {
    const std::string after = text_after_fix(folder, name, text);
    CHECK(run({"check", (folder.path / name).string()}).exit_code == kNothingWrong);
    return after;
  };
  const std::string vllm = "# a2asim: version=v0.12.0\nvllm serve deepseek-ai/DeepSeek-V3 -tp 8";
  CHECK(fixed("eplb.sh", vllm + " --enable-eplb\n") == vllm + " --enable-expert-parallel --enable-eplb\n");
  CHECK(fixed("seqs.sh", vllm + " --max_num_batched_tokens 64 --max-num-seqs 128\n") ==
        vllm + " --max_num_batched_tokens 128 --max-num-seqs 128\n");
  const std::string trtllm = "trtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8 --ep_size 8 --enable_attention_dp";
  CHECK(fixed("force.sh", "# a2asim: version=1.2.0\nexport TRTLLM_FORCE_COMM_METHOD=NO_SUCH\n" + trtllm + "\n") ==
        "# a2asim: version=1.2.0\n" + trtllm + "\n");
}

TEST_CASE("check: an option that this version does not know is taken out, or written as it was meant") {
  const Folder folder;
  const auto fixed = [&](const std::string& name, const std::string& text) {
    return text_after_fix(folder, name, text);
  };
  const std::string head = "# a2asim: version=v0.5.16\n";
  CHECK(fixed("typo.sh", head + kAgreeing + " --max-queed-requests 7\n") ==
        head + kAgreeing.substr(0, kAgreeing.find("--model-path")) + "--max-queued-requests 7 " +
            kAgreeing.substr(kAgreeing.find("--model-path")) + "\n");
  const std::string vllm = "# a2asim: version=v0.10.0\nvllm serve deepseek-ai/DeepSeek-V3 -tp 8";
  const std::string path = folder.write("new.sh", vllm + " --all2all-backend naive\n");
  const json found = json::parse(run({"check", "--format", "json", path}).out)["findings"][0];
  CHECK(found["id"] == "rejected");
  CHECK(found["fixes"][0]["words"] == "remove --all2all-backend naive");
  CHECK(found["fixes"][0]["cures"] == true);
  CHECK(contains(found["fixes"][1]["words"].get<std::string>(), "upgrade to v0.11.1"));
  CHECK(fixed("new.sh", vllm + " --all2all-backend naive\n") == vllm + "\n");
}

TEST_CASE("check: a script beside is read, and nothing outside the folder of the one that is given") {
  const Folder folder;
  folder.write("launch/worker.sh", kCollapsing + " \"$@\"\n");
  folder.write("secret.sh", kAgreeing + "\n");
  fs::create_symlink(folder.path / "secret.sh", folder.path / "launch/link.sh");
  fs::create_directory(folder.path / "launch/dir.sh");
  REQUIRE(::mkfifo((folder.path / "launch/pipe.sh").c_str(), 0600) == 0);
  folder.write("launch/large.sh", kAgreeing + "\n" + std::string((1 << 20) + 1, '#'));
  const auto check = [&](const std::string& text) {
    return run({"check", "--sglang", "v0.5.13", folder.write("launch/run.sh", text)});
  };
  const Outcome followed = check("bash worker.sh --log-level info\n");
  CHECK(followed.exit_code == 1);
  CHECK(contains(followed.out, "run.sh:1 worker.sh, sglang v0.5.13"));
  CHECK(contains(followed.out, "DISAGREES"));
  for (const char* outside : {"bash ../secret.sh", "bash link.sh", "bash dir.sh", "bash pipe.sh", "source pipe.sh",
                              "source link.sh", "bash large.sh", "bash /etc/profile", "bash gone.sh"}) {
    CAPTURE(outside);
    const Outcome unread = check(outside + std::string("\n"));
    CHECK(unread.exit_code == 2);
    CHECK(contains(unread.err, "is not read: put it beside the script"));
    const Outcome other = check(outside + ("\n" + kAgreeing));
    CHECK(other.exit_code == 0);
    CHECK(contains(other.out, "is not read"));
  }
}

TEST_CASE("check: --fix takes no option where a file beside the launch says otherwise") {
  const Folder folder;
  folder.write("extra.yaml", "enable_attention_dp: true\nmax_num_tokens: 4096\n");
  const std::string text =
      "# a2asim: version=1.2.0\nexport TRTLLM_MOE_A2A_WORKSPACE_MB=1\ntrtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8 "
      "--ep_size 8 --extra_llm_api_options extra.yaml\n";
  const std::string path = folder.write("serve.sh", text);
  run({"check", "--fix", path});
  CHECK_FALSE(contains(folder.read("serve.sh"), "--max_num_tokens"));
}

TEST_CASE("check: all releases side by side say which are safe") {
  const TemporaryFile file("serve.sh", kCollapsing + "\n");
  const Outcome text = run({"check", "--sglang", "all", file.path});
  CHECK(text.exit_code == kErrorFound);
  CHECK(contains(text.out, "release"));
  CHECK(contains(text.out, "Runs without an error: v0.5.14, v0.5.16 to "));
  CHECK(contains(text.out, "v0.5.13 to v0.5.13.post1 "));  // what main held before it hides no release
  CHECK_FALSE(contains(text.out, "pr25907"));
  CHECK(contains(text.out, "pr29461 (main) "));
  const json rows = json::parse(
      run({"check", "--sglang", "v0.5.13..v0.5.16", "--format", "json", file.path}).out)["servers"][0]["by_release"];
  REQUIRE(rows.size() >= 2);
  CHECK(rows.front()["verdict"] == "disagrees");
  CHECK(rows.back()["verdict"] == "agrees");
  CHECK(contains(rows.front()["releases"].get<std::string>(), "v0.5.1"));
  const Outcome backwards = run({"check", "--sglang", "v0.5.16..v0.5.13", file.path});
  CHECK(backwards.exit_code == kUnusableInput);
}

}  // namespace a2asim
