// From a scenario to the deployment that it describes, and whether that starts at all.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/step/engine.h"
#include "model/step/verdict.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

struct ScenarioDeployment {
  const Version* generation = nullptr;
  std::unique_ptr<Deployment> deployment;  // nullptr: argparse refused the command
  // What there is to say before the first step. agrees: the engine starts and the steps decide.
  // rejected: it refuses to start. over_capacity: it fails at graph capture, because a bucket is above the cap.
  Verdict verdict = Verdict::agrees;
  std::string why;  // one line, when the verdict is not `agrees`
  std::string fix;
  std::vector<std::string> notes;
};

// `version`: the one that is to run, empty for the scenario's own (the newest if it names none). `rule`: one in
// place of the generation's, may be empty. `file` names the scenario in errors, which are bad_input: an unknown
// generation, a command that means no deployment, steps or faults that do not fit its ranks.
//
// A deployment given as `parallel:` is a layout, not a command: what SGLang's argument handlers refuse about it
// (FlashInfer with dp_size != tp_size, from #25907 on) is a note, so that layouts of other builds can be run.
Result<ScenarioDeployment> deploy(const Scenario& scenario, std::string_view file, const VersionChoice& version,
                                  SizingRule rule = {});

}  // namespace a2asim
