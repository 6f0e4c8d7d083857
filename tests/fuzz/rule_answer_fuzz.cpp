// Any line of a program outside is answers, or one line that says what is wrong with it.
#include "tests/fuzz/input.h"
#include "tools/program/engine_line.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  const std::string line = fuzz::text_of(data, size);
  if (const auto answer = read_rule_answer(line, 7); !answer) {
    fuzz::require_one_line(answer.error().message);
  } else if (answer->contains("out")) {
    fuzz::require(count_in(answer->at("out").at("runtime_max_tokens_per_rank")).has_value());
  } else {
    const auto error = answer->at("error").get<std::string>();
    fuzz::require(error.find_first_of("\n\r\x1b") == std::string::npos);
  }
  if (const auto answers = read_engine_answers(line, 7, 2); !answers) fuzz::require_one_line(answers.error().message);
  if (const auto greeting = read_engine_greeting(line); !greeting) fuzz::require_one_line(greeting.error().message);
  return 0;
}
