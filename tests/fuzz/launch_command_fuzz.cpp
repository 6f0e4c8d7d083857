// Any bytes give a launch command, which survives printing and reading, or one line that says what is wrong with them;
// and a version of SGLang's options, which the input's length chooses, reads its arguments without more.
#include "model/engines/sglang/generation.h"
#include "model/engines/sglang/start/server_args.h"
#include "model/launch/launch_command.h"
#include "tests/fuzz/input.h"

namespace {

using namespace a2asim;

using fuzz::require;
using fuzz::require_one_line;

void read_strictly(const Generation& version, const LaunchCommand& command) {
  const Result<ParsedArgs> strict = parse_server_args(version.options, command.argv, ParseMode::strict);
  if (!strict) require(strict.error().kind == ErrorKind::parse_error);
}

void read_leniently(const Generation& version, const LaunchCommand& command) {
  const Result<ParsedArgs> lenient = parse_server_args(version.options, command.argv, ParseMode::lenient);
  if (!lenient) {
    require_one_line(lenient.error().message);
    require(lenient.error().kind == ErrorKind::bad_input || lenient.error().kind == ErrorKind::parse_error);
    return;
  }
  for (const Note& note : lenient->notes) require_one_line(note.message);
  const StartOutcome outcome = start_up(version.start, lenient->args, command.env);
  if (!outcome.error) require(outcome.args.tp_size >= 1 && outcome.args.ep_size >= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<LaunchCommand> command = parse_launch_command(text);
  if (!command) {
    require_one_line(command.error().message);
    require(command.error().kind == ErrorKind::bad_input);
    return 0;
  }
  for (const Note& note : command->notes) require_one_line(note.message);
  const std::string line = print(*command);
  const Result<LaunchCommand> again = parse_launch_command(line);
  if (again) {
    require(*again == *command && print(*again) == line);
  } else {
    require(line.size() > text.size());  // quoting may carry a command at the limit above it
    require(line.size() > (std::size_t{1} << 20));
  }
  read_strictly(generations()[size % generations().size()], *command);
  read_leniently(generations()[line.size() % generations().size()], *command);
  return 0;
}
