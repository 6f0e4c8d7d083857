// Any line of a rule program is a size, an assertion of the rule, or one line that says what is wrong with it.
#include "tests/fuzz/input.h"
#include "tools/program/rule_process.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  const Result<RuleAnswer> answer = read_rule_answer(fuzz::text_of(data, size), 7);
  if (!answer) {
    fuzz::require_one_line(answer.error().message);
  } else if (*answer) {
    fuzz::require(**answer >= 0 && **answer <= INT32_MAX);
  } else {
    fuzz::require(answer->error().message.find_first_of("\n\r\x1b") == std::string::npos);
  }
  return 0;
}
