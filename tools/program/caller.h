// What a program that embeds this one may hand in beside the arguments; the Python module does (tools/python).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "model/step/sizing_rule.h"
#include "tools/program/io.h"

namespace a2asim {

struct Caller {
  // Asked instead of --rule-cmd, under the same conditions: views are remembered, some are asked twice. An
  // assertion_error is the rank's own refusal; every other error ends the run.
  SizingRule rule;
  std::string rule_name;
  std::chrono::milliseconds rule_patience = std::chrono::seconds(5);  // for one answer of --rule-cmd
  std::function<bool()> stopped;  // true: long work ends early, and its result is of no use
};

int run_program(const std::vector<std::string>& args, Io& io, const Caller& caller);

}  // namespace a2asim
