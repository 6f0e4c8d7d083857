#include "sim/alltoall/shadow.h"

#include <doctest/doctest.h>

#include <array>

namespace a2asim {
namespace {

// Two ranks' slices, and dispatches of 4-byte rows to both.
struct TwoSlices {
  SentRecords records{2};
  std::array<Shadow, 2> slices{Shadow(0, records), Shadow(1, records)};

  // Tokens 10, 11, .. to slice 0 and 20, 21, .. to slice 1.
  Shadow::RecordId sent(int source, std::int64_t round) {
    const Shadow::RecordId record = records.open({source, round, static_cast<int>(round)});
    records.set_tokens(record, 0, std::array{10, 11, 12});
    records.set_tokens(record, 1, std::array{20, 21, 22});
    return record;
  }
  void write(int slice, std::int64_t begin, std::int64_t count, Shadow::RecordId record) {
    const Shadow::Run run{begin, 4, count, 0, record, 0};
    slices[static_cast<std::size_t>(slice)].write(std::span(&run, 1));
  }
};

TEST_CASE("shadow: a run holds until anybody writes into it") {
  TwoSlices world;
  const Shadow::RecordId first = world.sent(0, 1), second = world.sent(1, 1);
  world.write(0, 100, 3, first);
  const Shadow::Run run{100, 4, 3, 0, first, 0};
  std::size_t hint = 0;
  CHECK(world.slices[0].holds(run, hint));
  world.write(0, 112, 3, second);  // behind it
  CHECK(world.slices[0].holds(run, hint));
  world.write(0, 108, 1, second);  // its last row: of the same round, so on hardware either may win
  CHECK(!world.slices[0].holds(run, hint = 0));
  const Shadow::Content lost = world.slices[0].read(108, 112);
  CHECK(lost.state == Shadow::Content::State::whole);
  CHECK(lost.tag.writer == 1);
  CHECK(lost.race);
  CHECK(world.slices[0].read(106, 110).state == Shadow::Content::State::torn);
  CHECK(world.slices[0].read(124, 128).state == Shadow::Content::State::unwritten);
}

TEST_CASE("shadow: the kinds of one dispatch are told apart, and name who wrote them") {
  TwoSlices world;
  const Shadow::RecordId record = world.sent(0, 5);
  const std::array runs = {Shadow::Run{0, 4, 3, 0, record, 0}, Shadow::Run{12, 4, 2, 0, record, 0, RowKind::padding},
                           Shadow::Run{20, 4, 3, 0, record, -1, RowKind::combined}};
  world.slices[1].write(runs);
  for (const Shadow::Run& run : runs) {
    std::size_t hint = 0;
    CHECK(world.slices[1].holds(run, hint));
    Shadow::Run other = run;
    other.kind = run.kind == RowKind::padding ? RowKind::dispatched : RowKind::padding;
    CHECK(!world.slices[1].holds(other, hint = 0));
  }
  const RowTag sent = world.slices[1].read(4, 8).tag, padding = world.slices[1].read(12, 16).tag,
               result = world.slices[1].read(24, 28).tag;
  CHECK(sent.writer == 0);
  CHECK(sent.token == 21);
  CHECK(padding.writer == 1);
  CHECK(padding.source == -1);
  CHECK(padding.token == -1);
  CHECK(result.writer == 1);  // the slice's own rank computes
  CHECK(result.source == 0);
  CHECK(result.token == 21);
}

TEST_CASE("shadow: a read across two rows of one run is torn, and one of both is no row") {
  TwoSlices world;
  const Shadow::RecordId record = world.sent(0, 1);
  world.write(0, 100, 3, record);
  using State = Shadow::Content::State;
  for (const auto& [begin, end] :
       {std::pair{102, 106}, std::pair{100, 108}, std::pair{104, 106}, std::pair{101, 104}}) {
    CAPTURE(begin);
    CHECK(world.slices[0].read(begin, end).state == State::torn);
  }
  const Shadow::Content across = world.slices[0].read(102, 106);
  CHECK(across.tag.slot == 0);  // of its first bytes
  CHECK(across.tag.token == 10);
  CHECK_FALSE(across.race);
  for (const std::int64_t begin : {100, 104, 108}) CHECK(world.slices[0].read(begin, begin + 4).state == State::whole);
  CHECK(world.slices[0].read(110, 114).state == State::torn);  // the end of the last one, and nothing
  CHECK(world.slices[0].read(98, 102).state == State::torn);
}

TEST_CASE("shadow: tokens live as long as a byte of theirs, in each slice by itself") {
  TwoSlices world;
  const Shadow::RecordId old = world.sent(0, 1);
  world.write(0, 0, 3, old);
  world.write(1, 0, 3, old);
  world.records.close(old);
  const Shadow::RecordId next = world.sent(0, 2);
  world.write(0, 0, 3, next);  // covers the old rows of slice 0
  world.write(1, 0, 2, next);  // leaves one in slice 1
  CHECK(world.records.tokens(old, 0).empty());
  REQUIRE(world.records.tokens(old, 1).size() == 3);
  const RowTag stale = world.slices[1].read(8, 12).tag;
  CHECK(stale.round == 1);
  CHECK(stale.token == 22);
  world.write(1, 8, 1, next);
  world.records.close(next);
  CHECK(world.sent(1, 3) == old);  // nothing of it is left: its place is used again
}

TEST_CASE("shadow: a slot that was never sent has no token") {
  TwoSlices world;
  const Shadow::RecordId record = world.sent(0, 1);
  CHECK(world.records.token(record, 0, 2) == 12);
  CHECK(world.records.token(record, 0, 3) == -1);
  CHECK(world.records.token(record, 0, -1) == -1);
}

// Each token has a block of its own: nothing orders the rows of one rank among each other.
TEST_CASE("shadow: rows of one rank race in one round, and not with those of the next") {
  TwoSlices world;
  const Shadow::RecordId first = world.sent(0, 1), next = world.sent(0, 2);
  world.write(0, 100, 3, first);
  world.write(0, 108, 1, first);
  CHECK(world.slices[0].read(108, 112).race);
  CHECK_FALSE(world.slices[0].read(100, 104).race);
  world.write(0, 100, 3, next);
  for (const std::int64_t row : {100, 104, 108}) CHECK_FALSE(world.slices[0].read(row, row + 4).race);
}

}  // namespace
}  // namespace a2asim
