#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "sim/scenario/scenario_reader.h"
#include "sim/scenario/scenario_writer.h"
#include "tests/main/skip.h"

namespace a2asim {
namespace {

// A text with one mark where the cases below put their line.
constexpr std::string_view kHead =
    "name: t\nparallel: {tp_size: 4, dp_size: 4, enable_dp_attention: true}\n"
    "model: {num_experts: 8, top_k: 2, hidden_size: 64}\n";
constexpr std::string_view kSteps =
    "steps:\n  - {mode: decode, tokens: [3, 1, 0, 5]}\n  - {mode: extend, tokens: [9, 0, 0, 7], repeat: 3}\n";

std::string with(std::string_view extra) { return std::string(kHead) + std::string(kSteps) + std::string(extra); }
std::string with_step(std::string_view step) { return std::string(kHead) + "steps:\n  - " + std::string(step) + "\n"; }
std::string with_fault(std::string_view fault) { return with("faults: [" + std::string(fault) + "]\n"); }
std::string with_parallel(std::string_view fields) {
  return "name: t\nparallel: {" + std::string(fields) + "}\nmodel: {num_experts: 8, top_k: 2, hidden_size: 64}\n" +
         "steps: [{mode: decode, tokens: [1]}]\n";
}
std::string with_model(std::string_view model) {
  return "name: t\nlaunch: x\nmodel: " + std::string(model) + "\nsteps: [{mode: decode, tokens: [1]}]\n";
}

Scenario parsed(std::string_view text) {
  const Result<Scenario> scenario = parse_scenario(text, "t.yaml");
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  return *scenario;
}

// What a text that must be refused is refused with.
struct Bad {
  std::string text;
  std::string error;        // the beginning of the message
  bool schema_sees = true;  // false: about syntax, or about several places at once
};

// The cases of tests/data/bad_scenarios.json, and those that JSON cannot hold or only code can make.
std::vector<Bad> bad_scenarios() {
  const auto same = [](std::string_view text) { return std::string(text); };
  const auto headed = [](std::string_view text) { return std::string(kHead) + std::string(text); };
  const std::map<std::string, std::string (*)(std::string_view)> texts = {
      {"text", same},       {"head", headed},      {"with", with},
      {"step", with_step},  {"fault", with_fault}, {"parallel", with_parallel},
      {"model", with_model}};
  std::vector<Bad> all = {{with("") + "---\n" + with(""), "t.yaml:8:1: a second document starts here", false},
                          {"name: " + std::string(100, '['), "t.yaml:1:24: nested deeper than 16", false},
                          {std::string(100, '['), "t.yaml:1:17: nested deeper than 16", false},
                          {std::string("name: a\0b\n", 10), "t.yaml:1:8: control character 0x00", false},
                          {"name: caf\xE9\n", "t.yaml:1:10: byte 0xe9 is not UTF-8", false},
                          {"name: \xED\xA0\x80\n", "t.yaml:1:7: byte 0xed is not UTF-8", false},
                          {"\xFF\xFEn\0", "t.yaml:1:1: byte 0xff is not UTF-8", false},
                          {std::string(kMaxScenarioFileBytes + 1, '#'), "t.yaml: longer than 1048576 bytes", false}};
  std::ifstream file(A2ASIM_SOURCE_DIR "/tests/data/bad_scenarios.json");
  const nlohmann::json groups = nlohmann::json::parse(file);
  for (const nlohmann::json& rows : groups)
    for (const nlohmann::json& row : rows)
      for (const auto& [kind, text_of] : texts)
        if (row.contains(kind))
          all.push_back(
              {text_of(row[kind].get<std::string>()) + row.value("then", ""), row["error"], row.value("schema", true)});
  REQUIRE(all.size() == 120);
  return all;
}

constexpr std::string_view kEveryFault =
    "{step: 1, skip_rank: 2}, {step: 1, skip_all_gather: true}, {step: 0, skip_all_gather: 3}, "
    "{step: 1, stale_counts: 2}, {step: 3, wrong_mode: {rank: 0, mode: extend}}, {step: 1, replay_rank: 1}, "
    "{step: 2, dead_rank: 3}, {step: 2, dead_rank: 3, masked: true}, "
    "{step: 1, corrupt_count: {rank: 1, source: 2, value: 7}}, {step: 1, corrupt_count: {source: 0, value: 0}}, "
    "{max_num_tokens: {rank: 2, value: 8}}, {payload_bytes: {rank: 1, payload: 0, value: 64}}";
constexpr std::string_view kSomeFields =
    "model_path: a/b-c_1.0, tp_size: 8, ep_size: 8, chunked_prefill_size: -1, cuda_graph_bs: [1, 2], "
    "moe_dense_tp_size: 1, enable_dp_lm_head: false, quantization: modelopt_fp4, max_num_tokens: 16";

std::vector<std::string> good_scenarios() {
  return {
      with(""),
      "# comment\n---\n" + with("") + "...\n",
      with("sglang: 2026-06-20\nseed: 18446744073709551615\nenv: {A: 1, B: no, C: 1e3, D: \"x y\"}\n"),
      with("engine: sglang\nversion: v0.5.13\n"),
      with("engine: sglang\n"),
      with("version: pr30450\n"),
      with("routing: {kind: hot_rank, rank: 3}\nexperts: ffn\n"),
      with("routing: {kind: round_robin}\nexperts: exact\nfaults: []\n"),
      with("expect: {verdict: disagrees, step: 0, findings: [geometry_disagreement, nan_output]}\n"),
      with("expect_by_generation: {pr27945: {verdict: agrees}, pr29461: {findings: [stale]}}\n"),
      with_step("{mode: [decode, idle, extend, target_verify], tokens: [1, 0, 3, 4], graph: false}"),
      with_step("{mode: idle, tokens: [0, 0, 0, 0]}"),
      with_fault(kEveryFault),
      with_parallel(kSomeFields),
      with_model("{num_experts: 65536, top_k: 32, hidden_size: 131072, layers: 1024, dtype: float16}"),
      "{\n\t\"name\": \"a \\u00e9 \\/ b\",\n\t\"launch\": \"FOO=1 python3 -m sglang.launch_server\\n --tp 4\",\n"
      "\t\"model\": {\"num_experts\": 8, \"top_k\": 2, \"hidden_size\": 64},\n"
      "\t\"steps\": [{\"mode\": \"decode\", \"tokens\": [1, 2], \"graph\": true}]\n}\n",
  };
}

TEST_CASE("engine and version, in one key or in two") {
  const Scenario both = parsed(with("sglang: pr26643\n"));
  CHECK(both == parsed(with("engine: sglang\nversion: pr26643\n")));
  CHECK(to_yaml(both).find("\nsglang: pr26643\n") != std::string::npos);
  const Scenario version = parsed(with("version: pr26643\n"));
  CHECK_FALSE(version.engine.has_value());
  CHECK(to_yaml(version).find("\nversion: pr26643\n") != std::string::npos);
  CHECK_FALSE(version == both);
  CHECK_FALSE(parsed(with("engine: sglang\n")).version.has_value());
}

TEST_CASE("a scenario as the format describes it") {
  const Scenario s = parsed(
      "name: moe-dense-collapse\nsglang: pr26643  # generation\n"
      "launch: python3 -m sglang.launch_server --model-path M --tp 4\nenv: {}\n"
      "model: {num_experts: 8, top_k: 2, hidden_size: 64, layers: 2, dtype: bfloat16}\nseed: 7\n"
      "steps:\n  - {mode: decode, tokens: [3, 1, 0, 5]}\n  - {mode: extend, tokens: [128, 64, 0, 7]}\n"
      "  - {mode: decode, tokens: [5, 5, 2, 1], graph: true}\nfaults: []\nexpect: {verdict: disagrees, step: 0}\n");
  CHECK(s.name == "moe-dense-collapse");
  CHECK(s.engine == "sglang");
  CHECK(s.version == "pr26643");
  CHECK(launch_text(s) == "python3 -m sglang.launch_server --model-path M --tp 4");
  CHECK(s.model == ScenarioModel{8, 2, 64, 2, DataType::bfloat16});
  CHECK(s.seed == 7);
  REQUIRE(num_steps(s) == 3);
  CHECK(s.steps[1].mode_of(3) == ForwardMode::extend);
  CHECK(s.steps[1].tokens == std::vector<std::int64_t>{128, 64, 0, 7});
  CHECK(s.steps[0].graph == std::nullopt);
  CHECK(s.steps[2].graph == true);
  CHECK(s.steps[2].at.line == 10);
  CHECK(s.steps[2].at.column == 5);
  CHECK(s.expect == Expect{Verdict::disagrees, 0, {}});
  // The launch command decides how many ranks there are: checked once it is understood.
  CHECK(check_ranks(s, "t.yaml", 4, 4));
  CHECK(check_ranks(s, "t.yaml", 8, 8).error().message ==
        "t.yaml:8:5: tokens has 4 entries, the deployment has 8 data-parallel ranks; give 8 numbers, one per rank");
}

TEST_CASE("YAML's escapes of a line end and of a blank that does not break are characters") {
  const auto scenario = parse_scenario(
      "name: \"a\\_b\\Nc\"\nsglang: pr25907\nlaunch: python3 -m sglang.launch_server --model-path M\n"
      "model: {num_experts: 8, top_k: 2, hidden_size: 64}\nsteps: [{mode: decode, tokens: [1]}]\n",
      "test");
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  CHECK(scenario->name ==
        "a\xC2\xA0"
        "b\xC2\x85"
        "c");
  const auto again = parse_scenario(to_yaml(*scenario), "again");
  REQUIRE(again.has_value());
  CHECK(*again == *scenario);
}

TEST_CASE("JSON's escapes of characters beyond U+FFFF are one character") {
  const auto name_of = [](std::string_view name) {
    return parsed("{\"name\": \"" + std::string(name) +
                  "\", \"launch\": \"x\", \"model\": {\"num_experts\": 8, \"top_k\": 2, \"hidden_size\": 64}, "
                  "\"steps\": [{\"mode\": \"decode\", \"tokens\": [1]}]}")
        .name;
  };
  CHECK(name_of("a\\ud83d\\udc0d\\u00e9\\uD800\\uDC00") == "a\xF0\x9F\x90\x8D\xC3\xA9\xF0\x90\x80\x80");
  CHECK(name_of("\\\\ud83d\\\\udc0d") == "\\ud83d\\udc0d");  // a backslash, and no escape
  CHECK(name_of("\\\\\\ud83d\\udc0d") == "\\\xF0\x9F\x90\x8D");
  // In YAML that is no JSON the letters stay what they are.
  CHECK(parsed("{name: '\\ud83d\\udc0d', launch: x, model: {num_experts: 8, top_k: 2, hidden_size: 64}, "
               "steps: [{mode: decode, tokens: [1]}]}")
            .name == "\\ud83d\\udc0d");
}

TEST_CASE("every fault has a place in the value") {
  const Scenario s = parsed(with_fault(kEveryFault));
  std::set<FaultKind> kinds;
  for (const Fault& fault : s.faults) kinds.insert(fault.kind);
  CHECK(kinds.size() == fault_kinds().size());
  CHECK(s.faults[1].rank == std::nullopt);
  CHECK(s.faults[2].rank == 3);
  CHECK(s.faults[4].mode == ForwardMode::extend);
  CHECK_FALSE(s.faults[6].masked);
  CHECK(s.faults[7].masked);
  CHECK(s.faults[8] == Fault{FaultKind::corrupt_count, 1, 1, ForwardMode::decode, false, 2, 0, 7, {}});
  CHECK(s.faults[9].rank == std::nullopt);
  CHECK(s.faults[11].value == 64);
}

TEST_CASE("parallel becomes the launch command that says the same") {
  const Scenario s = parsed(with_parallel(kSomeFields));
  CHECK(launch_text(s) ==
        "python3 -m sglang.launch_server --model-path a/b-c_1.0 --tp-size 8 --ep-size 8 --moe-dense-tp-size 1 "
        "--quantization modelopt_fp4 --chunked-prefill-size -1 --cuda-graph-bs 1 2");
  CHECK(launch_env(s).at("SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK") == "16");
  CHECK(launch_text(parsed(with(""))) ==
        "python3 -m sglang.launch_server --model-path M --tp-size 4 --dp-size 4 --enable-dp-attention");
  CHECK(launch_env(parsed(with(""))).empty());
}

TEST_CASE("what is written is read back as the same value") {
  for (const std::string& text : good_scenarios()) {
    const Scenario scenario = parsed(text);
    const std::string written = to_yaml(scenario);
    CAPTURE(written);
    CHECK(parsed(written) == scenario);
    CHECK(to_yaml(parsed(written)) == written);
  }
}

TEST_CASE("texts that other readers take for something else survive writing") {
  Scenario scenario = parsed(with(""));
  for (const char* text :
       {"",      "yes",    "null",         "1e3",         "-1", "0x10", "~",          "a: b",
        "- a",   "#x",     "\"q\" \\ 'r'", "*a",          "&a", "!t",   "2026-06-20", "caf\xC3\xA9 \xF0\x9F\x98\x80",
        " lead", "trail ", "a\tb",         "\xE2\x80\xA8"}) {
    scenario.name = text;
    scenario.env["A"] = std::string(text) + "\nsecond line\r\n";
    CHECK(parsed(to_yaml(scenario)) == scenario);
  }
}

TEST_CASE("two scenarios that differ anywhere are not equal") {
  const Scenario scenario = parsed(with_fault("{step: 1, skip_rank: 2}"));
  Scenario other = scenario;
  other.steps[0].tokens[1] = 2;
  CHECK(other != scenario);
  other = scenario;
  other.faults[0].rank = 1;
  CHECK(other != scenario);
  other = scenario;
  other.parallel->tp_size = 8;
  CHECK(other != scenario);
}

TEST_CASE("a bad scenario gets one line with its place and the fix") {
  for (const Bad& bad : bad_scenarios()) {
    CAPTURE(bad.text.substr(0, 400));
    const Result<Scenario> scenario = parse_scenario(bad.text, "t.yaml");
    REQUIRE_FALSE(scenario.has_value());
    CHECK(scenario.error().kind == ErrorKind::bad_input);
    CHECK_MESSAGE(scenario.error().message.starts_with(bad.error), scenario.error().message);
    CHECK(scenario.error().message.find('\n') == std::string::npos);
    CHECK(scenario.error().message.find(bad.text.size() > kMaxScenarioFileBytes ? ": " : ";") != std::string::npos);
  }
}

TEST_CASE("texts that are made to exhaust a reader are refused") {
  const std::size_t n = kMaxScenarioFileBytes / 8;
  for (const std::string unit : {"[", "{", "{a: [", "- ", "? ", "&a ", "!", "a: ", "%", "\"", "'", ",", ":", "|\n"}) {
    std::string text;
    while (text.size() < n) text += unit;
    CAPTURE(unit);
    CHECK_FALSE(parse_scenario(text, "t.yaml").has_value());
  }
  std::string steps;
  for (int depth = 0; depth < 17; ++depth) steps += '[';
  const Result<Scenario> deep = parse_scenario("a: " + steps + std::string(17, ']'), "t.yaml");
  REQUIRE_FALSE(deep.has_value());
  CHECK_MESSAGE(deep.error().message.starts_with("t.yaml:1:19: nested deeper than 16"), deep.error().message);
}

TEST_CASE("files that are none") {
  CHECK(load_scenario(A2ASIM_SOURCE_DIR).error().message == A2ASIM_SOURCE_DIR
        ": is a directory; name a scenario file in it");
  CHECK(load_scenario("/no/such/file.yaml").error().message ==
        "/no/such/file.yaml: cannot be opened; check the name and the permissions");
  CHECK(load_scenario("").error().message == ": cannot be opened; check the name and the permissions");
}

// --- the schema
// ---------------------------------------------------------------------------------------------------------

nlohmann::json schema() {
  std::ifstream file(A2ASIM_SOURCE_DIR "/sim/scenario/scenario.schema.json");
  return nlohmann::json::parse(file);
}

template <class T>
std::vector<std::string> names_of(std::span<const Named<T>> vocabulary) {
  std::vector<std::string> names;
  for (const Named<T>& entry : vocabulary) names.emplace_back(entry.name);
  return names;
}

TEST_CASE("the schema has the reader's words and limits") {
  const nlohmann::json defs = schema().at("$defs");
  CHECK(defs.at("mode").at("enum") == nlohmann::json(names_of(step_modes())));
  CHECK(defs.at("model").at("properties").at("dtype").at("enum") == nlohmann::json(names_of(model_dtypes())));
  CHECK(defs.at("routing").at("properties").at("kind").at("enum") == nlohmann::json(names_of(routing_kinds())));
  CHECK(schema().at("properties").at("experts").at("enum") == nlohmann::json(names_of(experts_kinds())));
  const nlohmann::json& expect = defs.at("expect").at("properties");
  CHECK(expect.at("verdict").at("enum") == nlohmann::json(names_of(verdicts())));
  CHECK(expect.at("findings").at("items").at("enum") == nlohmann::json(names_of(finding_kinds())));
  for (const auto& kind : fault_kinds()) CHECK(defs.at("fault").at("properties").contains(std::string(kind.name)));
  CHECK(defs.at("fault").at("oneOf").size() == fault_kinds().size());

  const nlohmann::json& step = defs.at("step").at("properties");
  CHECK(step.at("tokens").at("items").at("maximum") == kMaxScenarioTokens);
  CHECK(step.at("tokens").at("maxItems") == kMaxScenarioRanks);
  CHECK(step.at("repeat").at("maximum") == kMaxScenarioSteps);

  const nlohmann::json& fields = defs.at("parallel").at("properties");
  CHECK(fields.size() == parallel_fields().size());
  for (const ParallelField& field : parallel_fields()) {
    CAPTURE(field.key);
    const nlohmann::json& said = fields.at(std::string(field.key));
    CHECK(said.value("type", "word") == (field.integer   ? "integer"
                                         : field.boolean ? "boolean"
                                         : field.list    ? "array"
                                                         : "word"));
    const nlohmann::json& range = field.list ? said.at("items") : said;
    if (field.word || field.boolean) continue;
    CHECK(range.at("minimum") == field.min);
    CHECK(range.at("maximum") == field.max);
  }
}

// What the schema says of the texts, one line each; nothing when Python or its packages are not there.
std::optional<std::vector<std::string>> ask_schema(const std::vector<std::string>& texts) {
  const auto file =
      std::filesystem::temp_directory_path() / ("a2asim_schema_" + std::to_string(std::random_device{}()));
  std::ofstream(file) << nlohmann::json(texts).dump();
  std::optional<std::vector<std::string>> answers;
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    const std::string command = python +
                                " '" A2ASIM_SOURCE_DIR "/tests/sim/scenario_schema_check.py' '" A2ASIM_SOURCE_DIR
                                "/sim/scenario/scenario.schema.json' '" +
                                file.string() + "' 2>&1";
    std::string output;
    FILE* const pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
    const int status = pclose(pipe);
    if (status == 77 << 8 || status == 127 << 8) continue;
    REQUIRE_MESSAGE(status == 0, output);
    std::istringstream lines(output);
    answers.emplace();
    for (std::string line; std::getline(lines, line);) answers->push_back(line);
    break;
  }
  std::filesystem::remove(file);
  return answers;
}

TEST_CASE("the schema and the reader agree") {
  std::vector<std::string> texts = good_scenarios();
  for (const std::string& text : good_scenarios()) texts.push_back(to_yaml(parsed(text)));
  const std::filesystem::path shipped = A2ASIM_SOURCE_DIR "/sim/scenarios";
  if (std::filesystem::is_directory(shipped)) {
    for (const auto& entry : std::filesystem::directory_iterator(shipped)) {
      if (entry.path().extension() != ".yaml") continue;
      const auto scenario = load_scenario(entry.path().string());
      CHECK_MESSAGE(scenario.has_value(), scenario.error().message);
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      texts.push_back(text.str());
    }
  }
  const std::size_t good = texts.size();
  for (const Bad& bad : bad_scenarios()) {
    if (bad.schema_sees) texts.push_back(bad.text);
  }
  const auto answers = ask_schema(texts);
  if (!answers) {
    test::skip("needs python3 with the packages yaml and jsonschema (python3-yaml, python3-jsonschema)");
    return;
  }
  REQUIRE(answers->size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i]);
    CHECK((*answers)[i] == (i < good ? "accepts" : "rejects"));
  }
}

}  // namespace
}  // namespace a2asim
