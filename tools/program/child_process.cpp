#include "tools/program/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

extern char** environ;  // NOLINT: POSIX declares it nowhere

namespace a2asim {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

void close_if_open(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

int left(Clock::time_point deadline) {
  const auto time = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<milliseconds::rep>(time, 0));
}

// Writing into a pipe without a reader must give EPIPE and not kill this process, whatever the program around us does
// with SIGPIPE.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec now{};
    if (sigismember(&before_, SIGPIPE) == 0)
      while (sigtimedwait(&sigpipe_, nullptr, &now) == SIGPIPE) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
};

std::string in_seconds(milliseconds patience) {
  return patience.count() % 1000 == 0 ? fmt::format("{} s", patience.count() / 1000)
                                      : fmt::format("{} ms", patience.count());
}

struct Pipes {
  std::array<int, 2> to_child = {-1, -1};
  std::array<int, 2> from_child = {-1, -1};
};

int spawn(const std::vector<std::string>& words, const Pipes& pipes, pid_t& pid) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));  // NOLINT: argv's type
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, pipes.to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, pipes.from_child[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t reset;
  sigemptyset(&reset);
  sigaddset(&reset, SIGPIPE);  // ignored signals would be inherited
  posix_spawnattr_setsigdefault(&attributes, &reset);
  posix_spawnattr_setpgroup(&attributes, 0);  // so that what a script starts can be ended with it
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// Only system calls that a process made by fork() from one with threads may make.
[[noreturn]] void guard_group(pid_t group, int pipe) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);  // ctrl-C is for the others
  ::setpgid(0, 0);                        // and so is a kill of their group
  ::dup2(pipe, STDIN_FILENO);
  constexpr unsigned kFirst = STDIN_FILENO + 1;
  if (::syscall(SYS_close_range, kFirst, ~0U, 0U) != 0)  // an old kernel
    for (int file = kFirst; file < 1024; ++file) ::close(file);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(-group, SIGKILL);
  ::_exit(0);
}

void reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& words) {
  Pipes pipes;
  ChildProcess made;
  int error = 0;
  if (::pipe2(pipes.to_child.data(), O_CLOEXEC) != 0 || ::pipe2(pipes.from_child.data(), O_CLOEXEC) != 0) error = errno;
  if (error == 0) error = spawn(words, pipes, made.pid_);
  close_if_open(pipes.to_child[0]);
  close_if_open(pipes.from_child[1]);
  made.to_child_ = pipes.to_child[1];
  made.from_child_ = pipes.from_child[0];
  if (error != 0) made.pid_ = -1;
  if (error == 0) error = made.start_guard();
  if (error != 0) return fail(ErrorKind::bad_input, std::strerror(error));
  ::fcntl(made.to_child_, F_SETFL, O_NONBLOCK);
  return made;
}

// 0, or why there is none.
int ChildProcess::start_guard() {
  std::array<int, 2> pipe = {-1, -1};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return errno;
  guard_ = ::fork();
  if (guard_ == 0) guard_group(pid_, pipe[0]);
  const int error = guard_ < 0 ? errno : 0;
  close_if_open(pipe[0]);
  to_guard_ = pipe[1];
  return error;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      guard_(std::exchange(other.guard_, -1)),
      to_guard_(std::exchange(other.to_guard_, -1)),
      to_child_(std::exchange(other.to_child_, -1)),
      from_child_(std::exchange(other.from_child_, -1)),
      received_(std::move(other.received_)) {}

ChildProcess::~ChildProcess() { stop(milliseconds(500)); }

Result<std::string> ChildProcess::ask(const std::string& line, milliseconds patience) {
  const Deadline deadline = Clock::now() + patience;
  if (!received_.empty()) return fail(ErrorKind::runtime_error, "printed more than one line for the view before");
  const Result<void> sent = send(line + '\n', deadline);
  Result<std::string> answer = sent ? receive(deadline) : tl::unexpected(sent.error());
  if (!answer && answer.error().message.empty())
    answer.error().message = fmt::format("gave no answer within {}", in_seconds(patience));
  return answer;
}

// An empty message stands for "too late".
Result<void> ChildProcess::send(const std::string& text, Deadline deadline) {
  const WithoutSigpipe guard;
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t written = ::write(to_child_, text.data() + sent, text.size() - sent);
    if (written >= 0) {
      sent += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      pollfd ready{to_child_, POLLOUT, 0};
      if (::poll(&ready, 1, left(deadline)) == 0) return fail(ErrorKind::runtime_error, "");
    } else if (errno != EINTR) {
      return fail(ErrorKind::runtime_error, describe_exit());
    }
  }
  return {};
}

Result<std::string> ChildProcess::receive(Deadline deadline) {
  std::array<char, 4096> buffer{};
  std::size_t end = std::string::npos;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (received_.size() > kMaxLineBytes)
      return fail(ErrorKind::runtime_error, "printed more than 1 MiB without a line end");
    // What the child started may keep its output open: its own end is looked for, too.
    const bool ended = has_ended();
    pollfd ready{from_child_, POLLIN, 0};
    const int polled = ::poll(&ready, 1, ended ? 0 : std::min(left(deadline), 20));
    if (polled == 0 && ended) return fail(ErrorKind::runtime_error, describe_exit());
    if (polled == 0 && left(deadline) == 0) return fail(ErrorKind::runtime_error, "");
    if (polled <= 0) continue;  // a signal, or not yet
    const ssize_t size = ::read(from_child_, buffer.data(), buffer.size());
    if (size > 0) received_.append(buffer.data(), static_cast<std::size_t>(size));
    if (size == 0) return fail(ErrorKind::runtime_error, describe_exit());
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

// Whether it has, without reaping it: its number stays its own, and with it that of its group.
bool ChildProcess::has_ended() const {
  siginfo_t info{};
  return pid_ > 0 && ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

std::string ChildProcess::describe_exit() {
  close_if_open(to_child_);
  for (int tries = 0; tries < 100 && !has_ended(); ++tries) std::this_thread::sleep_for(milliseconds(5));
  siginfo_t info{};
  if (!has_ended() || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
    return "closed its input or output before it answered";
  return info.si_code == CLD_EXITED ? fmt::format("exited with code {} before it answered", info.si_status)
                                    : fmt::format("was ended by signal {} before it answered", info.si_status);
}

void ChildProcess::stop(milliseconds patience) {
  close_if_open(to_child_);
  const Deadline deadline = Clock::now() + patience;
  while (pid_ > 0 && !has_ended() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
  if (guard_ > 0) {
    ::kill(guard_, SIGKILL);
    reap(guard_);
  }
  if (pid_ > 0) reap(pid_);  // last: until then nobody else can have the number of its group
  pid_ = guard_ = -1;
  close_if_open(to_guard_);
  close_if_open(from_child_);
}

}  // namespace a2asim
