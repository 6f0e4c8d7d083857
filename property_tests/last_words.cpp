#include "property_tests/last_words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>

namespace a2asim::props {
namespace {

constexpr std::array kSignals = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr unsigned kSeconds = 20;

struct Trying {
  const Law* law = nullptr;
  std::string_view run, generation;
  RunParams params;
  const Scenario* world = nullptr;
  std::int64_t number = 0;
};
Trying trying_now;
std::array<struct sigaction, kSignals.size()> before;
stack_t stack_before;
std::array<std::byte, 1 << 18> stack;  // the law's own may be what overflowed

// These signals come from the law itself, so that nothing else is going on: allocating is as safe as the crash left it.
// Where that was within malloc, the alarm ends a wait.
void speak(int signal) {
  for (const int one : kSignals) std::signal(one, SIG_DFL);
  alarm(kSeconds);
  if (trying_now.world != nullptr) {
    const Scenario& world = *trying_now.world;
    const Failure failure{trying_now.number, world, world,
                          fmt::format("the law ended with signal {} ({})", signal, strsignal(signal))};
    const std::string text =
        "\n" + report(*trying_now.law, trying_now.run, trying_now.generation, failure, trying_now.params) + "\n";
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t written = write(STDERR_FILENO, text.data() + at, text.size() - at);
      if (written <= 0) break;
      at += static_cast<std::size_t>(written);
    }
  }
  std::raise(signal);
}

}  // namespace

LastWords::LastWords(const Law& law, std::string_view run, std::string_view generation, const RunParams& params) {
  A2ASIM_INVARIANT(trying_now.law == nullptr, "one run of a law at a time");
  trying_now = {&law, run, generation, params, nullptr, 0};
  stack_t alternate = {};
  alternate.ss_sp = stack.data();
  alternate.ss_size = stack.size();
  sigaltstack(&alternate, &stack_before);
  struct sigaction action = {};
  action.sa_handler = speak;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

LastWords::~LastWords() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  sigaltstack(&stack_before, nullptr);
  trying_now = Trying{};
}

void LastWords::trying(const Scenario* world, std::int64_t number) {
  trying_now.world = world;
  trying_now.number = number;
}

}  // namespace a2asim::props
