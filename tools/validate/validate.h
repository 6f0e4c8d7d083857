// Validation: a scenario on the simulated cluster and, call by call beside it, on another backend.
//
// What is compared, and what may differ:
//   receive      after every dispatch of an eager layer and after every combine: each rank's whole slice, byte for
//   byte.
//                That is more than the valid rows and the counters: top-k tables, flags, rows that sanitize filled and
//                rows that nobody wrote (poisoned alike) are in it. Nothing may differ. The records of the geometry
//                guard lie in front of the slices, the red zones behind them; the latter must be intact.
//   race         with the guard off, ranks that disagree may write the same bytes of a peer in one round. The order is
//                open on hardware: such a byte may be any of its writers'. The simulator takes over what it became, so
//                that all that follows from it is compared byte for byte again. Races are counted and said.
//   output       what combine returns, bit for bit.
//   tokens       the set of tokens whose output is NaN or wrong by the oracle; all of them are among those that the
//                simulator calls in doubt, under whichever order of the slots.
//   guard        guard on and ranks that disagree: an error that names two of them with both values.
//   refusal      input that the GPU backend refuses before any write (R above the cap, more rows than R, which
//   FlashInfer
//                does not check, misaligned payloads): the error names the rank and the numbers, no byte changes.
//   missing      a rank that makes no call: bounded waits end in an error that says who waits for whom.
//   recovery     after such an error the device still gives right results.
//   verdict      guard on: what the errors of the device amount to, against the simulator's verdict of the step.
// After an error the device is not compared further: the simulator goes on with what hardware without the guard would
// do.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/step/engine.h"
#include "model/step/verdict.h"
#include "sim/scenario/scenario.h"
#include "tools/backends/device.h"

namespace a2asim {

enum class CheckKind : std::uint8_t { receive, output, tokens, guard, refusal, missing, recovery, verdict };
inline constexpr int kCheckKinds = 8;
std::string_view name(CheckKind kind);

enum class CheckResult : std::uint8_t { passed, failed, skipped };
inline constexpr int kCheckResults = 3;
std::string_view name(CheckResult result);

struct Remark {
  CheckKind kind = CheckKind::receive;
  CheckResult result = CheckResult::failed;
  std::int64_t step = 0;
  int layer = 0;
  std::string what;
};

// One scenario, guard on or off.
struct ScenarioValidation {
  std::string name, file;
  bool guard = true;
  CheckResult result = CheckResult::skipped;  // failed: any check failed; passed: none, and some passed
  std::string why;                            // skipped, or stopped early: one line
  std::array<std::array<std::int64_t, kCheckResults>, kCheckKinds> counts = {};
  std::vector<Remark> remarks;        // failed and skipped checks, the first of each; and the errors that were wanted
  Verdict verdict = Verdict::agrees;  // the simulator's
  std::int64_t steps = 0;             // with an all-to-all on the device
  std::int64_t graph_layers = 0;      // of these layers, through capture and replay
  std::int64_t bytes_compared = 0;
  std::int64_t bytes_raced = 0;  // where the device took another writer's byte than the simulator
  std::int64_t tokens_compared = 0;
  std::int64_t nan_tokens = 0, wrong_tokens = 0;  // on both
};

struct ValidateOptions {
  bool guard = true;
  VersionChoice version = {};  // to run; empty: the scenario's own
  Capabilities device = Capabilities::all();
};

// Errors are bad_input: the scenario cannot be run.
Result<ScenarioValidation> validate_scenario(const Scenario& scenario, std::string_view file,
                                             const ValidateOptions& options, const MakeDevice& make_device);

}  // namespace a2asim
