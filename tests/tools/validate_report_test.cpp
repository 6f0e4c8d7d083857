// Validations in words and in JSON: every part of the line, and each that is left out where there is nothing to say.
#include "tools/validate/validate_report.h"

#include <doctest/doctest.h>

namespace a2asim {
namespace {

std::int64_t& count_of(ScenarioValidation& one, CheckKind kind, CheckResult result) {
  return one.counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(result)];
}

ScenarioValidation full_validation() {
  ScenarioValidation one;
  one.name = "night";
  one.file = "night.yaml";
  one.result = CheckResult::failed;
  one.why = "compared up to step 3: there the guard ends it";
  for (int kind = 0; kind < kCheckKinds; ++kind) {
    count_of(one, static_cast<CheckKind>(kind), CheckResult::passed) = kind + 1;
    count_of(one, static_cast<CheckKind>(kind), CheckResult::failed) = 10 + kind;
    count_of(one, static_cast<CheckKind>(kind), CheckResult::skipped) = 20 + kind;
  }
  one.remarks = {{CheckKind::receive, CheckResult::failed, 2, 0, "rank 0, byte 1\nand 2"},
                 {CheckKind::missing, CheckResult::skipped, 3, 1, "needs 'bounded waits'"},
                 {CheckKind::guard, CheckResult::passed, 3, 2, std::string(700, 'x')}};
  one.verdict = Verdict::disagrees;
  one.steps = 4;
  one.graph_layers = 5;
  one.bytes_compared = 12800;
  one.bytes_raced = 6;
  one.tokens_compared = 40;
  one.nan_tokens = 3;
  one.wrong_tokens = 5;
  return one;
}

std::string first_line(const ScenarioValidation& one) {
  const std::string text = validations_as_text(std::span(&one, 1), false);
  return text.substr(0, text.find('\n'));
}

TEST_CASE("validate: a scenario with everything, in words") {
  const ScenarioValidation one = full_validation();
  const std::string text = validations_as_text(std::span(&one, 1), false);
  const std::string head =
      "failed  night, guard on: disagrees; receive 1, output 2, tokens 3, guard 4, refusal 5, missing 6, recovery 7, "
      "verdict 8; 12.5 KiB of slices, 40 tokens (3 NaN, 5 wrong, on both); 5 layers by graph replay; 6 bytes of races "
      "settled as on the device\n"
      "        compared up to step 3: there the guard ends it\n"
      "        receive failed, step 2: rank 0, byte 1\\nand 2\n"
      "        missing skipped, step 3, layer 1: needs 'bounded waits'\n"
      "        guard passed, step 3, layer 2: xxx";
  CHECK(text.substr(0, head.size()) == head);
  const auto xs = std::count(text.begin(), text.end(), 'x');
  CHECK(xs > 590);  // a line of at most 600
  CHECK(xs <= 600);
  const std::string tail = "\nvalidate: 0 passed, 1 failed, 0 skipped\n";
  CHECK(text.substr(text.size() - tail.size()) == tail);
}

TEST_CASE("validate: what there is nothing of is not in the line") {
  ScenarioValidation one;
  one.name = "night";
  one.guard = false;
  CHECK(first_line(one) == "skipped  night, guard off: agrees");
  one.bytes_compared = one.tokens_compared = one.nan_tokens = one.graph_layers = one.bytes_raced = 7;
  count_of(one, CheckKind::receive, CheckResult::failed) = 1;
  CHECK(first_line(one) == "skipped  night, guard off: agrees");  // no check passed
  one.result = CheckResult::passed;
  one.nan_tokens = one.graph_layers = one.bytes_raced = 0;
  count_of(one, CheckKind::output, CheckResult::passed) = 1;
  CHECK(first_line(one) == "passed  night, guard off: agrees; output 1; 7 B of slices, 7 tokens");
  one.wrong_tokens = 1;
  CHECK(first_line(one) ==
        "passed  night, guard off: agrees; output 1; 7 B of slices, 7 tokens (0 NaN, 1 wrong, on both)");
  one.nan_tokens = 1;
  one.wrong_tokens = 0;
  one.bytes_compared = 0;
  CHECK(first_line(one) == "passed  night, guard off: agrees; output 1 (1 NaN, 0 wrong, on both)");
  one.nan_tokens = 0;
  one.graph_layers = 1;
  CHECK(first_line(one) == "passed  night, guard off: agrees; output 1; 1 layer by graph replay");
  one.graph_layers = 0;
  one.bytes_raced = 1;
  CHECK(first_line(one) == "passed  night, guard off: agrees; output 1; 1 byte of races settled as on the device");
}

TEST_CASE("validate: the last line counts scenarios by result, and words are green, red and yellow in a terminal") {
  std::vector<ScenarioValidation> all(6);
  all[0].result = CheckResult::passed;
  all[1].result = all[2].result = CheckResult::failed;
  const std::string text = validations_as_text(all, true);
  CHECK(text.find("\x1b[1;32mpassed\x1b[0m  ") == 0);
  CHECK(text.find("\n\x1b[1;31mfailed\x1b[0m  ") != std::string::npos);
  CHECK(text.find("\n\x1b[1;33mskipped\x1b[0m  ") != std::string::npos);
  CHECK(text.substr(text.rfind("\nvalidate: ")) == "\nvalidate: 1 passed, 2 failed, 3 skipped\n");
  CHECK(validations_as_text({}, true) == "validate: 0 passed, 0 failed, 0 skipped\n");
}

TEST_CASE("validate: a scenario with everything, as JSON") {
  std::vector<ScenarioValidation> all = {full_validation(), {}};
  all[0].remarks.resize(2);
  count_of(all[1], CheckKind::tokens, CheckResult::skipped) = 2;
  all[1].guard = false;
  auto json = validations_as_json(all, "cuda");
  CHECK(json["tool"]["name"] == "a2asim");
  json.erase("tool");
  const auto wanted = nlohmann::ordered_json::parse(R"({
    "device": "cuda",
    "scenarios": [
      {"name": "night", "file": "night.yaml", "guard": "on", "result": "failed",
       "why": "compared up to step 3: there the guard ends it", "verdict": "disagrees", "steps": 4, "graph_layers": 5,
       "checks": {"receive": {"passed": 1, "failed": 10, "skipped": 20},
                  "output": {"passed": 2, "failed": 11, "skipped": 21},
                  "tokens": {"passed": 3, "failed": 12, "skipped": 22},
                  "guard": {"passed": 4, "failed": 13, "skipped": 23},
                  "refusal": {"passed": 5, "failed": 14, "skipped": 24},
                  "missing": {"passed": 6, "failed": 15, "skipped": 25},
                  "recovery": {"passed": 7, "failed": 16, "skipped": 26},
                  "verdict": {"passed": 8, "failed": 17, "skipped": 27}},
       "bytes_compared": 12800, "bytes_raced": 6, "tokens_compared": 40, "nan_tokens": 3, "wrong_tokens": 5,
       "remarks": [
         {"check": "receive", "result": "failed", "step": 2, "layer": 0, "message": "rank 0, byte 1\nand 2"},
         {"check": "missing", "result": "skipped", "step": 3, "layer": 1, "message": "needs 'bounded waits'"}]},
      {"name": "", "file": "", "guard": "off", "result": "skipped", "why": null, "verdict": "agrees", "steps": 0,
       "graph_layers": 0, "checks": {"tokens": {"skipped": 2}}, "bytes_compared": 0, "bytes_raced": 0,
       "tokens_compared": 0, "nan_tokens": 0, "wrong_tokens": 0, "remarks": []}],
    "summary": {"passed": 0, "failed": 1, "skipped": 1}})");
  CHECK(json.dump(1) == wanted.dump(1));
}

}  // namespace
}  // namespace a2asim
