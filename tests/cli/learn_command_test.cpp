// a2asim learn: that lessons say what the model says, and something else when it says something else.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/random.h"
#include "model/engines/sglang/generation.h"
#include "sim/explore/explore.h"
#include "tests/cli/run.h"
#include "tools/learn/learn_formats.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using nlohmann::json;

std::string text_of(const LessonStep& step) {
  std::string out = step.title + '\n';
  for (const LessonBlock& block : step.blocks)
    for (const std::string& line : block.lines) out += line + '\n';
  return out;
}

// As a number of its own: not "1" in "12".
bool has_number(const std::string& text, const std::string& number) {
  for (std::size_t at = text.find(number); at != std::string::npos; at = text.find(number, at + 1)) {
    const bool before = at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0;
    const std::size_t end = at + number.size();
    const bool behind = end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0;
    if (!before && !behind) return true;
  }
  return false;
}

// Every number and word among the facts stands in the text; bytes stand there in words.
void check_facts(const std::string& text, const std::string& key, const nlohmann::ordered_json& facts) {
  if (facts.is_structured()) {
    for (const auto& [name, value] : facts.items()) check_facts(text, facts.is_array() ? key : name, value);
  } else if (facts.is_number_integer()) {
    const auto number = facts.get<std::int64_t>();
    const bool in_bytes = contains(key, "_bytes");
    const bool found = in_bytes ? contains(text, bytes_in_words(number)) : has_number(text, std::to_string(number));
    CHECK_MESSAGE(found, key, " ", number, " in:\n", text);
  } else if (facts.is_string()) {
    CHECK_MESSAGE(contains(text, facts.get<std::string>()), key, " in:\n", text);
  }
}

std::string right_answer(const std::string& lesson, const std::vector<std::string>& more = {}) {
  for (const char* guess : {"0", "0,0", "0,0,0,0", "safe"}) {
    std::vector<std::string> args = {"learn", lesson, "--answer", guess, "--format", "json"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    if (outcome.exit_code != 2) return json::parse(outcome.out).at("answer").at("right_answer");
  }
  FAIL("no guess is an answer to the question of lesson ", lesson);
  return "";
}

}  // namespace

TEST_CASE("learn: the list has the lessons, and JSON the same") {
  const Outcome text = run({"learn"});
  CHECK(text.exit_code == 0);
  const json document = json::parse(run({"learn", "--format", "json"}).out);
  REQUIRE(document.at("lessons").size() == 10);
  for (const json& lesson : document.at("lessons")) {
    CHECK(contains(text.out, lesson.at("title").get<std::string>()));
    CHECK(lesson.at("steps").get<int>() >= 5);
    CHECK(lesson.at("steps").get<int>() <= 7);
  }
}

TEST_CASE("learn: in a pipe a lesson comes as a whole, within the width of a terminal, and asks at the end") {
  for (std::size_t number = 1; number <= lessons().size(); ++number) {
    CAPTURE(number);
    const Outcome outcome = run({"learn", std::to_string(number)});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    const std::size_t steps = lessons()[number - 1].steps.size();
    for (std::size_t step = 1; step <= steps; ++step) {
      const LessonStep made = lessons()[number - 1].steps[step - 1](Lab{});
      CHECK(contains(outcome.out, fmt::format("\n{}/{}  {}\n", step, steps, made.title)));
      CHECK(!made.title.empty());
    }
    CHECK(contains(outcome.out, "\nQuestion\n"));
    CHECK(outcome.out == run({"learn", std::to_string(number)}).out);
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);)
      CHECK_MESSAGE((line.size() <= 100 || line.rfind("      ", 0) == 0), line);  // tables are as wide as they are
  }
}

TEST_CASE("learn: one step, and JSON with the facts that the sentences are made of") {
  const Outcome one = run({"learn", "3", "--step", "2"});
  CHECK(one.exit_code == 0);
  CHECK(one.out.rfind("2/7  ", 0) == 0);
  CHECK(!contains(one.out, "3/7"));
  const json document = json::parse(run({"learn", "3", "--step", "2", "--format", "json"}).out);
  REQUIRE(document.at("steps").size() == 1);
  const json& facts = document.at("steps").at(0).at("facts");
  CHECK(facts.at("runtime_max_tokens_per_rank") == json({3, 1, 1, 5}));
  CHECK(facts.at("verdict") == "disagrees");
  CHECK(!document.at("question").contains("right_answer"));
}

TEST_CASE("learn: answers are right, wrong with the reason, or unusable") {
  for (int number = 1; number <= 10; ++number) {
    const std::string lesson = std::to_string(number);
    CAPTURE(lesson);
    const std::string right = right_answer(lesson);
    CAPTURE(right);
    const Outcome good = run({"learn", lesson, "--answer", right});
    CHECK(good.exit_code == 0);
    CHECK(good.out.rfind("right: ", 0) == 0);
    const std::string other = right == "safe" ? "broken" : right == "broken" ? "safe" : "1" + right;
    const Outcome bad = run({"learn", lesson, "--answer", other});
    CHECK(bad.exit_code == 1);
    CHECK(bad.out.rfind("wrong: it is " + right, 0) == 0);
    for (const char* garbage : {"", "blue", "1.5", "99999999999999999999", "1 2 3 4 5 6"}) {
      const Outcome unusable = run({"learn", lesson, "--answer", garbage});
      CHECK(unusable.exit_code == 2);
      CHECK(unusable.out.empty());
      CHECK(std::ranges::count(unusable.err, '\n') == 1);
    }
  }
}

TEST_CASE("learn: questions follow the requests too") {
  const std::vector<std::string> others = {"--tokens", "9,2,4,0"};
  for (const char* lesson : {"1", "2", "3", "4", "9", "10"})
    CHECK(right_answer(lesson) != right_answer(lesson, others));
  // Lesson 3 by another way: the version of the lesson sizes by the rank's own rows.
  CHECK(right_answer("3", others) == "1, 5, 3, 10");
}

TEST_CASE("learn: every fact stands in the text, whatever the requests") {
  Random random(3);
  std::vector<std::vector<std::int64_t>> batches = {
      {3, 1, 0, 5}, {4, 4, 4, 4}, {1, 0, 0, 0}, {0, 0, 0, 15}, {15, 15, 15, 15}};
  for (int i = 0; i < 6; ++i) {
    batches.emplace_back();
    for (std::size_t rank = 0; rank < kLabRanks; ++rank) batches.back().push_back(random.between(0, kLabMaxTokens));
    batches.back()[0] = std::max<std::int64_t>(batches.back()[0], 1);
  }
  for (const auto& tokens : batches) {
    const Lab lab{tokens, {}};
    CAPTURE(listed(tokens));
    for (std::size_t number = 1; number <= lessons().size(); ++number) {
      if (number == 7 && tokens != batches[0]) continue;  // its rules are tried on explore's own batches
      for (const auto step : lessons()[number - 1].steps) {
        const LessonStep content = step(lab);
        CAPTURE(number);
        CHECK(!content.blocks.empty());
        CHECK(!content.facts.empty());
        check_facts(text_of(content), content.title, content.facts);
      }
    }
  }
}

TEST_CASE("learn: when the model decides otherwise, the text is another") {
  const Lab lab;
  Lab changed;
  changed.rule = [](const RankView& view) -> Result<SizingDecision> {
    SizingDecision decision;
    decision.runtime_max_tokens_per_rank = view.rows + 20;
    decision.branch = SizingBranch::external;
    return decision;
  };
  std::size_t steps_about_sizes = 0;
  for (const std::size_t number : {1U, 2U, 3U, 4U, 8U, 9U, 10U}) {
    for (const auto step : lessons()[number - 1].steps) {
      const LessonStep before = step(lab), after = step(changed);
      CAPTURE(before.title);
      CHECK((before.facts == after.facts || text_of(before) != text_of(after)));
      if (!before.facts.contains("runtime_max_tokens_per_rank")) continue;
      ++steps_about_sizes;
      CHECK(before.facts != after.facts);
      CHECK(text_of(before) != text_of(after));
    }
    if (number == 4) continue;  // its question is about buckets
    const auto question = lessons()[number - 1].question;
    CHECK(question(lab).right_answer() != question(changed).right_answer());
  }
  CHECK(steps_about_sizes >= 10);
}

TEST_CASE("learn: as many ranks overflow as have more rows than their size, not as there are findings") {
  Random random(5);
  std::vector<std::vector<std::int64_t>> batches = {{3, 1, 0, 5}, {4, 4, 4, 4}, {15, 1, 15, 9}};
  for (int i = 0; i < 4; ++i) {
    batches.emplace_back();
    for (std::size_t rank = 0; rank < kLabRanks; ++rank) batches.back().push_back(random.between(1, kLabMaxTokens));
  }
  for (const auto& tokens : batches) {
    CAPTURE(listed(tokens));
    // By another way: a rank replays the bucket of its own requests, and the cap is half of the largest one's rows.
    const auto bucket = [](std::int64_t requests) { return requests <= 4 ? 4 : requests <= 8 ? 8 : 16; };
    const std::int64_t most = bucket(std::ranges::max(tokens));
    const auto expected = std::ranges::count_if(tokens, [&](std::int64_t one) { return bucket(one) * 2 > most; });
    const LessonStep step = lessons()[7].steps[3](Lab{tokens, {}});
    CHECK(step.facts.at("overflowing_ranks") == expected);
    CHECK(contains(text_of(step), "more rows than their R: " + std::to_string(expected) + "."));
  }
}

TEST_CASE("learn: lesson 10 agrees by exchange, breaks where a column is missing, and is cured by it") {
  const json steps = json::parse(run({"learn", "10", "--format", "json"}).out).at("steps");
  std::vector<std::string> verdicts;
  for (const json& step : steps) verdicts.push_back(step.at("facts").at("verdict"));
  CHECK((verdicts == std::vector<std::string>{"disagrees", "agrees", "agrees", "disagrees", "agrees", "disagrees"}));
  CHECK(steps.at(1).at("facts").at("runtime_max_tokens_per_rank") == json({5, 5, 5, 5}));
  CHECK(steps.at(2).at("facts").at("runtime_max_tokens_per_rank") == json({8, 8, 8, 8}));
}

TEST_CASE("learn: sentences that need a condition have it") {
  const auto text = [](const std::string& lesson, const std::string& step, const std::string& tokens) {
    return run({"learn", lesson, "--step", step, "--tokens", tokens}).out;
  };
  CHECK(contains(text("1", "1", "3,1,0,5"), "(the first 4 of 9 tokens)"));
  CHECK(!contains(text("1", "1", "0,1,0,2"), "the first"));
  CHECK(contains(text("1", "1", "0,1,0,2"), "(1.0 means: token 0 of rank 1.)"));
  CHECK(contains(text("2", "6", "4,4,4,4"), "let one of the least busy have none"));
  CHECK(!contains(text("2", "6", "3,1,0,5"), "let one of the least busy have none"));
  CHECK(contains(text("4", "4", "3,1,0,5"), "That is how sglang #30242 looked"));
  CHECK(!contains(text("4", "4", "4,4,4,4"), "That is how sglang #30242 looked"));
  for (const char* tokens : {"3,1,0,5", "1,0,0,0", "4,4,4,4", "15,15,15,15"}) {
    CHECK(!contains(text("9", "3", tokens), ": ."));
    CHECK(!contains(run({"learn", "9", "--step", "3", "--tokens", tokens}).out, "1 requests"));
    CHECK(!contains(run({"learn", "4", "--tokens", tokens}).out, " 1 requests"));
  }
}

TEST_CASE("learn: the marks of a picture are explained where they occur, and only there") {
  Random random(17);
  std::size_t with_mix = 0, without = 0;
  for (int i = 0; i < 12; ++i) {
    std::vector<std::int64_t> tokens;
    for (std::size_t rank = 0; rank < kLabRanks; ++rank) tokens.push_back(random.between(1, 6));
    const Experiment done =
        run(Lab{tokens, {}}, lab_scenario(collapsed(lab_parallel()), {decode_step(tokens)}), "pr25907");
    for (const ReceiveBuffer& buffer : done.buffers.at(0)) {
      std::string slots, all;
      for (const std::string& line : picture_of(buffer)) {
        all += line + '\n';
        if (line.rfind("  from rank", 0) == 0) slots += line;
      }
      CHECK(contains(slots, "mix") == contains(all, "  mix: "));
      CHECK(contains(slots, "!") == contains(all, "  !: "));
      (contains(slots, "mix") ? with_mix : without) += 1;
    }
  }
  CHECK(with_mix > 0);
  CHECK(without > 0);
}

TEST_CASE("learn: the collapse does no harm to equal counts, and the lesson says so") {
  const std::string equal = run({"learn", "3", "--tokens", "4,4,4,4"}).out;
  CHECK(contains(equal, "The verdict is `agrees`: all ranks use R = 4. With these counts it goes well by accident"));
  CHECK(!contains(equal, "!  "));
  const std::string unequal = run({"learn", "3"}).out;
  CHECK(contains(unequal, "The verdict is `disagrees`: ranks use different sizes, R = [3, 1, 1, 5]."));
  // Either flag alone is enough, and the predicate's words name both.
  const json steps = json::parse(run({"learn", "3", "--format", "json"}).out).at("steps");
  const std::string flags = steps.at(0).at("pictures").dump(), fix = steps.back().at("text").dump();
  CHECK(contains(flags, "--enable-dp-lm-head  not set"));
  CHECK(contains(fix, "Leave out one of the two flags"));
  for (const char* flag : {"without_dp_lm_head", "without_moe_dense_tp_size"})
    CHECK(steps.back().at("facts").at(flag) == "agrees");
}

TEST_CASE("learn: pictures show what the simulator finds in the buffers") {
  const auto wrong_slots = [](const Experiment& done) {
    std::size_t wrong = 0;
    for (const ReceiveBuffer& buffer : done.buffers.at(0)) wrong += buffer.wrong();
    return wrong;
  };
  // Found by the shadow, not from bytes: rows of the hidden states that experts read and that hold something else.
  const auto misread = [](const Experiment& done) {
    std::set<std::tuple<int, int, std::int64_t>> rows;
    for (const Finding& found : done.step().findings)
      if (found.operation == Operation::experts && found.row && found.row->payload == 0)
        rows.insert({found.row->slice, found.row->source, found.row->slot});
    return rows.size();
  };
  Random random(11);
  for (int i = 0; i < 12; ++i) {
    std::vector<std::int64_t> tokens;
    for (std::size_t rank = 0; rank < kLabRanks; ++rank) tokens.push_back(random.between(1, 6));
    CAPTURE(listed(tokens));
    const Lab lab{tokens, {}};
    const Scenario scenario = lab_scenario(collapsed(lab_parallel()), {decode_step(tokens)});
    const Experiment broken = run(lab, scenario, "pr25907"), fixed = run(lab, scenario, "pr30450");
    CHECK(wrong_slots(fixed) == 0);
    CHECK(wrong_slots(broken) == misread(broken));
  }
  const Experiment shown = run(Lab{}, lab_scenario(lab_parallel(), {decode_step({3, 1, 0, 5})}), "pr30450");
  const auto lines = picture_of(shown.buffers.at(0).at(0));
  CHECK(lines.at(0) == "buffer of rank 0: 4 sources x 5 slots");
  CHECK(lines.size() == 5);
  CHECK(lines.at(3) == "  from rank 2 |   .    .    .    .    .  |");  // it sent nothing
}

TEST_CASE("learn: the rules of lesson 7 are judged as explore judges them") {
  const json steps = json::parse(run({"learn", "7", "--format", "json"}).out).at("steps");
  for (const std::size_t at : {1U, 2U}) CHECK(steps.at(at).at("facts").at("broken") == true);
  for (const std::size_t at : {3U, 4U}) CHECK(steps.at(at).at("facts").at("broken") == false);
  ExploreOptions options;
  options.budget_cases = steps.at(1).at("facts").at("cases").get<std::int64_t>();
  options.rule = [](const RankView& view) -> Result<SizingDecision> {
    SizingDecision decision;
    decision.runtime_max_tokens_per_rank = view.rows;
    return decision;
  };
  const GenerationExploration found = explore(*find_generation("pr29461")->generation, options);
  CHECK(steps.at(1).at("facts").at("errors") ==
        found.count(ExploreOutcome::disagrees) + found.count(ExploreOutcome::overflow));
}

TEST_CASE("learn: on a terminal it waits after each step, and asks") {
  const auto at_terminal = [](const std::string& typed) {
    std::istringstream in(typed);
    std::ostringstream out, err;
    Io io{in, out, err, true, false, true, true};
    const int exit_code = run_program({"learn", "1"}, io);
    return Outcome{exit_code, out.str(), err.str()};
  };
  const Outcome left = at_terminal("\nq\n");
  CHECK(left.exit_code == 0);
  CHECK(contains(left.out, "2/6"));
  CHECK(!contains(left.out, "3/6"));
  const std::string enters = "\n\n\n\n\n\n";
  CHECK(contains(at_terminal(enters).out, "Question"));
  CHECK(at_terminal(enters).exit_code == 0);
  const Outcome right = at_terminal(enters + "what?\n" + right_answer("1") + "\n");
  CHECK(right.exit_code == 0);
  CHECK(contains(right.err, "is no answer to this question"));
  CHECK(contains(right.out, "right: "));
  CHECK(at_terminal(enters + "12345\n").exit_code == 1);
  CHECK(!contains(at_terminal("").out, "2/6"));
}

TEST_CASE("learn: what cannot be used is one line and exit code 2") {
  const std::vector<std::vector<std::string>> cases = {{"learn", "0"},
                                                       {"learn", "11"},
                                                       {"learn", "x"},
                                                       {"learn", "1", "2"},
                                                       {"learn", "1", "--step", "7"},
                                                       {"learn", "1", "--step", "0"},
                                                       {"learn", "1", "--step", "1", "--answer", "1"},
                                                       {"learn", "--answer", "1"},
                                                       {"learn", "--step", "1"},
                                                       {"learn", "1", "--tokens", "1,2,3"},
                                                       {"learn", "1", "--tokens", "0,0,0,0"},
                                                       {"learn", "1", "--tokens", "1,2,3,16"},
                                                       {"learn", "1", "--tokens", "1,2,3,"},
                                                       {"learn", "1", "--tokens", ""},
                                                       {"learn", "1", "--format", "sarif"},
                                                       {"learn", "--", "x"}};
  for (const auto& arguments : cases) {
    CAPTURE(arguments.back());
    const Outcome outcome = run(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
  }
}

}  // namespace a2asim
