// The time of a line of a log.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "tools/from_log/from_log_lines.h"

namespace a2asim {

TEST_CASE("from-log: a stamp is a day and a time that there are, in milliseconds") {
  struct Row {
    std::string stamp;
    std::optional<std::int64_t> time_ms;
  };
  const std::vector<Row> table = {
      {"1970-01-01 00:00:00", 0},
      {"1970-01-01T00:00:00", 0},
      {"1970-01-01 00:00:01", 1000},
      {"1970-01-01 00:01:00", 60'000},
      {"1970-01-01 01:00:00", 3'600'000},
      {"1970-01-02 03:04:05.678", 97'445'678},
      {"1970-01-01 00:00:00,25", 250},
      {"1970-01-01 00:00:00.5", 500},
      {"1970-01-01 00:00:00.6789", 678},
      {"1970-01-01 00:00:00.", 0},
      {"1970-01-01 23:59:59", 86'399'000},
      {"1970-01-01 23:59:60", 86'400'000},  // a leap second
      {"1970-01-01 23:59:61", std::nullopt},
      {"1970-01-01 24:00:00", std::nullopt},
      {"1970-01-01 00:60:00", std::nullopt},
      {"1970-01-01 23:00:00", 82'800'000},
      {"1970-01-01 00:59:00", 3'540'000},
      {"1970-00-01 00:00:00", std::nullopt},
      {"1970-13-01 00:00:00", std::nullopt},
      {"1970-02-01 00:00:00", 31 * 86'400'000LL},
      {"1970-01-00 00:00:00", std::nullopt},
      {"1970-02-29 00:00:00", std::nullopt},
      {"1972-02-29 00:00:00", (2 * 365 + 31 + 28) * 86'400'000LL},
      {"1970-01-01 00:00", std::nullopt},
      {"1970/01/01 00:00:00", std::nullopt},
      {"1971-01-01 00:00:00 1970-01-01 00:00:07", 7000},  // a container's stands in front
  };
  for (const Row& row : table) {
    CAPTURE(row.stamp);
    const auto found = read_batches("[" + row.stamp + " DP1 TP2] Decode batch, #running-req: 3, #token: 5", 4);
    REQUIRE(found.size() == 1);
    const auto* line = std::get_if<BatchLine>(&found[0]);
    REQUIRE(line != nullptr);
    CHECK(line->time_ms == row.time_ms);
    CHECK(line->dp_rank == 1);
    CHECK(line->tp_rank == 2);
    CHECK_FALSE((line->pp_rank || line->attn_cp_rank || line->iteration || line->cuda_graph));
    CHECK(line->count == 3);
    CHECK(line->number == 4);
  }
}

}  // namespace a2asim
