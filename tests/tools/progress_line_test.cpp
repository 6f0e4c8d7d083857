#include "tools/program/progress_line.h"

#include <doctest/doctest.h>

#include <sstream>

using a2asim::ProgressLine;
using std::chrono::milliseconds;

TEST_CASE("progress: by the clock, rewritten in place, and gone at the end") {
  std::ostringstream err;
  milliseconds time{1000};
  int asked = 0;
  {
    ProgressLine line(err, [&] { return time; });
    const auto show = [&](const char* words) {
      line.show([&] {
        ++asked;
        return words;
      });
    };
    show("too early");
    time += milliseconds{249};
    show("still too early");
    CHECK(err.str().empty());
    time += milliseconds{1};
    show("step 1");
    show("at once");
    time += milliseconds{300};
    show("step 2");
    CHECK(asked == 2);
    CHECK(err.str() == "\r\x1b[Kstep 1\r\x1b[Kstep 2");
  }
  CHECK(err.str() == "\r\x1b[Kstep 1\r\x1b[Kstep 2\r\x1b[K");
}

TEST_CASE("progress: short work leaves nothing at all") {
  std::ostringstream err;
  {
    ProgressLine line(err, [] { return milliseconds{5}; });
    line.show([] { return "never"; });
  }
  CHECK(err.str().empty());
}
