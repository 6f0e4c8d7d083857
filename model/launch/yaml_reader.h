// YAML that somebody else wrote: one reader for every such file, with limits that count what aliases repeat.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

// All documents of the text. Errors: bad_input, one line: "line 6 is no YAML: ..", or what of it is too much: depth,
// nodes or bytes, each counted as often as an alias repeats it; an alias of what it stands in is refused.
Result<std::vector<YAML::Node>> read_yaml(const std::string& text);

}  // namespace a2asim
