// What the bench and the suite say of a dispatcher that departs from the oracle, fails, or cannot be asked.
#include "sim/conformance/bench.h"

#include <doctest/doctest.h>

#include <functional>

#include "sim/alltoall/sim_alltoall.h"
#include "sim/conformance/suite.h"

namespace a2asim::conformance {
namespace {

// The simulator as a plain dispatcher, with other answers where a test gives some.
struct Departures {
  Capabilities can = Capabilities::all();
  std::function<void(int rank, Received& received)> received = [](int, Received&) {};
  std::function<void(int rank, std::vector<std::int32_t>& slots)> slots = [](int, std::vector<std::int32_t>&) {};
  std::function<void(Outputs& outputs)> outputs = [](Outputs&) {};
  std::string_view failing = {};  // the call that fails
};

class Departing final : public Dispatcher {
 public:
  Departing(const std::vector<AllToAllConfig>& configs, Departures as)
      : sim_(*SimAllToAll::create(configs, {})), as_(std::move(as)) {}
  std::string_view backend() const override { return "departing"; }
  std::span<const int> local_ranks() const override { return sim_->local_ranks(); }
  Capabilities capabilities() const override { return as_.can; }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override {
    return as_.failing == "dispatch" ? Result<void>(failed()) : sim_->dispatch(inputs);
  }
  Result<Received> received(int rank) override {
    if (as_.failing == "received") return failed();
    auto got = sim_->received(rank);
    if (got) as_.received(rank, *got);
    return got;
  }
  Result<std::vector<std::int32_t>> slots(int rank) override {
    if (as_.failing == "slots") return failed();
    auto told = static_cast<AllToAll&>(*sim_).slots(rank);
    if (told) as_.slots(rank, *told);
    return told;
  }
  Result<void> combine(std::span<const std::int64_t> runtime_max, std::span<const std::vector<std::byte>> results,
                       Outputs& outputs) override {
    if (as_.failing == "combine") return failed();
    auto ok = static_cast<Dispatcher&>(*sim_).combine(runtime_max, results, outputs);
    as_.outputs(outputs);
    return ok;
  }

 private:
  static tl::unexpected<Error> failed() { return fail(ErrorKind::runtime_error, "it broke"); }
  std::unique_ptr<SimAllToAll> sim_;
  Departures as_;
};

// Of two ranks rank 0 has three tokens and rank 1 two; all go to rank 0. Rows: 16 bytes, an id, a weight.
std::string said_of(const Departures& as, int top_k = 1, DataType type = DataType::bfloat16) {
  const std::vector<AllToAllConfig> configs(2, usual_config(2, 4, 8, top_k, 2 * top_k, type));
  Bench bench(configs, std::make_unique<Departing>(configs, as));
  Random random(3);
  auto batches = draw(configs, kUsualPayloads, {3, 2}, RoutingPattern::distinct, random);
  for (TokenBatch& batch : batches)
    for (std::size_t i = 0; i < batch.expert_ids().size(); ++i)
      batch.expert_ids()[i] = static_cast<std::int32_t>(i) % top_k;
  return bench.round(inputs_of(batches, 3), -1, &kUsualPayloads);
}

Departures receives(std::function<void(Received&)> change, Capabilities can = Capabilities::all()) {
  Departures as;
  as.can = can;
  as.received = [change = std::move(change)](int rank, Received& got) {
    if (rank == 0) change(got);
  };
  return as;
}

TEST_CASE("bench: a dispatcher that does what it must has nothing said of it") {
  CHECK(said_of({}).empty());
  const Capabilities all = Capabilities::all();
  for (const Capability one : {Capability::slot_order, Capability::told_slots, Capability::sum_order})
    CHECK(said_of({.can = all.without(one)}).empty());
  CHECK(said_of({.can = all.without(Capability::slot_order).without(Capability::told_slots)}).empty());
}

TEST_CASE("bench: calls that fail end the round with their words") {
  for (const auto& [call, wanted] : {std::pair<const char*, const char*>{"dispatch", "dispatch: it broke"},
                                     {"received", "dispatch: it broke"},
                                     {"combine", "combine: it broke"}})
    CHECK(said_of({.failing = call}) == wanted);
  CHECK(said_of({.failing = "slots"}).empty());  // nobody asks where slots come in token order
  CHECK(said_of({.can = Capabilities::all().without(Capability::slot_order), .failing = "slots"}) ==
        "dispatch: it broke");
}

TEST_CASE("bench: counters, rows and bytes that a rank received") {
  CHECK(said_of(receives([](Received& got) { ++got.counters[1]; })) ==
        "dispatch: rank 0 counts 3 rows of rank 1, expected 2");
  CHECK(said_of(receives([](Received& got) { --got.rows[0]; })) ==
        "dispatch: rank 0 reads 2 rows of rank 0, expected 3");
  CHECK(said_of(receives([](Received& got) { got.payloads[1][0].pop_back(); })) ==
        "dispatch: rank 0, payload 1 of rank 0: 11 bytes, expected 12");
  CHECK(said_of(receives([](Received& got) { got.payloads[2][1].emplace_back(); })) ==
        "dispatch: rank 0, payload 2 of rank 1: 9 bytes, expected 8");
  const auto last_byte = [](Received& got) { got.payloads[0][0].back() ^= std::byte{1}; };
  CHECK(said_of(receives(last_byte)) == "dispatch: rank 0 reads another row of rank 0 in slot 2 than was sent");
  const auto weight = [](Received& got) { got.payloads[2][1][0] ^= std::byte{1}; };
  CHECK(said_of(receives(weight)) == "dispatch: rank 0 reads another row of rank 1 in slot 0 than was sent");
  const Capabilities blind = Capabilities::all().without(Capability::slot_order).without(Capability::told_slots);
  CHECK(said_of(receives(last_byte, blind)) == "dispatch: rank 0 reads a row of rank 0 that was not sent");
}

// The first and the last row of rank 0 change places, in every payload.
TEST_CASE("bench: rows in another order are wrong only where their slots are known") {
  const auto swap = [](Received& got) {
    for (auto& payload : got.payloads) {
      std::vector<std::byte>& rows = payload[0];
      const auto width = static_cast<std::ptrdiff_t>(rows.size() / 3);
      std::swap_ranges(rows.begin(), rows.begin() + width, rows.end() - width);
    }
  };
  const std::string wrong = "dispatch: rank 0 reads another row of rank 0 in slot 0 than was sent";
  CHECK(said_of(receives(swap)) == wrong);
  CHECK(said_of(receives(swap, Capabilities::all().without(Capability::told_slots))) == wrong);
  CHECK(said_of(receives(swap, Capabilities::all().without(Capability::slot_order))) == wrong);
  const Capabilities blind = Capabilities::all().without(Capability::slot_order).without(Capability::told_slots);
  const std::string later = said_of(receives(swap, blind));  // its results come back for other tokens
  CHECK(later.find("dispatch: ") == std::string::npos);
}

TEST_CASE("bench: told slots are a slot for every copy, each once") {
  const auto tells = [](int who, std::function<void(std::vector<std::int32_t>&)> change) {
    Departures as;
    as.can = Capabilities::all().without(Capability::slot_order);
    as.slots = [=](int rank, std::vector<std::int32_t>& slots) {
      if (rank == who) change(slots);
    };
    return said_of(as);
  };
  CHECK(tells(0, [](std::vector<std::int32_t>& slots) { slots.pop_back(); }) == "dispatch: rank 0 tells 2 slots of 3");
  CHECK(tells(1, [](std::vector<std::int32_t>& slots) { slots.push_back(2); }) ==
        "dispatch: rank 1 tells 3 slots of 2");
  CHECK(tells(1, [](std::vector<std::int32_t>& slots) { slots[1] = 0; }) ==
        "dispatch: rank 1 leaves a slot out or gives one twice");
  CHECK(tells(0, [](std::vector<std::int32_t>& slots) { slots[2] = 3; }) ==
        "dispatch: rank 0 leaves a slot out or gives one twice");
  CHECK(tells(0, [](std::vector<std::int32_t>& slots) { std::swap(slots[0], slots[2]); }) ==
        "dispatch: rank 0 reads another row of rank 0 in slot 0 than was sent");
}

TEST_CASE("bench: outputs, bit for bit where sums are exact, else within their rounding") {
  const auto gives = [](std::function<void(Outputs&)> change, Capabilities can = Capabilities::all(), int top_k = 1) {
    Departures as;
    as.can = can;
    as.outputs = std::move(change);
    return said_of(as, top_k, DataType::float32);
  };
  CHECK(gives([](Outputs& all) { all.pop_back(); }) == "combine: outputs of 1 ranks for 2");
  CHECK(gives([](Outputs& all) { all[1].pop_back(); }) == "combine: outputs of rank 1: sizes 63 and 64");
  const auto last_bit = [](Outputs& all) { all[1][60] ^= std::byte{1}; };  // of the last number the lowest
  const auto is_bytes = [](const std::string& text) {
    return text.find("combine: outputs of rank 1: byte 60 of 64: ") == 0;
  };
  const Capabilities unordered = Capabilities::all().without(Capability::sum_order);
  for (const int top_k : {1, 8, 10}) CHECK(is_bytes(gives(last_bit, Capabilities::all(), top_k)));
  CHECK(is_bytes(gives(last_bit, unordered, 8)));
  CHECK(gives(last_bit, unordered, 10).empty());
  const auto sign = [](Outputs& all) { all[1][63] = std::byte{0x7F}; };
  CHECK(gives(sign, unordered, 10).find("combine: outputs of rank 1: element 15 is ") == 0);
  CHECK(gives([](Outputs& all) { all[0].clear(); }, unordered, 10) == "combine: outputs of rank 0: sizes 0 and 96");
}

TEST_CASE("conformance: a difference is the first byte, with both values") {
  const std::vector<std::byte> a = {std::byte{1}, std::byte{2}, std::byte{255}};
  std::vector<std::byte> b = a;
  CHECK(difference(a, b).empty());
  CHECK(difference({}, {}).empty());
  b[2] = std::byte{0};
  CHECK(difference(a, b) == "byte 2 of 3: 255, expected 0");
  b[0] = std::byte{7};
  CHECK(difference(a, b) == "byte 0 of 3: 1, expected 7");
  b.pop_back();
  CHECK(difference(a, b) == "sizes 3 and 2");
}

// How a case ends whose backend is made like this.
CaseResult ends_with(const std::function<Result<std::unique_ptr<Dispatcher>>(const std::vector<AllToAllConfig>&)>& make,
                     void (*body)(Trial&)) {
  const Subject subject{"mine", [&](const std::vector<AllToAllConfig>& configs, bool) { return make(configs); }};
  return run(subject, {"a case", body});
}

TEST_CASE("conformance: a case passes, fails in one line, or is skipped and says what lacks") {
  const auto departing = [](Capabilities can) {
    return [can](const std::vector<AllToAllConfig>& configs) -> Result<std::unique_ptr<Dispatcher>> {
      return std::make_unique<Departing>(configs, Departures{.can = can});
    };
  };
  const auto fails_with = [](const char* words) {
    return [words](const std::vector<AllToAllConfig>&) -> Result<std::unique_ptr<Dispatcher>> {
      return fail(ErrorKind::runtime_error, words);
    };
  };
  const auto makes = [](Trial& trial) { trial.bench(std::vector<AllToAllConfig>(2, usual_config(2, 4, 8, 1, 2))); };
  const auto needs = [](Trial& trial) {
    const Bench bench = trial.bench({usual_config(1, 4, 8, 1, 2)});
    trial.need(bench, Capability::rank_mask);
    trial.holds("the last byte\nis lost");
  };
  const Capabilities all = Capabilities::all();
  const auto is = [](const CaseResult& found, CaseOutcome outcome, const char* why, std::optional<Capability> lacks) {
    CHECK(found.name == "a case");
    CHECK(found.outcome == outcome);
    CHECK(found.why == why);
    CHECK(found.lacks == lacks);
  };
  is(ends_with(departing(all), makes), CaseOutcome::passed, "", {});
  is(ends_with(departing(all.without(Capability::several_ranks)), makes), CaseOutcome::skipped, "needs 'several ranks'",
     Capability::several_ranks);
  is(ends_with(departing(all.without(Capability::several_ranks)), needs), CaseOutcome::failed,
     "the last byte\\nis lost", {});
  is(ends_with(departing(all.without(Capability::rank_mask)), needs), CaseOutcome::skipped, "needs 'rank mask'",
     Capability::rank_mask);
  is(ends_with(fails_with("no memory"), makes), CaseOutcome::failed, "no memory", {});
  is(ends_with(fails_with("create: SKIPPED: one GPU"), makes), CaseOutcome::skipped, "one GPU", {});
  const auto half = [](const std::vector<AllToAllConfig>&) -> Result<std::unique_ptr<Dispatcher>> {
    return std::make_unique<Departing>(std::vector<AllToAllConfig>{usual_config(1, 4, 8, 1, 2)}, Departures{});
  };
  is(ends_with(half, makes), CaseOutcome::failed, "it drives 1 ranks of 2", {});
}

TEST_CASE("conformance: a law holds where some of its worlds can be asked, and is skipped where none can") {
  const Case& law = law_cases()[0];
  const auto subject_of_ranks = [](std::size_t most) {
    return Subject{"mine",
                   [most](const std::vector<AllToAllConfig>& configs, bool) -> Result<std::unique_ptr<Dispatcher>> {
                     if (configs.size() > most) return fail(ErrorKind::runtime_error, "SKIPPED: too few GPUs");
                     return std::make_unique<Departing>(configs, Departures{});
                   }};
  };
  CHECK(run(subject_of_ranks(6), law).outcome == CaseOutcome::passed);
  CHECK(run(subject_of_ranks(2), law).outcome == CaseOutcome::passed);
  const CaseResult none = run(subject_of_ranks(0), law);
  CHECK(none.outcome == CaseOutcome::skipped);
  CHECK(none.why == "too few GPUs");
}

TEST_CASE("conformance: the summary counts outcomes, and what lacked by name") {
  CHECK(summary({}) == "0 passed, 0 failed, 0 skipped");
  std::vector<CaseResult> all(3);
  all[1].outcome = CaseOutcome::failed;
  CHECK(summary(all) == "2 passed, 1 failed, 0 skipped");
  for (const auto lacks : {std::optional(Capability::rank_mask), std::optional(Capability::graphs),
                           std::optional<Capability>(), std::optional(Capability::graphs)})
    all.push_back({"", CaseOutcome::skipped, "why", lacks});
  CHECK(summary(all) == "2 passed, 1 failed, 4 skipped (2 captured graphs, 1 for other reasons, 1 rank mask)");
  CHECK(name(CaseOutcome::passed) == "passed");
  CHECK(name(CaseOutcome::failed) == "failed");
  CHECK(name(CaseOutcome::skipped) == "skipped");
  CHECK_FALSE(skip_reason("SKIPPED:no blank").has_value());
  CHECK(skip_reason("SKIPPED: ") == "");
}

}  // namespace
}  // namespace a2asim::conformance
