// The processes of a plug-in: one that runs it, and one above it that leaves nothing behind when that ends, or when the
// program that started both does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

#include "model/base/result.h"

namespace a2asim {

class PluginChild {
 public:
  enum class Answer { done, ended, late };

  // serve() runs in the child, once for each ask(), until the program closes its side.
  static Result<PluginChild> start(const std::function<void()>& serve);
  PluginChild(PluginChild&& other) noexcept;
  PluginChild& operator=(PluginChild&&) = delete;
  ~PluginChild() { stop(false); }

  Answer ask(std::chrono::milliseconds patience);
  // Ends all of its processes, in bounded time. What became of a child that ended by itself: "crashed with signal 11",
  // "exited with code 1".
  std::string stop(bool by_itself);
  // The last line that it printed, escaped; may be empty. After stop().
  std::string last_words() const { return last_words_; }

 private:
  PluginChild() = default;
  std::string read_last_words() const;

  pid_t supervisor_ = -1;
  int calls_ = -1;                  // the child's side answers with a byte
  int control_ = -1;                // closed: the supervisor ends everything
  int output_ = -1;                 // what the child prints
  volatile int* status_ = nullptr;  // shared: how the child ended, from waitpid
  std::string last_words_;
};

}  // namespace a2asim
