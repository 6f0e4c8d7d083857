// A child process with pipes to its standard input and output, talked to line by line with a time limit.
//
// It leads a process group of its own, and with it ends all that it started and that stayed in the group: at stop(),
// and also when this process ends by a signal. For that a small guard process waits for the end of a pipe that only
// this process holds open.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

class ChildProcess {
 public:
  // words[0] is looked up in PATH. Standard error is inherited. Errors: bad_input, the system's own words.
  static Result<ChildProcess> start(const std::vector<std::string>& words);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  // see stop()

  // Sends `line` and a newline, then reads one line, within `patience` in all. Errors: runtime_error, what went wrong
  // ("exited with code 1 before it answered", "gave no answer within 5 s", ..). A child that failed is of no further
  // use.
  Result<std::string> ask(const std::string& line, std::chrono::milliseconds patience);

  // Closes the child's input; a child that does not end within `patience` is killed. Its group is killed and it is
  // reaped in any case.
  void stop(std::chrono::milliseconds patience);

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  ChildProcess() = default;
  Result<void> send(const std::string& text, Deadline deadline);
  Result<std::string> receive(Deadline deadline);
  int start_guard();
  bool has_ended() const;
  std::string describe_exit();

  pid_t pid_ = -1;
  pid_t guard_ = -1;
  int to_guard_ = -1;  // closed: the guard kills the group
  int to_child_ = -1;
  int from_child_ = -1;
  std::string received_;  // beyond the last line
};

}  // namespace a2asim
