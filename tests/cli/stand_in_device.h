// A simulator that behaves like the CUDA backend: refuses, guards, times out; with a flaw if it is to have one.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "model/alltoall/error.h"
#include "sim/alltoall/sim_alltoall.h"
#include "tools/backends/device.h"

namespace a2asim {

// How the device in the test departs from the truth.
enum class Flaw : std::uint8_t {
  none,
  byte_in_slice,
  byte_in_output,
  no_guard,
  no_refusal,
  no_timeout,
  full_gpu,
  too_few_gpus,
  broken,
  red_zones,
  guard_says_little,  // in words only
  refusal_says_little,
  refusal_writes,
  wait_says_little,
  // Does it, and says that it failed.
  poison_fails,
  dispatch_fails,
  sanitize_fails,
  experts_fails,
  combine_fails,
  // Says that it did it.
  dispatch_missing,
  sanitize_missing,
  experts_missing,
};

class StandIn final : public Device, public AllToAll {
 public:
  StandIn(DeviceRequest request, Flaw flaw) : request_(std::move(request)), flaw_(flaw) {
    sim_ = *SimAllToAll::create(request_.configs, {});
    local_ = request_.local_ranks;
    for (int r = 0; local_.empty() || (request_.local_ranks.empty() && r < request_.configs[0].ep_size); ++r)
      local_.push_back(r);
    RankMask absent = RankMask::everybody();
    for (const int rank : local_) absent.remove(rank);
    sim_->set_absent(absent);
  }

  AllToAll& all_to_all() override { return *this; }
  void set_active_rank_mask(RankMask mask) override { sim_->set_active_rank_mask(mask); }
  Result<void> check_red_zones() override { return said(Flaw::red_zones, {}); }

  using AllToAll::combine;
  std::string_view backend() const override { return "stand-in"; }
  std::span<const int> local_ranks() const override { return local_; }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override {
    if (flaw_ == Flaw::dispatch_missing) return {};
    std::vector<DispatchInput> of_all(request_.configs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) of_all[static_cast<std::size_t>(local_[i])] = inputs[i];
    for (DispatchInput& input : of_all) input.payloads.resize(request_.configs[0].payload_bytes_per_token.size());
    if (auto ok = check(of_all); !ok) return ok;
    if (flaw_ == Flaw::no_timeout && !request_.local_ranks.empty()) return {};
    return said(Flaw::dispatch_fails, sim_->dispatch(of_all));
  }
  Result<void> sanitize(std::int32_t id) override {
    return flaw_ == Flaw::sanitize_missing ? Result<void>() : said(Flaw::sanitize_fails, sim_->sanitize(id));
  }
  Result<void> experts(const ExpertPayloads& payloads) override {
    return flaw_ == Flaw::experts_missing ? Result<void>() : said(Flaw::experts_fails, sim_->experts(payloads));
  }
  Result<void> give_results(int rank, std::span<const std::byte> rows) override {
    return sim_->give_results(rank, rows);
  }
  SliceView slice_view(int rank) const override { return sim_->slice_view(rank); }
  Capabilities capabilities() const override { return Capabilities::all(); }
  Result<void> combine(std::span<const std::int64_t> sizes, std::vector<std::vector<std::byte>>& outputs) override {
    auto ok = sim_->combine(sizes, outputs);
    if (flaw_ == Flaw::byte_in_output && !outputs[0].empty()) outputs[0][0] ^= std::byte{1};
    return said(Flaw::combine_fails, ok);
  }
  Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t id,
                          const ExpertPayloads& payloads) override {
    return sim_->capture(inputs, id, payloads);
  }
  Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                      std::vector<std::vector<std::byte>>& outputs) override {
    if (flaw_ == Flaw::full_gpu) return fail(ErrorKind::runtime_error, "SKIPPED: no room for all blocks");
    if (auto ok = check({inputs.begin(), inputs.end()}); !ok) return ok;
    return sim_->replay(graphs, inputs, outputs);
  }
  Result<std::vector<std::byte>> read_slice(int rank) override {
    auto slice = sim_->read_slice(rank);
    if (flaw_ == Flaw::byte_in_slice && slice && rank == 1) slice->back() ^= std::byte{1};
    return slice;
  }
  Result<void> poison(std::byte value) override { return said(Flaw::poison_fails, sim_->poison(value)); }

 private:
  Result<void> said(Flaw flaw, Result<void> ok) const { return flaw_ == flaw ? Result<void>(little()) : ok; }
  static tl::unexpected<Error> little() { return fail(ErrorKind::runtime_error, "something went wrong"); }

  Result<void> check(const std::vector<DispatchInput>& inputs) {
    for (const int rank : local_) {
      const DispatchInput& input = inputs[static_cast<std::size_t>(rank)];
      const std::int64_t cap = request_.configs[static_cast<std::size_t>(rank)].max_num_tokens;
      const std::int64_t runtime_max = input.runtime_max_tokens_per_rank;
      if (flaw_ == Flaw::no_refusal) continue;
      const bool refuses = runtime_max > cap || input.local_num_tokens > runtime_max;
      if (refuses && flaw_ == Flaw::refusal_writes) static_cast<void>(sim_->poison(std::byte{1}));
      if (refuses && flaw_ == Flaw::refusal_says_little) return little();
      if (runtime_max > cap)
        return fail({.kind = AllToAllErrorKind::over_cap, .rank = rank, .own = runtime_max, .other = cap});
      if (input.local_num_tokens > runtime_max)
        return fail({.kind = AllToAllErrorKind::rows_over_r,
                     .rank = rank,
                     .own = input.local_num_tokens,
                     .other = runtime_max});
    }
    if (request_.local_ranks.empty()) {
      auto agree = request_.guard && flaw_ != Flaw::no_guard ? guard(inputs) : Result<void>{};
      return !agree && flaw_ == Flaw::guard_says_little ? Result<void>(little()) : agree;
    }
    if (flaw_ == Flaw::wait_says_little) return little();
    return flaw_ == Flaw::no_timeout ? Result<void>{} : time_out();
  }
  Result<void> guard(const std::vector<DispatchInput>& inputs) {
    const auto compare = [&](std::size_t r, AllToAllField field, std::int64_t own, std::int64_t first,
                             int payload = -1) -> Result<void> {
      if (own == first) return {};
      return fail({.kind = AllToAllErrorKind::differs,
                   .field = field,
                   .rank = 0,
                   .peer = static_cast<int>(r),
                   .payload = payload,
                   .own = first,
                   .other = own});
    };
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      const AllToAllConfig &own = request_.configs[r], &first = request_.configs[0];
      if ((own.active_rank_mask >> r & 1) == 0) continue;
      auto ok = compare(r, AllToAllField::runtime_max, inputs[r].runtime_max_tokens_per_rank,
                        inputs[0].runtime_max_tokens_per_rank);
      if (ok) ok = compare(r, AllToAllField::max_num_tokens, own.max_num_tokens, first.max_num_tokens);
      if (ok)
        ok = compare(r, AllToAllField::payload_bytes, own.payload_bytes_per_token[0], first.payload_bytes_per_token[0],
                     0);
      if (!ok) return ok;
    }
    return {};
  }
  Result<void> time_out() {
    std::vector<AllToAllError> waits;
    for (const int rank : local_) {
      for (int peer = 0; peer < request_.configs[0].ep_size; ++peer) {
        if (std::ranges::find(local_, peer) == local_.end())
          waits.push_back({.kind = AllToAllErrorKind::waits, .rank = rank, .peer = peer, .own = 0, .other = 1});
      }
    }
    return waits.empty() ? Result<void>{} : tl::unexpected(to_error(waits));
  }

  DeviceRequest request_;
  Flaw flaw_;
  std::unique_ptr<SimAllToAll> sim_;
  std::vector<int> local_;
};

inline MakeDevice stand_in(Flaw flaw) {
  return [flaw](const DeviceRequest& request) -> Result<std::unique_ptr<Device>> {
    if (flaw == Flaw::too_few_gpus) return fail(ErrorKind::runtime_error, "SKIPPED: one rank a GPU");
    if (flaw == Flaw::broken) return fail(ErrorKind::runtime_error, "no memory");
    return std::make_unique<StandIn>(request, flaw);
  };
}

}  // namespace a2asim
