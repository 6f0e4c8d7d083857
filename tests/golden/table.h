// One golden table: rows that the real functions of SGLang and FlashInfer produced, and how ours is asked the same.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace a2asim::golden {

using nlohmann::json;

// Reads the fields of one row and remembers which were asked for: a field that nobody asked for is a mismatch.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  const json& at(const std::string& key) {  // throws json::out_of_range when missing: reported as a mismatch
    seen_.insert(key);
    return object_.at(key);
  }
  bool has(const std::string& key) {
    seen_.insert(key);
    return object_.contains(key);
  }
  template <class T>
  T get(const std::string& key) {
    return at(key).get<T>();
  }
  template <class T>
  std::optional<T> get_or_null(const std::string& key) {  // null or missing -> nullopt
    if (!has(key) || object_.at(key).is_null()) return std::nullopt;
    return object_.at(key).get<T>();
  }
  void ignore(std::initializer_list<const char*> keys) {
    for (const char* key : keys) seen_.insert(key);
  }
  std::optional<std::string> unknown() const {
    for (const auto& [key, value] : object_.items())
      if (!seen_.contains(key)) return key;
    return std::nullopt;
  }

 private:
  const json& object_;
  std::set<std::string> seen_;
};

// Ours for one row: {"out": ..} or {"error": ".."} in the row's own format. A field of `in` that the answer did not ask
// for (Fields::unknown) is a mismatch; Fields::ignore names those that the real function does not read either.
// Exceptions are caught and are a mismatch, so a missing field needs no check.
using Answer = json (*)(Fields& in, const json& row);

// Compares ours with the row: nullopt when equal, else one line that says what differs.
using Comparison = std::optional<std::string> (*)(const json& ours, const json& row);

// The usual comparison: `out` equal as JSON (numbers by value: 1 and 1.0 are equal); of an error only the kind, the
// text up to the first ':'.
std::optional<std::string> mismatch_exact(const json& ours, const json& row);

struct Table {
  std::string_view name;  // file name without .jsonl
  Answer answer;
  Comparison mismatch = mismatch_exact;
};

// The registered table of that name, or nullptr. golden_tables.cpp lists them.
const Table* find_table(std::string_view name);

// Of a file that `a2asim conform --record` wrote: each row says its kind of question and the version.
const Table& recorded_table();

// nullopt when ours equals the row, else one line: what differs. Besides what the table compares, a row is a mismatch
// when it is no object with `in` and exactly one of `out` and `error`, when it has other top-level keys (`accept` is
// allowed where the table has its own comparison), or when the answer left a field of `in` unread.
std::optional<std::string> mismatch(const Table& table, const json& row);

}  // namespace a2asim::golden
