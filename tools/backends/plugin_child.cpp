#include "tools/backends/plugin_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "model/base/one_line.h"

namespace a2asim {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kRunning = -1;
constexpr rlim_t kMostOutput_bytes = rlim_t{1} << 30;
constexpr off_t kLastWords_bytes = 400;

int time_left(Clock::time_point deadline) {
  return static_cast<int>(
      std::max<milliseconds::rep>(std::chrono::ceil<milliseconds>(deadline - Clock::now()).count(), 0));
}

void set_limit(int resource, rlim_t most) {
  const rlimit limit{most, most};
  ::setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

// The process that loads and runs the plug-in: its descriptors are 0 (nothing), 1 and 2 (what it prints) and 3.
[[noreturn]] void run_child(int calls, int output, const std::function<void()>& serve) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::dup2(calls, 3);
  ::close_range(4, ~0U, 0);
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, kMostOutput_bytes);
  char byte = 0;
  while (::read(3, &byte, 1) == 1) {
    serve();
    if (::write(3, &byte, 1) != 1) break;
  }
  ::_exit(0);
}

// Kills whoever hangs below this process, also what the plug-in started and let go of.
void end_descendants() {
  for (int round = 0; round < 200; ++round) {
    const std::string path = fmt::format("/proc/self/task/{}/children", ::getpid());
    if (std::FILE* list = std::fopen(path.c_str(), "r")) {
      int pid = 0;
      while (std::fscanf(list, "%d", &pid) == 1) ::kill(pid, SIGKILL);
      std::fclose(list);
    }
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0 && errno == ECHILD) return;
    std::this_thread::sleep_for(milliseconds(5));
  }
}

// Waits for the child's end or the program's, then cleans up. Orphans of the child come to this process.
[[noreturn]] void supervise(int control, int calls, int output, volatile int* status,
                            const std::function<void()>& serve) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  ::setpgid(0, 0);  // an interrupt of the terminal is the program's to pass on
  const pid_t child = ::fork();
  if (child == 0) run_child(calls, output, serve);
  ::dup2(control, 3);
  ::close_range(4, ~0U, 0);
  ::close(STDIN_FILENO);
  ::close(STDOUT_FILENO);
  for (bool runs = child > 0; runs;) {
    pollfd closed{3, POLLIN, 0};
    if (::poll(&closed, 1, 10) > 0) break;
    int how = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &how, WNOHANG)) > 0;) {
      if (ended != child) continue;
      *status = how;
      runs = false;
    }
  }
  if (child > 0) ::kill(-child, SIGKILL);
  end_descendants();
  ::_exit(0);
}

}  // namespace

Result<PluginChild> PluginChild::start(const std::function<void()>& serve) {
  PluginChild made;
  std::array<int, 2> calls{}, control{};
  void* shared = ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  made.output_ = ::memfd_create("a2asim plug-in", MFD_CLOEXEC);
  if (shared == MAP_FAILED || made.output_ < 0 ||
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, calls.data()) != 0 ||
      ::pipe2(control.data(), O_CLOEXEC) != 0)
    return fail(ErrorKind::bad_input, fmt::format("no process for it: {}", std::strerror(errno)));
  made.status_ = static_cast<int*>(shared);
  *made.status_ = kRunning;
  ::fcntl(made.output_, F_SETFL, O_APPEND);
  std::fflush(nullptr);
  made.supervisor_ = ::fork();
  if (made.supervisor_ == 0) supervise(control[0], calls[1], made.output_, made.status_, serve);
  ::close(calls[1]);
  ::close(control[0]);
  made.calls_ = calls[0];
  made.control_ = control[1];
  if (made.supervisor_ < 0)
    return fail(ErrorKind::bad_input, fmt::format("no process for it: {}", std::strerror(errno)));
  return made;
}

PluginChild::PluginChild(PluginChild&& other) noexcept
    : supervisor_(std::exchange(other.supervisor_, -1)),
      calls_(std::exchange(other.calls_, -1)),
      control_(std::exchange(other.control_, -1)),
      output_(std::exchange(other.output_, -1)),
      status_(std::exchange(other.status_, nullptr)),
      last_words_(std::move(other.last_words_)) {}

PluginChild::Answer PluginChild::ask(milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  const char go = 1;
  if (::send(calls_, &go, 1, MSG_NOSIGNAL) != 1) return Answer::ended;
  for (;;) {
    pollfd ready{calls_, POLLIN, 0};
    const int polled = ::poll(&ready, 1, time_left(deadline));
    if (polled == 0) return Answer::late;
    if (polled < 0) continue;  // a signal
    char done = 0;
    return ::read(calls_, &done, 1) == 1 ? Answer::done : Answer::ended;
  }
}

std::string PluginChild::stop(bool by_itself) {
  if (supervisor_ <= 0) return "";
  const auto noticed = Clock::now() + std::chrono::seconds(1);
  while (by_itself && *status_ == kRunning && Clock::now() < noticed) std::this_thread::sleep_for(milliseconds(2));
  ::close(control_);
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  int how = 0;
  while (::waitpid(supervisor_, &how, WNOHANG) == 0) {
    if (Clock::now() > deadline) ::kill(supervisor_, SIGKILL);
    std::this_thread::sleep_for(milliseconds(1));
  }
  supervisor_ = -1;
  const int status = *status_;
  last_words_ = read_last_words();
  ::close(calls_);
  ::close(output_);
  ::munmap(const_cast<int*>(status_), sizeof(int));  // NOLINT: its type
  if (status == kRunning) return "";
  if (WIFSIGNALED(status))
    return fmt::format("crashed with signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exited with code {}", WEXITSTATUS(status));
}

std::string PluginChild::read_last_words() const {
  const off_t size = ::lseek(output_, 0, SEEK_END);
  std::string tail(static_cast<std::size_t>(std::clamp<off_t>(size, 0, kLastWords_bytes)), '\0');
  const ssize_t got = ::pread(output_, tail.data(), tail.size(), std::max<off_t>(size - kLastWords_bytes, 0));
  tail.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == '\r')) tail.pop_back();
  if (const auto line = tail.rfind('\n'); line != std::string::npos) tail.erase(0, line + 1);
  return one_line(tail, 200);
}

}  // namespace a2asim
