// JSON that somebody else wrote: one reader, with limits, for every text that the program parses.
//
//   const Result<nlohmann::json> answer = read_json(line, {.bytes = 4096});
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/result.h"

namespace a2asim {

struct JsonLimits {
  std::size_t bytes = std::size_t{4} << 20;
  int depth = 64;              // of lists and objects in each other
  std::size_t keys = 100'000;  // of all objects together
};

// Keys are sorted; of a key that is given twice the last value counts, as in Python. Errors: bad_input, what is wrong
// and where ("no JSON at line 3, column 7"), without a line end.
Result<nlohmann::json> read_json(std::string_view text, const JsonLimits& limits = {});

}  // namespace a2asim
