// Environment variables of a launch, read the way SGLang reads them.
//
// Two readers exist in SGLang and they differ: get_bool_env_var (python/sglang/srt/utils/common.py) knows only
// "true" and "1"; the fields of python/sglang/srt/environ.py also know "yes" and "y". Integers are read by Python's
// int() in both, and what int() refuses gives the default.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/python_int.h"

namespace a2asim {

class Environment {
 public:
  void set(std::string name, std::string value) { values_[std::move(name)] = std::move(value); }
  void unset(const std::string& name) { values_.erase(name); }
  bool is_set(std::string_view name) const { return values_.find(name) != values_.end(); }
  std::optional<std::string_view> get(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& values() const { return values_; }

  // EnvInt, get_int_env_var: "0" is 0 and "-1" is -1; unset, empty and "abc" are `fallback`.
  std::int64_t get_int(std::string_view name, std::int64_t fallback) const;
  // EnvBool: true/1/yes/y and false/0/no/n in any case; everything else is `fallback`.
  bool get_bool(std::string_view name, bool fallback) const;
  // get_bool_env_var: true/1 in any case; everything else that is set is false.
  bool get_bool_env_var(std::string_view name, bool fallback = false) const;

  bool operator==(const Environment&) const = default;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace a2asim
