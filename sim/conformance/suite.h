// The conformance suite: what a backend of the all-to-all must do, case by case. `a2asim conformance` runs it, and so
// can a program of one's own with a dispatcher of its own:
//
//   conformance::Subject mine{"mine", [](const auto& configs, bool) { return make_mine(configs); }};
//   for (const conformance::Case& one : conformance::cases()) {
//     const conformance::CaseResult result = conformance::run(mine, one);   // passed, failed with why, skipped with
//     why
//   }
//
// A case that needs a capability which the backend lacks is skipped and names it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "sim/alltoall/batch_data.h"
#include "sim/conformance/bench.h"

namespace a2asim::conformance {

struct Subject {
  std::string name;
  // One config a rank, all ranks local. guard: it may refuse ranks that disagree; without it, it does what the
  // published kernels do. An error that begins with "SKIPPED: " skips the case (no device, too few GPUs).
  std::function<Result<std::unique_ptr<Dispatcher>>(const std::vector<AllToAllConfig>& configs, bool guard)> make;
};

// Why a backend says that it cannot be asked something: what follows "SKIPPED: " in its error; nothing if it is one.
std::optional<std::string> skip_reason(std::string_view error);

enum class CaseOutcome : std::uint8_t { passed, failed, skipped };
std::string_view name(CaseOutcome outcome);

struct CaseResult {
  std::string_view name;
  CaseOutcome outcome = CaseOutcome::passed;
  std::string why;  // one line; empty if it passed
  std::optional<Capability> lacks;
};

// Thrown by a case that this backend cannot be asked.
struct Skipped {
  std::string why;
  std::optional<Capability> lacks;
};

// What a case works with. A check that fails and a capability that is lacking end the case.
class Trial {
 public:
  explicit Trial(const Subject& subject) : subject_(&subject) {}
  Bench bench(const std::vector<AllToAllConfig>& configs, bool guard = true);
  void need(const Bench& bench, Capability capability) const;
  void check(bool holds, std::string what) const;
  void holds(const std::string& difference) const { check(difference.empty(), difference); }
  // "": it holds of all backends; else a line. For laws, which make benches themselves.
  const Subject& subject() const { return *subject_; }

 private:
  const Subject* subject_;
};

struct Case {
  std::string_view name;
  void (*body)(Trial& trial);
  bool is_large = false;  // moves many megabytes
};

std::span<const Case> cases();
CaseResult run(const Subject& subject, const Case& one);

// What they come to: "12 passed, 0 failed, 3 skipped (2 captured graphs, 1 rank mask)".
std::string summary(std::span<const CaseResult> results);

// Helpers of the cases. The payloads of the usual configuration: hidden states, ids, weights.
inline constexpr ExpertPayloads kUsualPayloads{.hidden_payload = 0, .weight_payload = 2};
AllToAllConfig usual_config(int ep_size, std::int64_t max_num_tokens, std::int64_t hidden, int top_k,
                            std::int64_t num_experts, DataType type = DataType::bfloat16);
std::vector<TokenBatch> draw(const std::vector<AllToAllConfig>& configs, const ExpertPayloads& payloads,
                             const std::vector<std::int64_t>& tokens, RoutingPattern routing, Random& random);
std::vector<DispatchInput> inputs_of(const std::vector<TokenBatch>& batches, std::int64_t runtime_max);

// By file: cases_flashinfer.cpp, cases_beyond.cpp, cases_laws.cpp. Their tables are statics of these functions: who
// registers a test for each case asks while statics of other files are being initialized.
std::span<const Case> flashinfer_cases();
std::span<const Case> beyond_cases();
std::span<const Case> law_cases();

}  // namespace a2asim::conformance
