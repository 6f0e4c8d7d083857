// Any bytes of a stranger at the processes' meeting are a greeting, the beginning of one, or foreign; and any bytes of
// a process are pieces and errors that fit into them.
#include "gpu/group/messages.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  using namespace a2asim::gpu;
  const std::string text = fuzz::text_of(data, size);
  constexpr std::string_view kToken = "run-7";
  Hello hello;
  const std::string_view said = std::string_view(text).substr(0, std::min(size, greeting_bytes(kToken)));
  const Greeting greeting = read_greeting(said, kToken, hello);
  if (greeting == Greeting::introduced) fuzz::require(greeting_of(hello, kToken) == said);
  if (said.size() == greeting_bytes(kToken)) fuzz::require(greeting != Greeting::incomplete);
  std::size_t bytes = 0;
  for (const std::string& piece : unpack(text)) bytes += piece.size();
  fuzz::require(bytes <= size);
  const Error error = unpack_error(text);
  fuzz::require(error.message.size() <= size + 64 && error.facts.size() * sizeof(ErrorFact) <= size);
  return 0;
}
