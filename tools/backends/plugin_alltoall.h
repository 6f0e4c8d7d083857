// The all-to-all that a plug-in gives, through its calls: what it lacks either has a stand-in here (experts on the
// host) or ends in an error, which a caller avoids by asking for the capability.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tools/backends/device.h"
#include "tools/backends/plugin_session.h"

namespace a2asim {

class PluginAllToAll final : public AllToAll, public Device {
 public:
  static Result<std::unique_ptr<PluginAllToAll>> create(std::shared_ptr<PluginSession> session,
                                                        const DeviceRequest& request, std::int64_t timeout_ms);
  ~PluginAllToAll() override;

  AllToAll& all_to_all() override { return *this; }
  void set_active_rank_mask(RankMask mask) override;
  Result<void> check_red_zones() override;

  using AllToAll::combine;
  std::string_view backend() const override { return session_->name(); }
  std::span<const int> local_ranks() const override { return local_ranks_; }
  Capabilities capabilities() const override { return capabilities_; }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override;
  Result<Received> received(int rank) override;
  Result<void> sanitize(std::int32_t invalid_expert_id) override;
  Result<void> experts(const ExpertPayloads& payloads) override;
  Result<void> give_results(int rank, std::span<const std::byte> rows) override;
  Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                       std::vector<std::vector<std::byte>>& outputs) override;
  Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                          const ExpertPayloads& payloads) override;
  Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                      std::vector<std::vector<std::byte>>& outputs) override;
  Result<std::vector<std::byte>> read_slice(int rank) override;
  SliceView slice_view(int rank) const override;
  Result<void> poison(std::byte value) override;
  Result<std::vector<std::int32_t>> slots(int rank) override;

 private:
  explicit PluginAllToAll(std::shared_ptr<PluginSession> session) : session_(std::move(session)) {}
  Result<void> construct(const DeviceRequest& request, std::int64_t timeout_ms);
  Result<void> give_memory(a2asim_group_v1& group);
  PluginCall& begin(PluginOp op);
  Result<const a2asim_input_v1*> share(std::span<const DispatchInput> inputs);
  void** share_outputs();
  void take_outputs(void** shared, std::vector<std::vector<std::byte>>& outputs) const;
  // The view of a local rank, checked; kept until the caller releases it.
  Result<a2asim_view_v1> view(std::size_t local);
  Result<void> need(Capability capability) const;
  std::size_t local_of(int rank) const;
  const AllToAllConfig& config_of(std::size_t local) const {
    return configs_[static_cast<std::size_t>(local_ranks_[local])];
  }

  std::shared_ptr<PluginSession> session_;
  void* object_ = nullptr;
  const a2asim_group_v1* group_ = nullptr;
  Capabilities capabilities_;
  std::vector<AllToAllConfig> configs_;  // by rank
  std::vector<int> local_ranks_;
  std::vector<std::int64_t> runtime_max_, tokens_;         // by local rank, of the last dispatch
  std::vector<std::span<std::byte>> memory_;               // that was given, by local rank, without its red zones
  std::map<GraphId, std::vector<std::int64_t>> captured_;  // R of each local rank
};

}  // namespace a2asim
