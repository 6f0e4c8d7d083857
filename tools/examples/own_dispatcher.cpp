// A dispatcher of one's own under the conformance suite, on the CPU: the least that is asked of one. Rows go to the
// inbox of (source, destination), in token order; nothing here has slices.
//
//   g++ -std=c++20 own_dispatcher.cpp $(pkg-config --cflags --libs a2asim)
#include <cstdio>
#include <cstring>
#include <numeric>

#include "model/alltoall/number_types.h"
#include "model/alltoall/routing.h"
#include "sim/conformance/suite.h"

namespace {

using namespace a2asim;
using Bytes = std::vector<std::byte>;

class Inboxes final : public Dispatcher {
 public:
  explicit Inboxes(const AllToAllConfig& config) : config_(config), ranks_(static_cast<std::size_t>(config.ep_size)) {
    std::iota(ranks_.begin(), ranks_.end(), 0);
  }
  std::string_view backend() const override { return "inboxes"; }
  std::span<const int> local_ranks() const override { return ranks_; }
  Capabilities capabilities() const override {
    return Capabilities()
        .with(Capability::slot_order)
        .with(Capability::zero_tokens)
        .with(Capability::changing_r)
        .with(Capability::several_ranks);
  }

  Result<void> dispatch(std::span<const DispatchInput> inputs) override {
    const std::size_t payloads = config_.payload_bytes_per_token.size();
    inbox_.assign(ranks_.size(), {});
    for (Received& inbox : inbox_) {
      inbox.counters.assign(ranks_.size(), 0);
      inbox.payloads.assign(payloads, std::vector<Bytes>(ranks_.size()));
    }
    targets_.assign(ranks_.size(), {});
    for (std::size_t from = 0; from < inputs.size(); ++from) {
      const auto top_k = static_cast<std::size_t>(config_.top_k);
      targets_[from].resize(inputs[from].token_selected_experts.size());
      for (std::size_t at = 0; at < targets_[from].size(); at += top_k) {
        std::int32_t* const targets = targets_[from].data() + at;
        distinct_targets(inputs[from].token_selected_experts.data() + at, config_.top_k, config_.num_experts,
                         config_.ep_size, targets);
        for (std::size_t j = 0; j < top_k; ++j)
          if (targets[j] >= 0) send(inputs[from], from, at / top_k, inbox_[static_cast<std::size_t>(targets[j])]);
      }
    }
    for (Received& inbox : inbox_) inbox.rows = inbox.counters;
    return {};
  }

  Result<Received> received(int rank) override { return inbox_[static_cast<std::size_t>(rank)]; }

  Result<void> combine(std::span<const std::int64_t>, std::span<const Bytes> results,
                       std::vector<Bytes>& outputs) override {
    const auto pitch = static_cast<std::size_t>(config_.combine_bytes_per_token());
    const auto top_k = static_cast<std::size_t>(config_.top_k);
    outputs.assign(ranks_.size(), {});
    for (std::size_t from = 0; from < ranks_.size(); ++from) {
      // Where the next result for this rank lies in each destination's results.
      std::vector<std::size_t> next(ranks_.size(), 0);
      for (std::size_t to = 0; to < next.size(); ++to)
        next[to] = pitch * static_cast<std::size_t>(std::accumulate(
                               inbox_[to].rows.begin(), inbox_[to].rows.begin() + static_cast<std::ptrdiff_t>(from),
                               std::int64_t{0}));
      for (std::size_t at = 0; at < targets_[from].size(); at += top_k) {
        std::vector<float> sum(static_cast<std::size_t>(config_.hidden_size), 0.0F);
        for (std::size_t j = 0; j < top_k; ++j) {
          if (targets_[from][at + j] < 0) continue;
          const auto to = static_cast<std::size_t>(targets_[from][at + j]);
          add(sum, results[to].data() + next[to]);
          next[to] += pitch;
        }
        round(sum, outputs[from]);
      }
    }
    return {};
  }

 private:
  void send(const DispatchInput& input, std::size_t from, std::size_t token, Received& inbox) const {
    ++inbox.counters[from];
    for (std::size_t p = 0; p < input.payloads.size(); ++p) {
      const auto bytes = static_cast<std::size_t>(config_.payload_bytes_per_token[p]);
      const auto row = input.payloads[p].subspan(token * bytes, bytes);
      inbox.payloads[p][from].insert(inbox.payloads[p][from].end(), row.begin(), row.end());
    }
  }
  void add(std::vector<float>& sum, const std::byte* row) const {
    with_number_type(config_.combine_type, [&]<class Number>(Number) {
      for (std::size_t i = 0; i < sum.size(); ++i) {
        typename Number::Storage bits;
        std::memcpy(&bits, row + i * sizeof bits, sizeof bits);
        sum[i] += Number::load(bits);
      }
    });
  }
  void round(const std::vector<float>& sum, Bytes& output) const {
    with_number_type(config_.combine_type, [&]<class Number>(Number) {
      for (const float value : sum) {
        const auto bits = Number::store(value);
        const auto* const bytes = reinterpret_cast<const std::byte*>(&bits);
        output.insert(output.end(), bytes, bytes + sizeof bits);
      }
    });
  }

  AllToAllConfig config_;
  std::vector<int> ranks_;
  std::vector<Received> inbox_;                     // by destination
  std::vector<std::vector<std::int32_t>> targets_;  // by source
};

}  // namespace

int main() {
  const conformance::Subject mine{
      "inboxes", [](const std::vector<AllToAllConfig>& configs, bool) -> Result<std::unique_ptr<Dispatcher>> {
        return std::make_unique<Inboxes>(configs[0]);
      }};
  std::vector<conformance::CaseResult> results;
  for (const conformance::Case& one : conformance::cases()) {
    if (one.is_large) continue;
    results.push_back(conformance::run(mine, one));
    if (results.back().outcome != conformance::CaseOutcome::passed)
      std::printf("%s %s: %s\n", std::string(name(results.back().outcome)).c_str(), std::string(one.name).c_str(),
                  results.back().why.c_str());
  }
  std::printf("%s\n", conformance::summary(results).c_str());
}
