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

// Ours for one row: {"out": ..} or {"error": ".."} in the row's own format.
// The runner compares it with the row: `out` must be equal as JSON; of an error the kind (text up to the first ':')
// must be equal, and a table may compare more by building its answer accordingly. A row with unknown fields, and a
// field the table did not ask for (Fields::unknown), is a mismatch.
using Answer = json (*)(Fields& in, const json& row);

struct Table {
  std::string_view name;  // file name without .jsonl
  Answer answer;
};

// Every table of shared format; golden_tables.cpp lists them.
const Table* find_table(std::string_view name);

// nullopt when ours equals the row, else one line: what differs.
std::optional<std::string> mismatch(const Table& table, const json& row);

}  // namespace a2asim::golden
