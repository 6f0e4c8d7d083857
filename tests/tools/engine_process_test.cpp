// --rule-cmd: programs that answer, and programs that do not.
#include "tools/program/engine_process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "model/engines/sglang/generation.h"
#include "tools/program/engine_line.h"

namespace a2asim {
namespace {

using std::chrono::milliseconds;

// A Python program that runs `body` for every view.
std::string python(const std::string& body) {
  return "python3 -u -c \"import json, sys, time\nn = 0\nfor line in sys.stdin:\n  v = json.loads(line)\n  n += 1\n  " +
         body + "\"";
}
const std::string kRows = "print(json.dumps(dict(id=v['id'], runtime_max_tokens_per_rank=v['rows'])), flush=True)";

RankView view_of(std::int64_t rows) {
  RankView view;
  view.ep_size = 4;
  view.ep_rank = 1;
  view.rows = rows;
  view.max_num_tokens = 64;
  return view;
}

constexpr milliseconds kLong{100'000};  // a busy machine starts a program late

struct Asked {
  Result<SizingDecision> answer = SizingDecision{};
  Result<void> finished;
};

Asked ask(const std::string& command, std::int64_t rows = 3, milliseconds patience = kLong) {
  const auto process = EngineProcess::start_rule(command, patience);
  REQUIRE_MESSAGE(process.has_value(), (process ? "" : process.error().message));
  Asked asked;
  asked.answer = (*process)->rule()(view_of(rows));
  asked.finished = (*process)->finish();
  return asked;
}

// The one line that ends a run: it names the command, what was wrong, and the view.
void check_ends_with(const std::string& command, const std::string& what, milliseconds patience = kLong) {
  const Asked asked = ask(command, 3, patience);
  CHECK_FALSE(asked.answer);
  REQUIRE_FALSE(asked.finished);
  CHECK(asked.finished.error().kind == ErrorKind::bad_input);
  const std::string& message = asked.finished.error().message;
  INFO(message);
  CHECK(message.starts_with("--rule-cmd '"));
  CHECK(message.find(what) != std::string::npos);
  CHECK(message.find("\"rows\":3") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

bool has_children() {
  errno = 0;
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

TEST_CASE("a rule is asked with every field of the view and answers with a size") {
  const std::string body =
      "r = [v['ep_size'], v['ep_rank'], v['rows'], v['attn_tp_size'], v['max_num_tokens'], sum(v['dp_global'] or [0]),"
      " int(v['capture']), int(v['extend']), int(v['require_mlp_tp_gather']), int(v['enable_dp_attention'])];"
      "print(json.dumps(dict(id=v['id'], runtime_max_tokens_per_rank=int(''.join(map(str, r))))), flush=True)";
  const auto process = EngineProcess::start_rule(python(body), kLong);
  REQUIRE(process);
  const std::array<std::int64_t, 2> list = {1, 2};
  const RankView view{.ep_size = 2,
                      .ep_rank = 1,
                      .dp_global = list,
                      .rows = 4,
                      .capture = true,
                      .extend = false,
                      .require_mlp_tp_gather = GatherPredicate::yes,
                      .enable_dp_attention = true,
                      .attn_tp_size = 1,
                      .max_num_tokens = 9};
  const auto answer = (*process)->rule()(view);
  REQUIRE(answer);
  CHECK(answer->runtime_max_tokens_per_rank == 2141931011);
  CHECK(answer->branch == SizingBranch::external);
  CHECK((*process)->finish());
}

TEST_CASE("an error of the rule is an assertion on that rank, and no failure of the program") {
  const Asked asked = ask(python("print(json.dumps(dict(id=v['id'], error='too many')), flush=True)"));
  REQUIRE_FALSE(asked.answer);
  CHECK(asked.answer.error() == Error{ErrorKind::assertion_error, "too many"});
  CHECK(asked.finished);
}

TEST_CASE("one view is asked once and remembered, but for the second question that must give the same") {
  const std::string path = "engine_process_test.count";
  {
    const auto process = EngineProcess::start_rule(python("open('" + path + "', 'w').write(str(n)); " + kRows), kLong);
    REQUIRE(process);
    const SizingRule rule = (*process)->rule();
    for (int i = 0; i < 1000; ++i) CHECK(rule(view_of(7))->runtime_max_tokens_per_rank == 7);
    CHECK((*process)->finish());
  }
  std::ifstream file(path);
  int asked = 0;
  file >> asked;
  CHECK(asked == 3);  // at first, at once again, and at the end
  std::remove(path.c_str());
}

TEST_CASE("no answer in time") {
  check_ends_with(python("time.sleep(60)"), "no answer within 200 ms", milliseconds(200));
}

TEST_CASE("exits: at once, with the question, by a signal") {
  check_ends_with("true", "exited with code 0 before it answered");
  check_ends_with("sh -c 'exit 3'", "exited with code 3 before it answered");
  check_ends_with(python("sys.exit(4)"), "exited with code 4 before it answered");
  check_ends_with("sh -c 'read x; kill -9 $$'", "was ended by signal 9 before it answered");
}

// A program that answers one line whatever it is asked; a shell starts faster than Python.
std::string says(const std::string& line) {
  return "sh -c 'while read -r x; do printf \"%s\\n\" \"$0\"; done' '" + line + "'";
}

TEST_CASE("answers that are none") {
  for (const char* line : {"hello", "[1]", "", "{\"id\": 0"}) check_ends_with(says(line), "no JSON object");
  check_ends_with(says("{}"), "without the \"id\" 0");
  check_ends_with(says(R"({"id": 7, "runtime_max_tokens_per_rank": 1})"), "without the \"id\" 0");
  check_ends_with(says(R"({"id": "0", "runtime_max_tokens_per_rank": 1})"), "without the \"id\" 0");
  check_ends_with(says(R"({"id": 0})"), "without one of");
  check_ends_with(says(R"({"id": 0, "runtime_max_tokens_per_rank": 1, "error": "x"})"), "without one of");
  for (const char* size : {"-1", "1.5", "\"3\"", "null", "true", "2147483648", "1e300", "99999999999999999999"})
    check_ends_with(says(std::string("{\"id\": 0, \"runtime_max_tokens_per_rank\": ") + size + "}"), "no whole number");
  check_ends_with(says(R"({"id": 0, "error": 1})"), "no text");
  check_ends_with("sh -c 'head -c 3000000 /dev/zero; sleep 9'", "1 MiB without a line end");
}

TEST_CASE("different answers to one view") {
  check_ends_with(python("print(json.dumps(dict(id=v['id'], runtime_max_tokens_per_rank=n)), flush=True)"),
                  "answered 1 and then 2 to one view");
}

TEST_CASE("an answer that changes later is found at the end") {
  const Asked asked =
      ask(python("print(json.dumps(dict(id=v['id'], runtime_max_tokens_per_rank=n // 3)), flush=True)"));
  CHECK(asked.answer);
  REQUIRE_FALSE(asked.finished);
  CHECK(asked.finished.error().message.find("answered 0 and then 1 to one view") != std::string::npos);
}

TEST_CASE("a line too many is found") {
  const Asked asked = ask(python(kRows + "; print('debug', flush=True)"));
  REQUIRE_FALSE(asked.finished);
}

TEST_CASE("after a failure nothing is asked any more") {
  const auto process = EngineProcess::start_rule(python("time.sleep(60)"), milliseconds(200));
  REQUIRE(process);
  const SizingRule rule = (*process)->rule();
  CHECK_FALSE(rule(view_of(1)));
  CHECK((*process)->failed());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(rule(view_of(i)));
  CHECK(std::chrono::steady_clock::now() - begin < kLong);  // asking would take 1000 times 200 ms
}

TEST_CASE("commands that cannot be started") {
  for (const char* command : {"/nowhere/rule", "no-such-program-anywhere x", "", "   ", "/", "a; b", "'open"}) {
    const auto process = EngineProcess::start_rule(command);
    REQUIRE_FALSE(process);
    CHECK(process.error().kind == ErrorKind::bad_input);
    CHECK(process.error().message.starts_with("--rule-cmd '"));
  }
}

TEST_CASE("no child outlives its rule, whatever it does") {
  for (const std::string& command : {python(kRows), std::string("sleep 1000"), std::string("true"),
                                     std::string("sh -c 'sleep 1000 & sleep 1000'")}) {
    const auto process = EngineProcess::start_rule(command, milliseconds(100));
    REQUIRE(process);
    (void)(*process)->rule()(view_of(1));
  }
  CHECK_FALSE(has_children());
}

// A program that starts another one, says its number in a file, and does `then`; the other one holds its output open.
std::string forking(const std::string& file, const std::string& then) {
  return "python3 -u -c \"import json, os, sys, time\nchild = os.fork()\nif child == 0:\n  time.sleep(600)\n  "
         "sys.exit()\nopen('" +
         file + "', 'w').write(str(child))\n" + then + "\"";
}

// Whether that process runs: a zombie whose new parent has not looked at it yet does not.
bool runs(const std::string& file) {
  std::string number, field, state;
  std::ifstream(file) >> number;
  REQUIRE_FALSE(number.empty());
  std::ifstream stat("/proc/" + number + "/stat");
  stat >> field >> field >> state;
  return stat && state != "Z" && state != "X";
}

bool ends_soon(const std::string& file) {
  for (int tries = 0; tries < 5000 && runs(file); ++tries) std::this_thread::sleep_for(milliseconds(10));
  return !runs(file);
}

TEST_CASE("what a rule program started ends with it: after answers, after an exit, and when this process is killed") {
  const std::string file = "engine_process_test.child";
  const std::string answers = "for line in sys.stdin:\n  v = json.loads(line)\n  " + kRows;
  {
    const auto process = EngineProcess::start_rule(forking(file, answers), kLong);
    REQUIRE(process);
    CHECK((*process)->rule()(view_of(3)));
    CHECK((*process)->finish());
    CHECK(runs(file));
  }
  CHECK(ends_soon(file));
  std::remove(file.c_str());

  // The other one keeps the pipe open: the exit is what is said, not the time that passed.
  check_ends_with(forking(file, "sys.exit(4)"), "exited with code 4 before it answered", kLong);
  CHECK(ends_soon(file));
  std::remove(file.c_str());

  const pid_t user = ::fork();
  if (user == 0) {
    const auto process = EngineProcess::start_rule(forking(file, answers), kLong);
    if (process && (*process)->rule()(view_of(3))) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  REQUIRE(::waitpid(user, &status, 0) == user);
  CHECK(WIFSIGNALED(status));
  CHECK(ends_soon(file));
  std::remove(file.c_str());
}

TEST_CASE("an answer that nests without end, or has keys without end, is no answer") {
  const auto problem = [](const std::string& line) {
    const auto read = read_rule_answer(line, 7);
    return read ? std::string() : read.error().message;
  };
  CHECK(problem(R"({"id": 7, "runtime_max_tokens_per_rank": 4})").empty());
  const std::string nest = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(problem("{\"x\":" + nest + ",\"id\":7,\"runtime_max_tokens_per_rank\":4}").find("no JSON object") !=
        std::string::npos);
  std::string keys = "{\"id\": 7, \"runtime_max_tokens_per_rank\": 4";
  for (int i = 0; i < 100; ++i) keys += ", \"k" + std::to_string(i) + "\": 1";
  CHECK(problem(keys + "}").find("no JSON object") != std::string::npos);
}

TEST_CASE("what a program that speaks the protocol may say, and what it may not") {
  const auto greeting = [](const std::string& line) {
    const auto read = read_engine_greeting(line);
    return read ? std::string() : read.error().message;
  };
  CHECK(greeting(R"({"protocol": 1, "kinds": ["sizing"], "unfit": {"sync": "why"}})").empty());
  CHECK(greeting(R"({"protocol": 1, "refused": "no checkout\n"})") == "no checkout\\n");
  CHECK(greeting(R"({"protocol": 2, "kinds": []})").find("without \"protocol\": 1") != std::string::npos);
  CHECK(greeting(R"({"protocol": 1})").find("without \"kinds\"") != std::string::npos);
  CHECK(greeting(R"({"protocol": 1, "kinds": ["weather"]})").find("'weather'") != std::string::npos);
  CHECK(greeting("hello").find("no JSON object") != std::string::npos);

  const auto answers = [](const std::string& line) {
    const auto read = read_engine_answers(line, 3, 2);
    return read ? std::string() : read.error().message;
  };
  CHECK(answers(R"({"id": 3, "answers": [{"out": 1}, {"error": "ValueError: x"}]})").empty());
  CHECK(answers(R"({"id": 4, "answers": []})").find("\"id\" 3") != std::string::npos);
  CHECK(answers(R"({"id": 3, "answers": [{"out": 1}]})").find("a list of 2") != std::string::npos);
  CHECK(answers(R"({"id": 3, "answers": [{"out": 1}, {}]})").find("without one of") != std::string::npos);
  CHECK(answers(R"({"id": 3, "answers": [{"out": 1}, {"unfit": "file: f"}]})").empty());
  CHECK(answers(R"({"id": 3, "refused": "why"})") == "cannot answer: why");
  const std::string nest = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(answers("{\"id\": 3, \"answers\": " + nest + "}").find("no JSON object") != std::string::npos);
}

TEST_CASE("a program that dies does not take this process with it by SIGPIPE") {
  const auto before = ::signal(SIGPIPE, SIG_DFL);
  const auto process = EngineProcess::start_rule("true");
  REQUIRE(process);
  std::this_thread::sleep_for(milliseconds(100));
  CHECK_FALSE((*process)->rule()(view_of(1)));
  ::signal(SIGPIPE, before);
}

TEST_CASE("a function of the caller is asked as a program is") {
  int calls = 0;
  const auto rule = EngineProcess::of("mine", [&](const RankView& view) -> Result<SizingDecision> {
    ++calls;
    if (view.rows == 5) return fail(ErrorKind::assertion_error, "not five");
    if (view.rows == 6) return fail(ErrorKind::runtime_error, "raised KeyError");
    return SizingDecision{.runtime_max_tokens_per_rank = view.dp_global ? view.dp_global->front() : view.rows};
  });
  for (int i = 0; i < 10; ++i) CHECK(rule->rule()(view_of(3))->runtime_max_tokens_per_rank == 3);
  CHECK(calls == 2);  // remembered, and asked twice
  RankView listed = view_of(3);
  {
    const std::vector<std::int64_t> gone = {7, 1};  // the question is asked once more after the list is gone
    listed.dp_global = gone;
    CHECK(rule->rule()(listed)->runtime_max_tokens_per_rank == 7);
  }
  CHECK(rule->rule()(view_of(5)).error() == Error{ErrorKind::assertion_error, "not five"});
  CHECK(rule->finish());
  CHECK_FALSE(rule->rule()(view_of(6)));
  REQUIRE_FALSE(rule->finish());
  CHECK(rule->finish().error().message.starts_with("the rule 'mine' raised KeyError; asked was {"));
}

TEST_CASE("a function of the caller that answers by anything but the view is caught") {
  std::int64_t calls = 0;
  const auto rule = EngineProcess::of("mine", [&](const RankView&) -> Result<SizingDecision> {
    return SizingDecision{.runtime_max_tokens_per_rank = ++calls};
  });
  CHECK_FALSE(rule->rule()(view_of(3)));
  CHECK(rule->failed());
}

TEST_CASE("several threads may ask at once") {
  const auto process = EngineProcess::start_rule(python(kRows), kLong);
  REQUIRE(process);
  std::array<bool, 4> right{};
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < right.size(); ++t)
      threads.emplace_back([&, t] {
        const SizingRule rule = (*process)->rule();
        bool all = true;
        for (std::int64_t rows = 0; rows < 100; ++rows) {
          const auto answer = rule(view_of(rows));
          all = all && answer && answer->runtime_max_tokens_per_rank == rows;
        }
        right[t] = all;
      });
  }
  CHECK(right == std::array<bool, 4>{true, true, true, true});
  CHECK((*process)->finish());
}

TEST_CASE("what a generation does around its rule is done around one's own") {
  const SizingRule two = [](const RankView&) -> Result<SizingDecision> {
    SizingDecision decision;
    decision.runtime_max_tokens_per_rank = 2;
    return decision;
  };
  const auto by = [&](std::string_view generation, std::int64_t rows) {
    return size_by_own_rule(two, find_generation(generation)->generation->sizing, view_of(rows));
  };
  CHECK(by("pr29461", 0)->has_dummy_token);
  CHECK_FALSE(by("pr22394", 0)->has_dummy_token);
  CHECK(by("pr22394", 3)->runtime_max_tokens_per_rank == 2);  // overflows, unchecked
  CHECK(by("pr30450", 2)->runtime_max_tokens_per_rank == 2);
  REQUIRE_FALSE(by("pr30450", 3));
  CHECK(by("pr30450", 3).error().message.find("would overflow") != std::string::npos);
  CHECK_FALSE(by("pr35758", 3));
  CHECK(by("pr35758", 1)->branch == SizingBranch::external);
}

}  // namespace
}  // namespace a2asim
