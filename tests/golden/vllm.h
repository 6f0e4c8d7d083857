// What the tables of vLLM share. Their names begin with vllm_.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "model/engines/vllm/generation.h"
#include "tests/golden/table.h"

namespace a2asim::golden {

// The version in force at the row's commit.
inline const vllm::Generation& vllm_generation(Fields& in) {
  const auto name = in.get<std::string>("generation");
  const auto match = vllm::find_generation(name);
  if (!match) throw std::invalid_argument("unknown generation " + name);
  return vllm::as_generation(*match->version);
}

// "ValueError: ..", as the tables write it. What pydantic wraps is a ValidationError there.
inline std::string as_python(const Error& error, std::string_view value_error = "ValueError") {
  const std::string_view kind = error.kind == ErrorKind::value_error     ? value_error
                                : error.kind == ErrorKind::runtime_error ? "NotImplementedError"
                                                                         : name(error.kind);
  return std::string(kind) + ": " + error.message;
}

// Theirs may be cut short: ours begins with it.
std::optional<std::string> mismatch_vllm_start(const json& ours, const json& row);

}  // namespace a2asim::golden
