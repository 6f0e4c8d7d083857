// What a check, a replay or an exploration found: the value that reports, SARIF, traces and tests all read.
//
//   finding.kind == FindingKind::stale; name(finding.kind);  // "stale"
//
// What every kind means in words is in model/check/findings/. Causes and consequences stay apart: `root` names the
// finding of the same step that led to this one. Which fields are set depends on the kind; what does not apply is -1
// (ranks, tokens, rounds, offsets) or empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/alltoall/payloads.h"

namespace a2asim {

// Its name is the id in every output format. A new one gets a name in finding.cpp and a file in model/check/findings/.
enum class FindingKind : std::uint8_t {
  geometry_disagreement,   // ranks computed (or were constructed with) different sizes: the root
  misplaced,               // the row holds another token of this step
  stale,                   // the row holds something of an earlier round
  unwritten,               // nobody ever wrote the row
  torn,                    // the row is a mixture, or two ranks raced for it
  expert_id_out_of_range,  // a garbage expert id: on hardware an illegal memory access
  nan_output,              // against the oracle: NaN
  wrong_output,            // against the oracle: finite, and wrong
  over_capacity,           // R above the cap, or a static cap exceeded
  receive_overflow,        // a rank has more rows than its R: it writes into its neighbour's slots, unchecked
  missing_rank,            // a collective that somebody skipped: rank waits for peer
  wasted,                  // slots and bytes beyond need
  // The kinds above are seen in a step, and counted there; those below come from the command and its environment.
  rejected,             // the engine itself refuses
  idle_step,            // every rank runs a step without any request, and the library refuses it
  unsanitized_padding,  // experts run over rows that no token fills, in a version that does not mark them
  static_cap,           // a backend with a fixed buffer size: what its limit means for this command
  autotune,             // the tuning run at the start is larger than the cap
  request_limit_open,   // this and the next two: a limit that the command leaves to the GPU's memory
  chunk_open,
  graph_sizes_open,
  model_unknown,
  no_all_to_all,
  not_read,          // a flag or variable that this version does not look at
  rank_environment,  // a variable that only some ranks may have
  nodes_differ,      // commands of one deployment's nodes say different things
  note,            // this and the rest: how the input was read
  model,           // where the model's shape comes from
  generation,      // which version the answer is about
  launch_command,  // of the script or file
  server_args,     // of the options
  rule,            // the size comes from a program of the user's own
};
inline constexpr int kFindingKinds = 12;  // seen in a step: those up to `wasted`
inline constexpr int kAllFindingKinds = 31;
std::string_view name(FindingKind kind);  // "geometry_disagreement", ..
std::optional<FindingKind> parse_finding_kind(std::string_view id);

enum class Severity : std::uint8_t { error, warning, note };
std::string_view name(Severity severity);

// Which kind of forward pass: the phases of `check`.
enum class Phase : std::uint8_t { start, eager_decode, graph_decode, prefill, verify };
std::string_view name(Phase phase);

// Which part of a step saw it.
enum class Operation : std::uint8_t { none, decide, dispatch, sanitize, experts, combine };
std::string_view name(Operation operation);

// The smallest batch that shows it.
struct Witness {
  std::vector<std::int64_t> tokens_per_dp_rank;
  std::vector<std::int64_t> runtime_max_tokens_per_rank;  // one per rank, as each computed it
  bool operator==(const Witness&) const = default;
};

// Where a reader looked, what it expected there and what it found. Offsets are bytes from the start of the slice.
struct RowEvidence {
  int slice = -1;                     // whose memory was read
  int source = -1;                    // the rank whose token was expected
  int payload = -1;                   // dispatch payload; -1: the combine region
  std::int64_t token = -1;            // expected: token of `source`
  std::int64_t slot = -1;             // its slot within (source, slice)
  std::int64_t expected_offset = -1;  // where the reader looked: by the reader's own R
  std::int64_t written_offset = -1;   // where the writer put it: by the writer's own R
  std::int64_t expected_round = -1;
  int found_writer = -1;  // this and the next: who wrote what is there, and when; -1: nobody
  int found_source = -1;  // whose token it belongs to (the same as found_writer, except in the combine region)
  int found_payload = -1;
  std::int64_t found_token = -1;  // -1 also for padding rows that sanitize wrote
  std::int64_t found_slot = -1;   // its slot within (found_source, slice)
  std::int64_t found_round = -1;
  int found_step = -1;
  bool race = false;     // two ranks wrote these bytes in one round: here the higher rank wins, on hardware either
  int lost_writer = -1;  // of a race: who wrote them too, and what; the highest rank below the winner
  std::int64_t lost_token = -1;  // that rank's own
  std::int64_t lost_slot = -1;
  int lost_payload = -1;
  std::optional<DispatchType> dispatch_type = {};  // by which payloads have names; nothing: they have numbers
  bool operator==(const RowEvidence&) const = default;
};

struct Finding {
  FindingKind kind = FindingKind::geometry_disagreement;
  Severity severity = Severity::error;
  std::optional<FindingKind> root;  // what led here, where it is another finding
  int step = -1;
  int layer = -1;
  Phase phase = Phase::eager_decode;
  Operation operation = Operation::none;
  int rank = -1;            // who sees it: the reader, the writer that overflows, the rank that waits
  int peer = -1;            // the other one: the destination, the rank waited for, the rank that disagrees
  std::int64_t token = -1;  // the token of `rank` concerned, or -1
  std::int64_t value = -1;  // the offending number: R, rows, id, wasted slots
  std::int64_t limit = -1;  // what it should have been or must not exceed
  std::optional<RowEvidence> row;
  std::optional<Witness> witness;
  std::string subject;  // what `value` is, where the kind leaves it open: "max_num_tokens", "payload bytes"
  std::string message;  // empty: describe() says it from the fields
  std::string fix;      // what to change, with the flag or variable and both numbers
  bool operator==(const Finding&) const = default;
};

// One line: message if there is one, else the fields in words.
std::string describe(const Finding& finding);

}  // namespace a2asim
