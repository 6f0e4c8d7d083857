#include "model/launch/shell_variables.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <utility>

namespace a2asim {
namespace {

// bash gives these a value whenever they are read.
constexpr std::array<std::string_view, 13> kAlive = {
    "RANDOM",       "SRANDOM",  "SECONDS", "LINENO",      "EPOCHSECONDS",  "PIPESTATUS", "BASHPID",
    "BASH_REMATCH", "FUNCNAME", "_",       "BASH_LINENO", "EPOCHREALTIME", "BASH_SOURCE"};

}  // namespace

const ShellValue* ShellVariable::first() const {
  if (is_keyed) {
    const auto found = keys.find("0");
    return found == keys.end() ? nullptr : &found->second;
  }
  const auto found = items.find(0);
  return found == items.end() ? nullptr : &found->second;
}

bool ShellVariable::is_counted() const {
  return !is_open && std::ranges::none_of(items, [](const auto& item) { return item.second.is_many; });
}

const ShellVariable* ShellVariables::find(std::string_view name) const {
  if (std::ranges::find(kAlive, name) != kAlive.end()) return nullptr;
  const auto found = named.find(name);
  if (found == named.end()) return nullptr;
  // `export NAME` alone: what it holds, if anything, only the outside knows.
  const ShellVariable& variable = found->second;
  const bool is_named_only = variable.is_open && !variable.is_array && variable.items.empty() && variable.keys.empty();
  return is_named_only ? nullptr : &variable;
}

std::string ShellVariables::name_of(std::string_view name) const {
  std::size_t place = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), place);
  const bool is_own = failed == std::errc{} && end == name.data() + name.size() && place > 0 && !arguments;
  return is_own ? std::to_string(place + shifted) : std::string(name);
}

void ShellVariables::set(const std::string& name, ShellValue value) {
  ShellVariable& variable = named[name];
  variable.is_open = variable.is_open && variable.is_array;
  (variable.is_keyed ? variable.keys["0"] : variable.items[0]) = std::move(value);
}

void ShellVariables::set_exported(const std::string& name, ShellValue value) {
  set(name, std::move(value));
  named[name].is_exported = true;
}

void ShellVariables::open(const std::string& name) {
  ShellVariable& variable = named[name];
  variable.items = {{0, {"$" + name, true}}};
  variable.keys.clear();
  variable.is_open = true;
}

void ShellVariables::go_to(std::optional<std::string_view> path) {
  if (path == "-") return here.swap(before);
  before = here;
  const bool is_own = path && (*path == "." || path->starts_with("./"));  // $(dirname "$0") is written so
  const bool is_known = is_own || (path && here && !path->starts_with('/') && !path->starts_with('~'));
  if (!is_known) return here.reset();
  const std::filesystem::path to = std::filesystem::path(is_own ? "." : *here) / std::string(*path) / "";
  std::string normal = to.lexically_normal().generic_string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  normal.starts_with("..") ? here.reset() : void(here = std::move(normal));
}

}  // namespace a2asim
