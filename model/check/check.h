// The question of `a2asim check`: do all ranks of this deployment agree on the size of the all-to-all, does it fit, and
// if not, which batch shows it and what is to be changed?
//
// check_deployment walks every phase that the flags make reachable and searches batches (zero, small, both sides of
// every bucket edge, chunk, cap and request bound) in order of size, so that a finding comes with a smallest witness.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/flashinfer/capacity.h"
#include "model/step/engine.h"
#include "model/step/finding.h"
#include "model/step/verdict.h"  // Verdict and name(Verdict)

namespace a2asim {

// One batch, and what every data-parallel rank made of it. All vectors have one entry a data-parallel rank.
struct CheckWitness {
  std::vector<std::int64_t> tokens_per_dp_rank;  // requests in decode and verify, tokens in prefill
  std::vector<std::string> modes;                // SGLang's names; "IDLE" for a rank without work
  std::vector<std::optional<std::int64_t>> runtime_max_tokens_per_rank;  // nothing: the rank raised instead
  std::vector<std::string> paths;                                        // "eager", "graph"
};

// Row slots of one rank: experts run over `computed`, and `needed` would do.
struct CheckWaste {
  std::int64_t computed = 0;
  std::int64_t needed = 0;
};

// What would have to hold, and what holds instead: "--moe-dense-tp-size", "not set", "1".
struct Condition {
  std::string what, needed, yours;
  bool operator==(const Condition&) const = default;
};

struct CheckFinding {
  FindingKind kind = FindingKind::note;
  Severity severity = Severity::note;
  Phase phase = Phase::start;
  std::string message;             // one line: what is wrong, with both numbers
  std::string consequence;         // what happens on hardware: NaN, garbage, illegal memory access, assertion, hang
  std::vector<std::string> chain;  // why: flag -> predicate -> what each rank knew -> what it chose
  std::vector<Condition> any_of;   // where no condition of the predicate holds: any one of these would do
  std::string fix;                 // what to change, naming flag or variable and both numbers
  std::vector<Fix> fixes;          // the same as edits of the command, where it can be said as such; alternatives
  std::optional<CheckWitness> witness;
  std::optional<CheckWitness> before;  // an earlier batch, without which the witness shows nothing
  std::optional<CheckWaste> waste;
  std::int64_t needed_tokens_per_rank = 0;  // above the cap: what the cap would have to be, as far as it is known

  void advise(Advice advice) { fix = std::move(advice.words), fixes = std::move(advice.fixes); }
};

// Both of its words may stand over an error: `verdict` is about sizes, as replay's is, so that a deployment whose ranks
// agree and whose bytes go wrong all the same (unsanitized_padding) `agrees` and has an error. has_error() is the
// answer of the program: its exit code.
struct CheckReport {
  Verdict verdict = Verdict::agrees;
  const Version* generation = nullptr;
  std::string backend;  // --moe-a2a-backend as resolved
  Topology topology;
  std::optional<Capacity> capacity;        // FlashInfer only; nothing when rejected before it was known
  std::optional<std::int64_t> static_cap;  // of a backend whose sizes are constants, in tokens a rank
  std::string capacity_source;             // where max_num_tokens comes from, in words
  bool workspace_known = false;            // without the model's shape, capacity holds max_num_tokens only
  std::vector<CheckFinding> findings;      // errors first, then warnings, then notes
  bool has_error() const;
};

// Is there one of this kind, at least as grave as `least`?
bool has(const CheckReport& report, FindingKind kind, Severity least = Severity::error);

CheckReport check_deployment(const Deployment& deployment);

// Adds the batches on which ranks come to different sizes, or some raise while others go on: for engines whose
// all-to-all is no fixed geometry, and who judge the rest themselves.
void check_agreement(const Deployment& deployment, CheckReport& report);

// Puts errors first and takes the verdict from the findings; a report without any of a size keeps out_of_scope.
void settle_verdict(CheckReport& report);

// The same as check_deployment, but above the cap only the variable is named and nothing is tried: for who wants the
// verdict of many.
CheckReport judge_deployment(const Deployment& deployment);

}  // namespace a2asim
