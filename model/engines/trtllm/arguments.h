// The words of a launch as TensorRT-LLM's own arguments: options of trtllm-serve, keys of its YAML file (written behind
// them as --moe_config.backend=TRTLLM, so that they win), engine options of Dynamo.
//   const auto read = read_arguments(*front_end, argv);
//   read->number("tensor_parallel_size", 1);
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"
#include "model/launch/launch_command.h"

namespace a2asim::trtllm {

class Arguments {
 public:
  // By the names of LlmArgs: "moe_config.backend". A list is written as [1,2,4], None as null.
  std::optional<std::string> text(std::string_view name) const;  // nothing: not given, or null
  bool is_given(std::string_view name) const { return values_.contains(name); }
  bool is_null(std::string_view name) const;
  bool flag(std::string_view name, bool otherwise = false) const;
  // Errors: bad_input, for what is no whole number, or outside least..most.
  Result<std::int64_t> number(std::string_view name, std::int64_t otherwise, std::int64_t least = 1,
                              std::int64_t most = 1 << 30) const;
  Result<std::vector<std::int64_t>> numbers(std::string_view name) const;  // "[1,2,4]"; empty: not given
  std::optional<double> real(std::string_view name) const;

  void set(std::string name, std::string value) { values_.insert_or_assign(std::move(name), std::move(value)); }

  std::string model;
  std::vector<Note> notes;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// Every spelling of an option or of a key of the YAML file: "--max_num_tokens", "max_num_tokens", "--max-num-tokens".
std::vector<std::string> spellings_of(std::string_view option);

// Errors: bad_input; an option without its value.
Result<Arguments> read_arguments(const FrontEnd* front_end, std::span<const std::string> argv);

}  // namespace a2asim::trtllm
