// What an all-to-all refuses, or waits for, in fields: the same from every backend. The words of an Error are made of
// them here, once; who compares reads the fields.
//
//   return fail(AllToAllError{.kind = AllToAllErrorKind::over_cap, .rank = 3, .own = 9, .other = 8});
//   for (const AllToAllError& error : all_to_all_errors(result.error())) ..
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/base/result.h"

namespace a2asim {

enum class AllToAllErrorKind : std::uint8_t {
  below_one,     // R is below 1
  over_cap,      // R is above max_num_tokens
  rows_over_r,   // a rank has more rows than its R, or fewer than none
  tables_full,   // rows x top_k are more than the top-k tables hold
  wrong_count,   // `field` has another number of entries or bytes than the rows need
  misaligned,    // a payload starts at a byte that is no multiple of its vector's width
  bad_expert,    // an expert id that is not in 0..other
  differs,       // rank and peer have different values of `field`
  waits,         // rank waits for peer: the flag is `own`, `other` was expected
  peer_refused,  // another rank refused its own input and sent nothing
};

enum class AllToAllField : std::uint8_t {
  none,
  runtime_max,     // R
  max_num_tokens,  // the cap
  combine_bytes,   // per token
  payload_bytes,   // per token, of `payload`; with wrong_count, of all rows
  expert_ids,      // number of token_selected_experts
  payloads,        // number of them
};

// What does not apply is -1, none or false.
struct AllToAllError {
  AllToAllErrorKind kind = AllToAllErrorKind::below_one;
  AllToAllField field = AllToAllField::none;
  int rank = -1;
  int peer = -1;
  int payload = -1;
  bool in_combine = false;
  std::int64_t token = -1;
  std::int64_t position = -1;    // of the expert id, in its token
  std::int64_t own = -1;         // the rank's value
  std::int64_t other = -1;       // the peer's, or what it must not exceed, or should be
  std::int64_t timeout_ms = -1;  // of a wait
  bool operator==(const AllToAllError&) const = default;
};

// The Error of these, of which there is at least one; several only where ranks wait.
Error to_error(std::span<const AllToAllError> errors);
tl::unexpected<Error> fail(const AllToAllError& error);

// What an Error was made of; empty: something else went wrong.
std::vector<AllToAllError> all_to_all_errors(const Error& error);

// Do expert ids and, if `with_payloads`, payloads have as many entries as the rows need?
Result<void> check_spans(const AllToAllConfig& config, int rank, const DispatchInput& input, bool with_payloads);

}  // namespace a2asim
