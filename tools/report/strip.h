// The one picture on a page's first screen: a strip of a rank's receive buffer, divided by two sizes, and where a row
// goes astray between them.
//
//   values["strip"] = strip_values(0, 2, 1, 2, 1);   // rank 0 takes R = 2, rank 1 takes R = 1, four ranks
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "model/check/check.h"

namespace a2asim {

// Reader and writer, the size that each uses, and the writer's place among the sources. null: the sizes are equal.
nlohmann::ordered_json strip_values(std::int64_t reader, std::int64_t reader_size, std::int64_t writer,
                                    std::int64_t writer_size, std::int64_t ranks_per_writer = 1);

// Of the first witness that shows two sizes, or more rows than the cap; null: there is none.
nlohmann::ordered_json strip_of(const CheckReport& report);

}  // namespace a2asim
