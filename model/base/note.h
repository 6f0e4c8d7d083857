// Something a person should know about how their input was read. It never changes a verdict by itself.
#pragma once

#include <string>

namespace a2asim {

struct Note {
  std::string message;    // one line
  bool is_warning = false;  // something that was written has no part in the answer, and may well have been meant to
  bool operator==(const Note&) const = default;
};

}  // namespace a2asim
