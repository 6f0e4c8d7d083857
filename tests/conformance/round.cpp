#include "tests/conformance/round.h"

#include <cmath>

namespace a2asim::conformance {

std::vector<DispatchInput> inputs_of(const std::vector<TokenBatch>& batches, std::int64_t runtime_max) {
  std::vector<DispatchInput> inputs;
  for (const TokenBatch& batch : batches) inputs.push_back(batch.input(runtime_max));
  return inputs;
}

Pair::Pair(const Backend& backend, const std::vector<AllToAllConfig>& configs)
    : configs_(configs), made_(make(backend, configs)), oracle_(configs) {
  REQUIRE(made_->poison(std::byte{0xff}).has_value());
  oracle_.poison(std::byte{0xff});
}

void Pair::round(const std::vector<TokenBatch>& batches, std::int64_t runtime_max, std::int32_t invalid_id,
                 const ExpertPayloads* payloads) {
  const std::vector<DispatchInput> inputs = inputs_of(batches, runtime_max);
  const std::vector<std::int64_t> all(configs_.size(), runtime_max);
  REQUIRE(made_->dispatch(inputs).has_value());
  oracle_.dispatch(inputs);
  compare_slices("dispatch");
  if (configs_[0].expert_id_payload >= 0) {
    REQUIRE(made_->sanitize(invalid_id).has_value());
    oracle_.sanitize(invalid_id);
    compare_slices("sanitize");
  }
  if (payloads != nullptr) {
    REQUIRE(made_->experts(*payloads).has_value());
    oracle_.experts(*payloads);
    compare_slices("experts");
  }
  Outputs outputs;
  REQUIRE(made_->combine(all, outputs).has_value());
  oracle_.combine(all);
  compare_slices("combine");
  compare_outputs(batches, payloads, outputs);
}

void Pair::replay(GraphId graph, const std::vector<TokenBatch>& batches, std::int64_t captured,
                  const ExpertPayloads& payloads) {
  Outputs outputs;
  REQUIRE(made_->replay(std::vector<GraphId>(configs_.size(), graph), inputs_of(batches, 1), outputs).has_value());
  oracle_.round(inputs_of(batches, captured), -1, payloads);
  compare_slices("replay");
  compare_outputs(batches, &payloads, outputs);
}

void Pair::compare_slices(const char* after) {
  for (int rank = 0; rank < static_cast<int>(configs_.size()); ++rank) {
    const auto slice = made_->read_slice(rank);
    REQUIRE(slice.has_value());
    const std::string found = test::difference(*slice, oracle_.slice(rank));
    CHECK_MESSAGE(found.empty(), "slice of rank ", rank, " after ", after, ": ", found);
  }
}

void Pair::compare_outputs(const std::vector<TokenBatch>& batches, const ExpertPayloads* payloads,
                           const Outputs& outputs) {
  REQUIRE(outputs.size() == configs_.size());
  for (std::size_t r = 0; r < configs_.size(); ++r) {
    CAPTURE(r);
    const AllToAllConfig& config = configs_[r];
    CHECK(test::difference(outputs[r], oracle_.output(static_cast<int>(r))) == "");
    if (payloads == nullptr) continue;
    const auto dense = batches[r].reference(config, *payloads, ClosedFormExperts());
    const auto values = decode(config.combine_type, outputs[r]);
    REQUIRE(dense.has_value());
    REQUIRE(values.has_value());
    REQUIRE(values->size() == dense->output.size());
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < values->size(); ++i) {
      const double bound =
          tolerance(Tolerance::accumulated, config.combine_type, dense->output[i], dense->magnitude[i]);
      wrong += std::abs((*values)[i] - dense->output[i]) <= bound ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace a2asim::conformance
