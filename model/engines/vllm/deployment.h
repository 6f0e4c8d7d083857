// A launch command as vLLM resolves it: which backend it comes to, its limits and graphs, its buffers, and what
// refuses.
//
//   auto deployment = vllm::resolve_deployment({.generation = &generations().back(), .args = read->args});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/check/checked_engine.h"
#include "model/engines/vllm/generation.h"
#include "model/engines/vllm/start/engine_args.h"
#include "model/launch/environment.h"
#include "model/step/deployment.h"

namespace a2asim::vllm {

// The cap of an all-to-all without one; far above every batch, and a scenario can hold it.
inline constexpr std::int64_t kNoCap = std::int64_t{1} << 30;

struct DeploymentInputs {
  const Generation* generation = nullptr;
  EngineArgs args;
  Environment env;
  std::optional<ModelShape> model;
  std::optional<std::string> model_quantization;
  std::optional<double> gpu_memory_gib;
  std::string gpu_name;
  SizingRule rule;
};

// What a rank's buffer of the all-to-all holds.
struct Buffer {
  std::int64_t tokens = 0;            // a rank, in one round; 0: no limit of its own
  bool is_chunked = false;            // more tokens take more rounds
  std::string source;                 // of `tokens`, in words
  std::optional<std::int64_t> bytes;  // that depend on `tokens`
  bool fits = true;                   // the library accepts so many bytes
};

struct VllmPart final : EnginePart, CheckedEngine {
  DeploymentInputs given;
  ParallelConfig parallel;
  Kernels kernels = Kernels::none;
  BatchLimits limits;
  bool limits_are_known = false;  // the command gives them, or the GPU is known
  Graphs graphs;
  Microbatching microbatching;
  std::int64_t sp = 1;  // ranks of a replica that share its tokens
  bool runs_v2 = false;
  Buffer buffer;

  const Generation& generation() const { return *given.generation; }
  // Counts reach dispatch, but nothing of fixed size comes of them.
  bool has_exact_sizes() const { return buffer.tokens == 0; }

  std::unique_ptr<Decider> make_decider(const Deployment& deployment) const override;

  // --- check/
  std::vector<std::string> knowledge() const override;
  std::string choice() const override;
  std::vector<OpenMachine> open_machines() const override;
  Advice fix_disagreement(bool any_replay) const override;
  Advice fix_every_forward() const override;
  Advice fix_waste(std::int64_t max_num_tokens) const override;
  std::string fix_unused_rows() const override;
  CapVariable cap(const Deployment& deployment) const override;
  std::vector<Knob> knobs(const Deployment& deployment) const override;
  Result<std::unique_ptr<Deployment>> with(std::span<const FixSetting> settings) const override;
  void add_start_findings(const Deployment& deployment, CheckReport& report) const override;
  void add_open_limits(const Deployment& deployment, CheckReport& report) const override;
  bool check_constant_geometry(const Deployment& deployment, CheckReport& report) const override;
  bool check_draft_geometry(const Deployment& deployment, CheckReport& report) const override;
  std::string without_all_to_all() const override { return "all-to-all " + parallel.backend; }
  void add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const override;
  std::optional<NodeShare> node_share() const override;
  std::unique_ptr<Decider> decider_beside(const Deployment& own, const Deployment& other) const override;
};

inline const VllmPart& vllm_part(const Deployment& deployment) {
  return static_cast<const VllmPart&>(*deployment.part);
}

// Errors: bad_input, e.g. a buffer that does not fit int64.
Result<std::unique_ptr<Deployment>> resolve_deployment(const DeploymentInputs& inputs);

// In rounds of a fixed number of tokens, in versions that have rounds.
bool is_chunked(Kernels kernels);

// The type that the experts ask for, by --quantization, the model's config or its name: "nvfp4", "fp8", "mxfp8", or ""
// for bf16. Nothing: none of them says it.
std::optional<std::string> dispatch_type_of(const DeploymentInputs& inputs);

// What changed a flag or variable that the command sets, in words; nothing that has no effect is left out.
std::vector<Note> notes_on_settings(const VllmPart& part);

}  // namespace a2asim::vllm
