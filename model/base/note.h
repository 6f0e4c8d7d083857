// Something a person should know about how their input was read. It never changes a verdict by itself.
#pragma once

#include <string>
#include <string_view>

namespace a2asim {

struct Note {
  std::string message;      // one line
  bool is_warning = false;  // something that was written has no part in the answer, and may well have been meant to
  std::string_view id = {};  // of the finding that it becomes; empty: the plain one of whoever asked
  bool operator==(const Note&) const = default;
};

}  // namespace a2asim
