// Each field of a judgement, shown by the smallest step in which it is not what it usually is.
#include "model/step/judgement.h"

#include <doctest/doctest.h>

#include <vector>

namespace a2asim {
namespace {

constexpr RankMask kBoth = RankMask::all(2);

RankDecision decided(std::int64_t r, std::int64_t rows) {
  RankDecision decision;
  decision.participates = true;
  decision.mode = ForwardMode::decode;
  decision.rows = rows;
  decision.sizing = {r, rows, false, SizingBranch::max_of_list};
  return decision;
}
RankDecision above_cap(std::int64_t r) {
  RankDecision decision = decided(r, 1);
  decision.exceeds_cap = true;
  return decision;
}
RankDecision raised() {
  RankDecision decision = decided(0, 1);
  decision.raised = Error{ErrorKind::assertion_error, "no list"};
  return decision;
}
RankDecision leaving() {
  RankDecision decision = decided(0, 3);
  decision.is_extend = true;
  decision.sizing = {0, 3, false, SizingBranch::allgather_prefill};
  return decision;
}
RankDecision dummy(std::int64_t r) {
  RankDecision decision = decided(r, 0);
  decision.sizing.has_dummy_token = true;
  return decision;
}
constexpr RankGeometry kSlice{.runtime_max_tokens_per_rank = 4,
                              .local_num_tokens = 4,
                              .max_num_tokens = 4,
                              .payload_data = 128,
                              .dispatch_bytes_per_token = 24,
                              .combine_bytes_per_token = 8,
                              .slice_bytes = 128 + 256 + 128};

Judgement judged(std::vector<RankDecision> decisions) { return judge({.decisions = decisions, .max_num_tokens = 4}); }
Verdict verdict(std::vector<RankDecision> decisions) { return judged(std::move(decisions)).verdict; }

}  // namespace

TEST_CASE("judgement: ranks that agree and fit") {
  const Judgement said = judged({decided(3, 3), decided(3, 1)});
  CHECK(said.verdict == Verdict::agrees);
  CHECK(said.phase == Phase::eager_decode);
  CHECK_FALSE(said.stopped);
  CHECK(said.group == kBoth);
  CHECK(said.taking_part == kBoth);
  CHECK((said.gathering | said.refused | said.over_capacity | said.table_overflow).empty());
  CHECK(said.geometry.agrees());
  CHECK(said.geometry.disagreeing_rank == -1);
  CHECK(said.geometry.largest_r == 3);
  CHECK(said.geometry.largest_tokens == 3);
  CHECK(said.geometry.reserved_rows == 12);
  CHECK(said.largest_tokens_per_rank() == 3);
}

TEST_CASE("judgement: a step without work has no group") {
  const Judgement said = judged({RankDecision{}, RankDecision{}});
  CHECK(said.group.empty());
  CHECK(said.verdict == Verdict::agrees);
  CHECK_FALSE(said.stopped);
  CHECK(said.no_all_to_all());
}

TEST_CASE("judgement: the first rank that differs from the first is named") {
  const Judgement said = judged({decided(3, 3), decided(3, 1), decided(2, 1), decided(1, 1)});
  CHECK(said.verdict == Verdict::disagrees);
  CHECK(said.geometry.disagreeing_rank == 2);
  CHECK_FALSE(said.geometry.same_r);
  CHECK_FALSE(said.stopped);  // nobody notices
}

TEST_CASE("judgement: more rows than R is an overflow that nothing checks") {
  const Judgement said = judged({decided(2, 2), decided(2, 3)});
  CHECK(said.verdict == Verdict::over_capacity);
  CHECK(said.geometry.receive_overflow == RankMask::of(1));
  CHECK(said.largest_tokens_per_rank() == 3);
  CHECK_FALSE(said.stopped);
}

TEST_CASE("judgement: R above the cap is refused, by all or with peers that wait") {
  const Judgement all = judged({above_cap(5), above_cap(5)});
  CHECK(all.verdict == Verdict::over_capacity);
  CHECK(all.over_capacity == kBoth);
  CHECK(all.refused == kBoth);
  CHECK(all.nobody_enters());
  CHECK_FALSE(all.nobody_gets_in());  // it fits the cap with fewer tokens
  CHECK(all.stopped);
  CHECK(judged({decided(5, 1), decided(5, 1)}).over_capacity == kBoth);  // by the number alone, too
  const Judgement some = judged({above_cap(5), decided(4, 1)});
  CHECK(some.verdict == Verdict::disagrees);
  CHECK(some.stopped);
  CHECK(some.taking_part == RankMask::of(1));
  CHECK(verdict({above_cap(5), above_cap(6)}) == Verdict::disagrees);
}

TEST_CASE("judgement: a rule that raises on every rank rejects, on some it leaves the others waiting") {
  const Judgement all = judged({raised(), raised()});
  CHECK(all.verdict == Verdict::rejected);
  CHECK(all.refused == kBoth);
  CHECK(all.over_capacity.empty());
  CHECK(all.nobody_gets_in());
  CHECK(verdict({raised(), decided(3, 3)}) == Verdict::disagrees);
  CHECK(verdict({raised(), above_cap(5)}) == Verdict::disagrees);
}

TEST_CASE("judgement: FlashInfer refuses every dispatch, or one with R = 0") {
  const std::vector<RankDecision> fine = {decided(3, 3), decided(3, 3)};
  CHECK(judge({.decisions = fine}).verdict == Verdict::agrees);
  CHECK(judge({.decisions = fine, .refuses_dispatch = true}).verdict == Verdict::rejected);
  CHECK(judged({decided(0, 0), decided(0, 0)}).geometry.refuses_dispatch == kBoth);
  CHECK(verdict({decided(0, 0), decided(0, 0)}) == Verdict::rejected);
}

TEST_CASE("judgement: who leaves the all-to-all takes no part, and must not be alone") {
  const Judgement all = judged({leaving(), leaving()});
  CHECK(all.verdict == Verdict::agrees);
  CHECK(all.phase == Phase::prefill);
  CHECK(all.gathering == kBoth);
  CHECK(all.no_all_to_all());
  CHECK_FALSE(all.stopped);
  CHECK(verdict({leaving(), decided(3, 3)}) == Verdict::disagrees);
  const Judgement waiting = judged({leaving(), raised()});
  CHECK(waiting.verdict == Verdict::disagrees);
  CHECK(waiting.nobody_gets_in());  // of those who would enter the all-to-all
  const std::vector<RankDecision> both = {leaving(), leaving()};
  CHECK(judge({.decisions = both, .refuses_dispatch = true}).verdict == Verdict::agrees);  // no dispatch is called
  Judgement differing = judged({leaving(), leaving()});
  differing.gather_differs_at(1);
  CHECK(differing.gather_disagreeing_rank == 1);
  CHECK(differing.verdict == Verdict::disagrees);
  CHECK(differing.stopped);
}

TEST_CASE("judgement: absent ranks are waited for, masked ones are not") {
  const std::vector<RankDecision> fine = {decided(3, 3), decided(3, 3)};
  const Judgement waited = judge({.decisions = fine, .absent = RankMask::of(1)});
  CHECK(waited.verdict == Verdict::disagrees);
  CHECK(waited.stopped);
  CHECK(waited.group == kBoth);
  const Judgement masked = judge({.decisions = fine, .absent = RankMask::of(1), .masked = RankMask::of(1)});
  CHECK(masked.verdict == Verdict::agrees);
  CHECK(masked.group == RankMask::of(0));
  CHECK(verdict({decided(3, 3), RankDecision{}}) == Verdict::disagrees);  // rank 1 has no work and does not come
}

TEST_CASE("judgement: slices of other layouts disagree, and combine's region must fit") {
  const std::vector<RankDecision> fine = {decided(4, 4), decided(4, 4)};
  std::vector<RankGeometry> slices = {kSlice, kSlice};
  CHECK(judge({.decisions = fine, .slices = slices}).verdict == Verdict::agrees);
  slices[1].max_num_tokens = 5;
  const Judgement other = judge({.decisions = fine, .slices = slices});
  CHECK(other.verdict == Verdict::disagrees);
  CHECK_FALSE(other.geometry.same_layout);
  CHECK(other.geometry.same_r);
  slices[0].slice_bytes = slices[1].slice_bytes = 128 + 256;
  slices[1].max_num_tokens = 4;
  const Judgement tight = judge({.decisions = fine, .slices = slices});
  CHECK(tight.verdict == Verdict::over_capacity);
  CHECK(tight.geometry.refuses_combine == kBoth);
  CHECK_FALSE(tight.stopped);  // not before combine
}

TEST_CASE("judgement: the top-k tables hold a number of rows of their own") {
  const std::vector<RankDecision> many = {decided(4, 4), decided(4, 4)};
  const DecidedStep fits{.decisions = many, .max_num_tokens = 4, .max_top_k = 8, .top_k = 8};
  CHECK(judge(fits).table_overflow.empty());
  const DecidedStep wide{.decisions = many, .max_num_tokens = 4, .max_top_k = 8, .top_k = 10};
  const Judgement said = judge(wide);
  CHECK(said.table_overflow == kBoth);
  CHECK(said.refused == kBoth);
  CHECK(said.taking_part.empty());
}

TEST_CASE("judgement: a dummy token is a row that is sent, but not by a graph") {
  CHECK(sent_rows(dummy(1)) == 1);
  CHECK(judged({decided(1, 1), dummy(1)}).verdict == Verdict::agrees);
  RankDecision replayed = dummy(1);
  replayed.replay = true;
  CHECK(sent_rows(replayed) == 0);
}

TEST_CASE("judgement: phases, the gravest first") {
  RankDecision replays = decided(1, 1), verifies = replays, extends = replays;
  replays.replay = true;
  verifies.mode = ForwardMode::target_verify;
  extends.is_extend = true;
  const auto phase = [](std::vector<RankDecision> decisions) { return judged(std::move(decisions)).phase; };
  CHECK(phase({decided(1, 1), replays}) == Phase::graph_decode);
  CHECK(phase({replays, verifies}) == Phase::verify);
  CHECK(phase({verifies, replays, extends}) == Phase::prefill);
}

TEST_CASE("judgement: of more than 64 ranks every n-th is looked at, the first included") {
  std::vector<RankDecision> many(130, decided(3, 3));
  CHECK(judged(many).verdict == Verdict::agrees);
  CHECK(judged(many).group.count() == 44);
  many.front() = decided(2, 2);
  CHECK(judged(many).verdict == Verdict::disagrees);
}

TEST_CASE("judgement: numbers that a rule of the user's own may answer do not wrap") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::vector<RankDecision> huge = {decided(most, 1), decided(most, 1)};
  CHECK(judge({.decisions = huge}).geometry.reserved_rows == most);
  CHECK(judge({.decisions = huge, .max_num_tokens = 4}).verdict == Verdict::over_capacity);
}

TEST_CASE("judgement: waste begins at four times the rows") {
  CHECK(is_wasteful(12, 3));
  CHECK_FALSE(is_wasteful(11, 3));
  CHECK_FALSE(is_wasteful(11, 0));
}

}  // namespace a2asim
