// How a version is said: people install releases and read pull requests.
#pragma once

#include <string>
#include <string_view>

#include "model/step/engine.h"

namespace a2asim {

// "v0.5.13 (pr26643, 2026-06-02)"; of rules that are no release's own state: "pr26643 (2026-06-02, first in v0.5.13)".
std::string version_in_words(const Version& version);
std::string_view release_or_name(const Version& version);  // "v0.5.13", the first release with these rules; "pr29461"
// The first release with these rules or newer ones; without one, the rules by their name.
std::string first_release(const Version& since);

}  // namespace a2asim
