// A launch as TensorRT-LLM resolves it: ranks, lane, chunks, graphs and the workspace, behind the neutral deployment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/check/checked_engine.h"
#include "model/engines/trtllm/arguments.h"
#include "model/engines/trtllm/generation.h"
#include "model/engines/trtllm/rules/mapping.h"
#include "model/launch/environment.h"
#include "model/step/deployment.h"

namespace a2asim::trtllm {

// What a scenario or a plan says of the machine; a server does not read it.
inline constexpr std::string_view kDomainVariable = "A2ASIM_NVLINK_DOMAIN";

struct Inputs {
  const Generation* generation = &newest_generation();
  Arguments args;
  Environment env;                                    // "2048 on rank 0 only": a value that not every rank has
  std::optional<std::vector<std::string>> forwarded;  // variables that reach all ranks; nothing: every one does
  std::optional<ModelShape> model;
  std::optional<double> gpu_memory_gib;
  std::optional<std::int64_t> nvlink_domain;
  std::string gpu;  // its name, where it is known
  SizingRule rule;
};

// What one rank made of its own environment.
struct RankSetup {
  Lane lane = Lane::none;
  std::string why;
  std::int64_t low_latency_tokens = 0;  // the limit of DeepEPLowLatency
  std::int64_t workspace_bytes = 0;     // of the one-sided lane; 0: not known
  bool operator==(const RankSetup&) const = default;
};

struct TrtllmPart final : EnginePart, CheckedEngine {
  Inputs given;
  Mapping mapping;
  std::string moe_backend;
  bool is_wideep = false;
  std::int64_t domain = 8;  // GPUs that share NVLink
  bool domain_is_known = false;
  std::int64_t max_num_tokens = 8192, max_batch_size = 2048, moe_max_num_tokens = 8192, draft_tokens = 0;
  bool max_num_tokens_is_given = false;
  bool graphs_pad = false;
  std::vector<RankSetup> setups;      // the different ones
  std::vector<std::size_t> setup_of;  // by rank
  std::int64_t largest_r = 0;         // that the workspace takes; 0: not known
  std::vector<CheckFinding> remarks;  // warnings, in words

  const Generation& generation() const { return *given.generation; }
  const RankSetup& setup(std::size_t rank) const { return setups[setup_of[rank]]; }
  // Each rank compares its own rows with the low-latency limit.
  bool low_latency_asks() const {
    return generation().low_latency_asks_own_rows && setups.front().lane == Lane::deepep_low_latency;
  }
  ChunkInputs chunk_inputs(std::span<const std::int64_t> counts, std::size_t rank) const;

  std::unique_ptr<Decider> make_decider(const Deployment& deployment) const override;

  // --- check.cpp
  std::vector<std::string> knowledge() const override;
  std::string choice() const override { return setups.front().why; }
  std::vector<OpenMachine> open_machines() const override;
  Advice fix_disagreement(bool any_replay) const override;
  Advice fix_every_forward() const override;
  Advice fix_waste(std::int64_t max_num_tokens) const override;
  CapVariable cap(const Deployment& deployment) const override;
  std::vector<Knob> knobs(const Deployment& deployment) const override;
  Result<std::unique_ptr<Deployment>> with(std::span<const FixSetting> settings) const override;
  void add_start_findings(const Deployment& deployment, CheckReport& report) const override;
  void add_open_limits(const Deployment& deployment, CheckReport& report) const override;
  bool check_constant_geometry(const Deployment& deployment, CheckReport& report) const override;
  bool check_draft_geometry(const Deployment&, CheckReport&) const override { return false; }
  // Options are the first rank's, so that no graph or list can differ.
  std::unique_ptr<Decider> decider_beside(const Deployment&, const Deployment&) const override { return nullptr; }
  void add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const override;
  bool decides_each_step() const override {
    return setups.front().lane != Lane::none && setups.front().lane != Lane::fused;
  }
  bool has_sizes() const override { return is_alltoall(setups.front().lane); }
  std::string without_all_to_all() const override;
};

inline const TrtllmPart& trtllm_part(const Deployment& deployment) {
  return static_cast<const TrtllmPart&>(*deployment.part);
}

// Errors: bad_input.
Result<std::unique_ptr<Deployment>> resolve(const Inputs& inputs);

}  // namespace a2asim::trtllm
