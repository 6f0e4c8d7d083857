// Inside launch reading: maps of options as the words of a command.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace a2asim {

// true is the bare flag, false and null are left out, a list gives several values.
std::vector<std::string> words_of_options(const YAML::Node& options);

// {moe_config: {backend: X}, sizes: [1, 2], graphs: null} -> --moe_config.backend=X --sizes=[1,2] --graphs=null
std::vector<std::string> nested_words(const YAML::Node& options);

}  // namespace a2asim
