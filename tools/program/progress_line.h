// One line on the terminal that says how far long work is; nothing is left of it.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>

namespace a2asim {

class ProgressLine {
 public:
  using Clock = std::function<std::chrono::milliseconds()>;  // since anything
  static std::chrono::milliseconds now();

  explicit ProgressLine(std::ostream& err, Clock clock = now) : err_(err), clock_(std::move(clock)), last_(clock_()) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // By the clock, not by how much was done: what a step costs is known only afterwards. words() is asked only when it
  // is shown.
  template <class Words>
  void show(Words words) {
    const std::chrono::milliseconds time = clock_();
    if (time - last_ < kPause) return;
    last_ = time;
    is_shown_ = true;
    err_ << "\r\x1b[K" << words() << std::flush;
  }
  void clear() {
    if (is_shown_) err_ << "\r\x1b[K" << std::flush;
    is_shown_ = false;
  }

 private:
  static constexpr std::chrono::milliseconds kPause{250};  // shorter work ends before anybody looks

  std::ostream& err_;
  Clock clock_;
  std::chrono::milliseconds last_;
  bool is_shown_ = false;
};

inline std::chrono::milliseconds ProgressLine::now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace a2asim
