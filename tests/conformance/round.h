// The same calls on a backend and on the oracle, every byte of every slice compared after each call:
//   Pair pair(backend, configs);
//   pair.round(batches, runtime_max, -1, payloads);    // dispatch, sanitize, experts, combine
#pragma once

#include <vector>

#include "sim/alltoall/batch_data.h"
#include "tests/conformance/backend.h"
#include "tests/oracle/oracle.h"

namespace a2asim::conformance {

using Outputs = std::vector<std::vector<std::byte>>;

std::vector<DispatchInput> inputs_of(const std::vector<TokenBatch>& batches, std::int64_t runtime_max);

class Pair {
 public:
  Pair(const Backend& backend, const std::vector<AllToAllConfig>& configs);

  AllToAll& backend() { return *made_; }
  // R is everybody's. Without an id payload nothing is sanitized; without `payloads` no experts run.
  void round(const std::vector<TokenBatch>& batches, std::int64_t runtime_max, std::int32_t invalid_id,
             const ExpertPayloads* payloads);
  // Replays on the backend what the oracle does eagerly, by the R that was captured.
  void replay(GraphId graph, const std::vector<TokenBatch>& batches, std::int64_t captured,
              const ExpertPayloads& payloads);

 private:
  void compare_slices(const char* after);
  // Bit for bit with the oracle; with experts also against float64.
  void compare_outputs(const std::vector<TokenBatch>& batches, const ExpertPayloads* payloads, const Outputs& outputs);

  std::vector<AllToAllConfig> configs_;
  std::unique_ptr<AllToAll> made_;
  test::Oracle oracle_;
};

}  // namespace a2asim::conformance
