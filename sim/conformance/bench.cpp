#include "sim/conformance/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"
#include "sim/conformance/results.h"

namespace a2asim::conformance {
namespace {

constexpr std::byte kPoison{0xFF};  // NaN in every float type
constexpr int kMostExactExperts = 8;

std::string said(const Result<void>& result) { return result ? "" : result.error().message; }

}  // namespace

Bench::Bench(const std::vector<AllToAllConfig>& configs, std::unique_ptr<Dispatcher> made)
    : configs_(configs),
      made_(std::move(made)),
      fixed_(dynamic_cast<AllToAll*>(made_.get())),
      can_(made_->capabilities()),
      oracle_(configs) {
  A2ASIM_INVARIANT(std::ssize(made_->local_ranks()) == world(), "a bench drives all ranks");
  if (!can(Capability::readable_workspace) || fixed_ == nullptr) can_ = can_.without(Capability::readable_workspace);
  if (can(Capability::readable_workspace)) static_cast<void>(fixed_->poison(kPoison));
  oracle_.poison(kPoison);
}

std::string Bench::round(std::span<const DispatchInput> inputs, std::int32_t invalid_id, const ExpertPayloads* payloads,
                         const ExpertNetwork* network) {
  if (std::string wrong = dispatch(inputs); !wrong.empty()) return "dispatch: " + wrong;
  if (config(0).expert_id_payload >= 0)
    if (std::string wrong = sanitize(invalid_id); !wrong.empty()) return "sanitize: " + wrong;
  if (std::string wrong = experts(payloads, network); !wrong.empty()) return "experts: " + wrong;
  const std::string wrong = combine();
  return wrong.empty() ? "" : "combine: " + wrong;
}

std::string Bench::dispatch(std::span<const DispatchInput> inputs) {
  if (auto ok = made_->dispatch(inputs); !ok) return ok.error().message;
  runtime_max_.clear();
  tokens_.clear();
  for (const DispatchInput& input : inputs) {
    runtime_max_.push_back(input.runtime_max_tokens_per_rank);
    tokens_.push_back(input.local_num_tokens);
  }
  if (std::string wrong = follow_slots(inputs); !wrong.empty()) return wrong;
  oracle_.dispatch(inputs);
  return compare_received();
}

// Told slots are believed once they are 0, 1, 2, .. in some order, a slot for every copy.
std::string Bench::follow_slots(std::span<const DispatchInput> inputs) {
  if (can(Capability::slot_order) || !can(Capability::told_slots)) return "";
  std::vector<std::vector<std::int32_t>> all;
  for (int rank = 0; rank < world(); ++rank) {
    const AllToAllConfig& own = config(rank);
    if (!is_active(rank, rank)) {
      all.emplace_back();
      continue;
    }
    auto slots = made_->slots(rank);
    if (!slots) return slots.error().message;
    const DispatchInput& input = inputs[static_cast<std::size_t>(rank)];
    const auto entries = static_cast<std::size_t>(input.local_num_tokens * own.top_k);
    if (slots->size() != entries) return fmt::format("rank {} tells {} slots of {}", rank, slots->size(), entries);
    std::vector<std::vector<std::int32_t>> seen(configs_.size());
    std::vector<std::int32_t> targets(static_cast<std::size_t>(own.top_k));
    for (std::size_t t = 0; t * targets.size() < entries; ++t) {
      const std::size_t at = t * targets.size();
      distinct_targets(input.token_selected_experts.data() + at, own.top_k, own.num_experts, own.ep_size,
                       targets.data());
      for (std::size_t j = 0; j < targets.size(); ++j)
        if (targets[j] >= 0 && is_active(rank, targets[j]))
          seen[static_cast<std::size_t>(targets[j])].push_back((*slots)[at + j]);
    }
    for (std::vector<std::int32_t>& to : seen) {
      std::ranges::sort(to);
      for (std::size_t i = 0; i < to.size(); ++i)
        if (to[i] != static_cast<std::int32_t>(i))
          return fmt::format("rank {} leaves a slot out or gives one twice", rank);
    }
    all.push_back(std::move(*slots));
  }
  oracle_.follow(std::move(all));
  return "";
}

std::string Bench::compare_received() {
  received_.clear();
  for (int rank = 0; rank < world(); ++rank) {
    received_.emplace_back();
    if (!is_active(rank, rank)) continue;
    auto got = made_->received(rank);
    if (!got) return got.error().message;
    received_.back() = std::move(*got);
    for (int source = 0; source < world(); ++source) {
      const std::int64_t counted = received_.back().counters[static_cast<std::size_t>(source)];
      if (counted != oracle_.received(rank, source))
        return fmt::format("rank {} counts {} rows of rank {}, expected {}", rank, counted, source,
                           oracle_.received(rank, source));
      if (!is_active(rank, source)) continue;  // its counter keeps an old value: so do its rows
      if (std::string wrong = compare_rows(rank, source); !wrong.empty()) return wrong;
    }
  }
  return compare_slices("dispatch");
}

std::string Bench::compare_rows(int rank, int source) const {
  const AllToAllConfig& own = config(rank);
  const Received& got = received(rank);
  const auto s = static_cast<std::size_t>(source);
  if (got.rows[s] != oracle_.rows_of(rank, source))
    return fmt::format("rank {} reads {} rows of rank {}, expected {}", rank, got.rows[s], source,
                       oracle_.rows_of(rank, source));
  std::vector<std::string> found(static_cast<std::size_t>(got.rows[s])), wanted(found.size());
  for (std::size_t p = 0; p < own.payload_bytes_per_token.size(); ++p) {
    const std::vector<std::byte> rows = oracle_.rows(rank, source, static_cast<int>(p));
    const std::vector<std::byte>& read = got.payloads[p][s];
    if (read.size() != rows.size())
      return fmt::format("rank {}, payload {} of rank {}: {} bytes, expected {}", rank, p, source, read.size(),
                         rows.size());
    const auto bytes = static_cast<std::size_t>(own.payload_bytes_per_token[p]);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].append(reinterpret_cast<const char*>(read.data()) + i * bytes, bytes);
      wanted[i].append(reinterpret_cast<const char*>(rows.data()) + i * bytes, bytes);
    }
  }
  if (!knows_slots()) {
    std::ranges::sort(found);
    std::ranges::sort(wanted);
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] != wanted[i])
      return knows_slots()
                 ? fmt::format("rank {} reads another row of rank {} in slot {} than was sent", rank, source, i)
                 : fmt::format("rank {} reads a row of rank {} that was not sent", rank, source);
  return "";
}

std::string Bench::compare_slices(const char* after) {
  if (!can(Capability::readable_workspace) || !knows_slots()) return "";
  for (int rank = 0; rank < world(); ++rank) {
    const auto slice = fixed_->read_slice(rank);
    if (!slice) return slice.error().message;
    const std::string found = difference(*slice, oracle_.slice(rank));
    if (!found.empty()) return fmt::format("slice of rank {} after {}: {}", rank, after, found);
  }
  return "";
}

std::string Bench::sanitize(std::int32_t invalid_id) {
  if (fixed_ == nullptr || !can(Capability::sanitize)) return "";
  if (auto ok = fixed_->sanitize(invalid_id); !ok) return ok.error().message;
  oracle_.sanitize(invalid_id);
  return compare_slices("sanitize");
}

std::string Bench::experts(const ExpertPayloads* payloads, const ExpertNetwork* network) {
  const bool reads_rows = payloads != nullptr && !payloads->is_quantised() && network == nullptr;
  in_place_ = reads_rows && fixed_ != nullptr && can(Capability::experts);
  is_exact_ = payloads == nullptr || config(0).top_k <= kMostExactExperts;
  results_.assign(configs_.size(), {});
  if (in_place_) {
    if (auto ok = fixed_->experts(*payloads); !ok) return ok.error().message;
    oracle_.experts(*payloads);
    return compare_slices("experts");
  }
  for (int rank = 0; rank < world(); ++rank) {
    if (!is_active(rank, rank)) continue;
    Received wanted;
    for (int source = 0; source < world(); ++source) wanted.rows.push_back(oracle_.rows_of(rank, source));
    for (std::size_t p = 0; p < config(rank).payload_bytes_per_token.size(); ++p) {
      wanted.payloads.emplace_back();
      for (int source = 0; source < world(); ++source)
        wanted.payloads.back().push_back(oracle_.rows(rank, source, static_cast<int>(p)));
    }
    const auto results_of = [&](const Received& rows) {
      if (payloads != nullptr) return closed_form_results(config(rank), rank, rows, *payloads, network);
      std::vector<std::byte> all;
      for (const std::vector<std::byte>& of_source : rows.payloads[0])
        all.insert(all.end(), of_source.begin(), of_source.end());
      return numbers_of_rows(config(rank), all, config(rank).payload_bytes_per_token[0]);
    };
    oracle_.give_results(rank, results_of(wanted));
    results_[static_cast<std::size_t>(rank)] = results_of(received(rank));
  }
  return "";
}

std::string Bench::combine() {
  const auto ran =
      in_place_ ? fixed_->combine(runtime_max_, outputs_) : made_->combine(runtime_max_, results_, outputs_);
  if (!ran) return ran.error().message;
  oracle_.combine(runtime_max_);
  if (std::string wrong = compare_slices("combine"); !wrong.empty()) return wrong;
  return compare_outputs();
}

std::string Bench::compare_outputs() {
  if (outputs_.size() != configs_.size()) return fmt::format("outputs of {} ranks for {}", outputs_.size(), world());
  for (int rank = 0; rank < world(); ++rank) {
    const std::vector<std::byte>&got = outputs_[static_cast<std::size_t>(rank)], &wanted = oracle_.output(rank);
    if (can(Capability::sum_order) || is_exact_ || got.size() != wanted.size()) {
      const std::string found = difference(got, wanted);
      if (!found.empty()) return fmt::format("outputs of rank {}: {}", rank, found);
      continue;
    }
    const auto numbers = decode(config(rank).combine_type, got), right = decode(config(rank).combine_type, wanted);
    A2ASIM_INVARIANT(numbers && right, "sums have numbers");
    for (std::size_t i = 0; i < right->size(); ++i) {
      const double bound = tolerance(Tolerance::accumulated, config(rank).combine_type, (*right)[i], 64.0);
      if (!(std::abs((*numbers)[i] - (*right)[i]) <= bound))
        return fmt::format("outputs of rank {}: element {} is {}, expected {} within {}", rank, i, (*numbers)[i],
                           (*right)[i], bound);
    }
  }
  return "";
}

std::string Bench::replay(GraphId graph, std::span<const DispatchInput> inputs, std::int32_t invalid_id,
                          const ExpertPayloads& payloads) {
  A2ASIM_INVARIANT(fixed_ != nullptr, "graphs are of fixed layouts");
  std::vector<DispatchInput> other(inputs.begin(), inputs.end());
  for (DispatchInput& input : other) input.runtime_max_tokens_per_rank = 1;  // R is the one of capture
  const auto ran = fixed_->replay(std::vector<GraphId>(configs_.size(), graph), other, outputs_);
  if (!ran) return said(ran);
  if (std::string wrong = follow_slots(inputs); !wrong.empty()) return wrong;
  oracle_.round(inputs, invalid_id, payloads);
  is_exact_ = config(0).top_k <= kMostExactExperts;
  if (std::string wrong = compare_slices("replay"); !wrong.empty()) return wrong;
  return compare_outputs();
}

}  // namespace a2asim::conformance
