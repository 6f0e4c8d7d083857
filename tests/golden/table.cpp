#include "tests/golden/table.h"

#include <exception>

namespace a2asim::golden {
namespace {

std::string error_kind(const json& error) {
  const std::string text = error.is_string() ? error.get<std::string>() : error.dump();
  return text.substr(0, text.find(':'));
}

// The first place where two values differ, as a JSON pointer: a row may hold hundreds of numbers.
std::string first_difference(const json& ours, const json& theirs) {
  const json patch = json::diff(theirs, ours);
  if (patch.empty()) return "";
  const std::string path = patch[0].at("path").get<std::string>();
  return path.empty() ? "" : " (first difference at " + path + ")";
}

// What is wrong with the row's form, before anybody is asked.
std::optional<std::string> malformed(const Table& table, const json& row) {
  if (!row.is_object()) return "the row is no JSON object";
  if (!row.contains("in") || !row.at("in").is_object()) return "the row has no object \"in\"";
  if (row.contains("out") == row.contains("error")) return "the row needs exactly one of \"out\" and \"error\"";
  for (const auto& [key, value] : row.items()) {
    const bool accept = key == "accept" && table.mismatch != mismatch_exact;
    if (key != "in" && key != "out" && key != "error" && !accept) return "unknown key \"" + key + "\" in the row";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> mismatch_exact(const json& ours, const json& row) {
  if (ours.contains("error") != row.contains("error"))
    return "ours " + ours.dump() + ", theirs " + (row.contains("error") ? row.at("error") : row.at("out")).dump();
  if (row.contains("error")) {
    if (error_kind(ours.at("error")) == error_kind(row.at("error"))) return std::nullopt;
    return "ours " + ours.at("error").dump() + ", theirs " + row.at("error").dump();
  }
  const json& our_out = ours.at("out");
  const json& out = row.at("out");
  if (our_out == out) return std::nullopt;
  return "ours " + our_out.dump() + ", theirs " + out.dump() + first_difference(our_out, out);
}

std::optional<std::string> mismatch(const Table& table, const json& row) {
  if (auto what = malformed(table, row)) return what;
  try {
    Fields in(row.at("in"));
    const json ours = table.answer(in, row);
    if (auto what = table.mismatch(ours, row)) return what;
    if (auto key = in.unknown()) return "field \"" + *key + "\" of \"in\" is unknown";
    return std::nullopt;
  } catch (const std::exception& error) {
    return std::string("no answer: ") + error.what();
  }
}

}  // namespace a2asim::golden
