// Inside the scenario reader: the text before yaml-cpp sees it, and where yaml-cpp's own words would mislead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario_reader_yaml.h"

namespace a2asim::yaml {

void check_characters(std::string_view text);

struct Rewritten {
  std::string text;
  std::vector<Position> joins;           // in `text`
  Position position(Position at) const;  // of a place in `text`: where it stood before
};
// JSON writes a character beyond U+FFFF as two escapes (\ud83d\udc0d), YAML knows it as one (\U0001F40D). Other texts
// stay as they are.
Rewritten join_surrogates(std::string_view text);

// yaml-cpp takes a bracket that is never closed for a key. Refuses where brackets from `at` on stay open or nest too
// deep.
void check_brackets(std::string_view text, Position at);

}  // namespace a2asim::yaml
