// The words of what two nodes' commands say differently, for the engines that know what comes of it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "model/check/check_explain.h"

namespace a2asim {

// `own` is the first node's.
template <class T>
std::string differs(std::string_view what, const T& own, const T& other) {
  return fmt::format("{} is {} here and {} on the first node", what, other, own);
}

template <class T>
std::string give_all(std::string_view what, const T& value) {
  return fmt::format("give every node {} {}", what, value);
}
inline std::string give_all(std::string_view what, bool value) {
  return fmt::format("give {} to {}", what, value ? "every node" : "no node");
}

inline void add_difference(CheckReport& report, Severity severity, std::string message, std::string consequence,
                           std::string fix, FindingKind kind = FindingKind::nodes_differ) {
  CheckFinding finding = make_note(kind, Phase::start, std::move(message), std::move(fix));
  finding.severity = severity;
  finding.consequence = std::move(consequence);
  report.findings.push_back(std::move(finding));
}

}  // namespace a2asim
