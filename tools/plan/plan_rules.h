// What each version's sizing rule makes of one step: the same decisions as in check and replay.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/step/decider.h"
#include "model/step/deployment.h"
#include "tools/plan/plan.h"

namespace a2asim {

// The launch command of a plan, one line. own_count_only adds the two flags of the collapse.
// bf16, or the first type that the version sends.
DispatchType usual_type(const Version& version);

PlannedServer planned_server(const PlanInputs& inputs, std::int64_t ep_size, bool own_count_only);

// That command, resolved as `check` resolves it.
Result<std::unique_ptr<Deployment>> plan_deployment(const PlanInputs& inputs, const Version& version,
                                                    std::int64_t ep_size, bool own_count_only);

// Every version with all counts known and with the own count only, at one ep_size; resolved once for many token counts.
class PlanRules {
 public:
  static Result<PlanRules> create(const PlanInputs& inputs, std::int64_t ep_size);
  std::vector<PlanRule> at(std::int64_t tokens);

 private:
  struct Case {
    std::unique_ptr<Deployment> deployment;
    std::unique_ptr<Decider> decider;  // points to the deployment
    bool own_count_only = false;
  };
  std::vector<Case> cases_;
  const Version* chosen_ = nullptr;
};

}  // namespace a2asim
