// The page of `check --report`.
#pragma once

#include <optional>
#include <string>

#include "model/check/check.h"
#include "sim/scenario/scenario.h"
#include "tools/check/releases.h"

namespace a2asim {

struct PageFix {
  TriedFix tried;
  std::string copied;  // what the button copies: the command with it; may be empty
};

struct CheckForPage {
  CheckReport report;
  std::string launch;  // the command as it was understood, in words of a shell
  std::optional<ModelShape> model;
  std::optional<Scenario> witness;  // the batch of the first disagreement, to be replayed; see witness_scenario()
  SizingRule rule;                  // of the user's own, may be empty
  std::string place = {};           // where it stands, and why it is judged by this version
  std::vector<PageFix> fixes = {};  // of the first finding that has some
  std::vector<ReleaseRow> releases = {};
};

// The launch with the first witnessed error's batch as its only step; nothing where there is none, or no model's shape.
// Sizes do not depend on the hidden size, so a small one is taken.
std::optional<Scenario> witness_scenario(const CheckReport& report, const std::vector<std::string>& argv,
                                         const std::map<std::string, std::string, std::less<>>& env,
                                         const std::optional<ModelShape>& model);

// argv as a person would type it.
std::string shell_command(const Engine& engine, const std::vector<std::string>& argv);

std::string check_page(const CheckForPage& check);

}  // namespace a2asim
