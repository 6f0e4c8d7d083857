// What check asks of an engine beside its decisions: why ranks know what they know, what a person can change, and what
// is to be said about settings that no batch shows. An engine's own part of a deployment implements it.
//
//   for (const std::string& line : checked_engine(deployment).knowledge()) ..
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/check/check.h"
#include "model/check/nodes.h"
#include "model/step/deployment.h"

namespace a2asim {

// One flag or variable with its new value, as a person would write it.
struct FixSetting {
  std::string name;
  std::vector<std::int64_t> values;  // one, or a list
  std::string now;                   // in words
  bool is_given = true;              // the command or the environment sets it
  bool raises = false;
};

// The cap that bounds a rank's tokens and the variable that sets it.
struct CapVariable {
  std::string_view name;
  std::int64_t tokens = 0;
  std::int64_t per_unit = 1;                            // tokens that one more of the variable gives
  std::string_view how = "the variable times ep_size";  // said where that is more than one
};

// A limit that can be lowered, in steps: one token or request a rank, or one entry of a list.
struct Knob {
  std::string name;
  std::int64_t most_steps = 0;   // as it is now
  std::int64_t guess_steps = 0;  // where the edge is to be expected
  std::function<std::vector<std::int64_t>(std::int64_t steps)> values;
  std::string now;
  bool is_given = true;
};

// A machine that the command leaves open, and on which it comes to something else.
struct OpenMachine {
  std::string words;  // "if the GPUs have 160 GiB and more (--gpu-memory 180)"
  std::optional<std::int64_t> nvlink_domain;
  std::optional<double> gpu_memory_gib;
};

class CheckedEngine {
 public:
  virtual ~CheckedEngine() = default;

  // --- why, and what to change
  // From the flags to what every rank knows of the others' counts, a line each.
  virtual std::vector<std::string> knowledge() const = 0;
  // Why it is this all-to-all, in words; empty: the command names it.
  virtual std::string choice() const { return {}; }
  virtual std::vector<OpenMachine> open_machines() const { return {}; }
  // Any one of these would let every rank know the others' counts; none where they do.
  virtual std::vector<Condition> unmet_conditions() const { return {}; }
  // Ranks compute different sizes by the version's own rule; `any_replay`: some rank replays a graph.
  virtual Advice fix_disagreement(bool any_replay) const = 0;
  virtual Advice fix_every_forward() const = 0;
  virtual Advice fix_waste(std::int64_t max_num_tokens) const = 0;
  // Experts run over rows that no token fills, and nothing marks them.
  virtual std::string fix_unused_rows() const { return "use a version or kernel whose experts skip rows of no token"; }

  // --- what fixes try
  virtual CapVariable cap(const Deployment& deployment) const = 0;
  virtual std::vector<Knob> knobs(const Deployment& deployment) const = 0;
  // The deployment of the same command with these settings.
  virtual Result<std::unique_ptr<Deployment>> with(std::span<const FixSetting> settings) const = 0;

  // --- several commands, one per node of one deployment (nodes.h)
  // What `other`'s command says differently, and what that does in this version.
  virtual void add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const = 0;
  // The part of the deployment that its command starts; nothing: it does not say.
  virtual std::optional<NodeShare> node_share() const { return std::nullopt; }
  // Steps in which the second half of the replicas runs `other`'s command.
  virtual std::unique_ptr<Decider> decider_beside(const Deployment& own, const Deployment& other) const {
    return two_deciders(own, other);
  }

  // --- findings that no search of batches makes
  virtual void add_start_findings(const Deployment& deployment, CheckReport& report) const = 0;
  virtual void add_open_limits(const Deployment& deployment, CheckReport& report) const = 0;
  // A geometry that is a constant, of the target and of the model that drafts. True: there is one.
  virtual bool check_constant_geometry(const Deployment& deployment, CheckReport& report) const = 0;
  virtual bool check_draft_geometry(const Deployment& deployment, CheckReport& report) const = 0;

  // --- lanes beside the fixed geometry: whether ranks decide in every step by which one they go, and with which sizes
  virtual bool decides_each_step() const { return false; }
  virtual bool has_sizes() const { return false; }  // and that lane is an all-to-all
  // What there is instead of an all-to-all.
  virtual std::string without_all_to_all() const { return {}; }
};

inline const CheckedEngine& checked_engine(const Deployment& deployment) {
  return dynamic_cast<const CheckedEngine&>(*deployment.part);
}

}  // namespace a2asim
