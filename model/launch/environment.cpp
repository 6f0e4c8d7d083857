#include "model/launch/environment.h"

#include <algorithm>

namespace a2asim {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

}  // namespace

std::optional<std::string_view> Environment::get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::int64_t Environment::get_int(std::string_view name, std::int64_t fallback) const {
  const PythonInt number = python_int(get(name).value_or(""));
  return number.status == PythonInt::Status::invalid ? fallback : number.value;
}

bool Environment::get_bool(std::string_view name, bool fallback) const {
  const std::string value = lower(get(name).value_or(""));
  if (value == "true" || value == "1" || value == "yes" || value == "y") return true;
  if (value == "false" || value == "0" || value == "no" || value == "n") return false;
  return fallback;
}

bool Environment::get_bool_env_var(std::string_view name, bool fallback) const {
  if (!is_set(name)) return fallback;
  const std::string value = lower(*get(name));
  return value == "true" || value == "1";
}

}  // namespace a2asim
