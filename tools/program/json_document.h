// What all JSON outputs of the program share.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/check/check.h"

namespace a2asim {

template <class T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json tool_as_json();  // {"name": "a2asim", "version": ..}
nlohmann::ordered_json witness_as_json(const std::optional<CheckWitness>& witness);
// {id, about, severity, phase, message, consequence, why, witness, fix}
nlohmann::ordered_json finding_as_json(const CheckFinding& finding);

// Bytes that are no UTF-8 are replaced; what must not reach a terminal (model/base/one_line.h) is written as \u
// escapes, so that a reader gets the same strings.
std::string dumped(const nlohmann::ordered_json& document, int indent);
// Two blanks an indent, a newline at the end.
std::string print(const nlohmann::ordered_json& document);

}  // namespace a2asim
