// What an all-to-all refuses, in fields and in words; from the simulator here, from the CUDA backend in tests/gpu.
#include "model/alltoall/error.h"

#include <doctest/doctest.h>

#include "sim/alltoall/sim_alltoall.h"

namespace a2asim {
namespace {

using Kind = AllToAllErrorKind;
using Errors = std::vector<AllToAllError>;

Error made(const AllToAllError& error) { return to_error(std::span(&error, 1)); }

}  // namespace

TEST_CASE("all-to-all errors: the fields come back, the words and what it raises as are made of them") {
  const struct {
    AllToAllError error;
    ErrorKind kind;
    std::string words;
  } cases[] = {
      {{.kind = Kind::below_one, .rank = 1, .own = 0, .other = 1},
       ErrorKind::runtime_error,
       "rank 1: runtime_max_tokens_per_rank is 0; it must be at least 1"},
      {{.kind = Kind::over_cap, .rank = 3, .own = 9, .other = 8},
       ErrorKind::assertion_error,
       "rank 3: runtime_max_tokens_per_rank 9 is above max_num_tokens 8"},
      {{.kind = Kind::rows_over_r, .rank = 0, .own = 4, .other = 3},
       ErrorKind::runtime_error,
       "rank 0: local_num_tokens 4 is not in 0..3, the runtime_max_tokens_per_rank of this call"},
      {{.kind = Kind::tables_full, .rank = 0, .own = 88, .other = 80},
       ErrorKind::runtime_error,
       "rank 0: the top-k tables hold 80 entries, 88 are needed; raise max_num_tokens"},
      {{.kind = Kind::wrong_count,
        .field = AllToAllField::payload_bytes,
        .rank = 2,
        .payload = 1,
        .own = 5,
        .other = 6},
       ErrorKind::bad_input,
       "rank 2: payload 1 has 5 bytes, local_num_tokens x bytes per token is 6"},
      {{.kind = Kind::misaligned, .rank = 4, .payload = 1, .own = 20, .other = 16},
       ErrorKind::runtime_error,
       "rank 4: payload 1 would start at byte 20, which is not a multiple of its vector of 16 bytes; put payloads with "
       "wider rows first"},
      {{.kind = Kind::bad_expert, .rank = 1, .token = 2, .position = 1, .own = -1, .other = 3},
       ErrorKind::runtime_error,
       "rank 1: expert id -1 of token 2, position 1, is not in 0..3"},
      {{.kind = Kind::differs, .field = AllToAllField::max_num_tokens, .rank = 0, .peer = 2, .own = 64, .other = 32},
       ErrorKind::runtime_error,
       "dispatch: rank 0 has max_num_tokens 64, rank 2 has 32; every rank must use the same value (geometry guard)"},
      {{.kind = Kind::waits, .rank = 0, .peer = 2, .in_combine = true, .own = 1, .other = 2, .timeout_ms = 200},
       ErrorKind::runtime_error,
       "combine timed out after 200 ms: rank 0 waits for rank 2 (flag is 1, expected 2)"},
      {{.kind = Kind::waits, .rank = 0, .peer = 2, .own = 3, .other = 3, .timeout_ms = 200},
       ErrorKind::runtime_error,
       "dispatch timed out after 200 ms: rank 0 waits for rows or the guard's record of rank 2, whose flag has come"},
  };
  for (const auto& one : cases) {
    const Error error = made(one.error);
    CHECK(error.message == one.words);
    CHECK(error.kind == one.kind);
    CHECK(all_to_all_errors(error) == Errors{one.error});
  }
  CHECK(all_to_all_errors(Error{ErrorKind::bad_input, "rank 0: no all-to-all"}).empty());
}

TEST_CASE("all-to-all errors: many waits are many fields and few words, joined errors keep both") {
  Errors waits;
  for (int peer = 0; peer < 100; ++peer) waits.push_back({.kind = Kind::waits, .rank = 0, .peer = peer});
  Error error = to_error(waits);
  CHECK(all_to_all_errors(error) == waits);
  CHECK(error.message.ends_with("; and 36 more"));
  append(error, made({.kind = Kind::peer_refused}));
  CHECK(all_to_all_errors(error).size() == 101);
  CHECK(error.message.ends_with("; a peer found its own input unusable and sent nothing"));
}

TEST_CASE("all-to-all errors: the simulator says which spans are wrong, and who waits for whom") {
  AllToAllConfig config;
  config.ep_size = config.top_k = 2;
  config.num_experts = 4;
  config.max_num_tokens = 8;
  config.payload_bytes_per_token = {4, 8, 8};
  config.hidden_size = 2;
  auto sim = SimAllToAll::create({config, config}, {});
  REQUIRE(sim.has_value());
  const std::vector<std::int32_t> experts = {0, 3};
  const std::vector<std::byte> bytes(8);
  const auto input = [&](std::size_t ids, std::size_t last) {
    return DispatchInput{1,
                         1,
                         std::span(experts).first(ids),
                         {std::span(bytes).first(4), std::span(bytes), std::span(bytes).first(last)}};
  };
  const auto errors = [&](const std::vector<DispatchInput>& inputs) {
    const auto result = (*sim)->dispatch(inputs);
    return result ? Errors() : all_to_all_errors(result.error());
  };
  CHECK(errors({input(2, 8), input(1, 8)}) ==
        Errors{{.kind = Kind::wrong_count, .field = AllToAllField::expert_ids, .rank = 1, .own = 1, .other = 2}});
  CHECK(errors({input(2, 7), input(2, 8)}) == Errors{{.kind = Kind::wrong_count,
                                                      .field = AllToAllField::payload_bytes,
                                                      .rank = 0,
                                                      .payload = 2,
                                                      .own = 7,
                                                      .other = 8}});
  (*sim)->set_absent(RankMask::of(1));
  CHECK(errors({input(2, 8), input(2, 8)}) ==
        Errors{{.kind = Kind::waits, .rank = 0, .peer = 1, .own = 0, .other = 1}});
}

}  // namespace a2asim
