// The one reader of JSON: limits, places, and what Python makes of the same text.
#include "model/base/json_reader.h"

#include <doctest/doctest.h>

namespace a2asim {
namespace {

std::string problem(std::string_view text, const JsonLimits& limits = {}) {
  const auto read = read_json(text, limits);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().kind == ErrorKind::bad_input);
  return read.error().message;
}

std::string nested(int depth) {
  const auto times = static_cast<std::size_t>(depth);
  return std::string(times, '[') + std::string(times, ']');
}

TEST_CASE("json: what is no JSON is said with its place") {
  CHECK(problem("") == "no JSON at line 1, column 1");
  CHECK(problem("{\n  \"a\": 1,\n}") == "no JSON at line 3, column 1");
  CHECK(problem("[1] x") == "no JSON at line 1, column 5");
  CHECK(problem("\"\xff\"").starts_with("no JSON at line 1"));
  CHECK(problem("1e999") == "a number in it is out of range");
}

TEST_CASE("json: depth, bytes and keys have limits, each held exactly") {
  CHECK(read_json(nested(64)).has_value());
  CHECK(problem(nested(65)) == "nested more than 64 deep");
  CHECK(problem(std::string(1'000'000, '[')) == "nested more than 64 deep");
  CHECK(problem("{\"a\":" + nested(400'000) + "}") == "nested more than 64 deep");
  CHECK(read_json("[1]", {.bytes = 3}).has_value());
  CHECK(problem("[12]", {.bytes = 3}) == "longer than 3 bytes");
  CHECK(read_json(R"({"a": {"b": 1}, "c": 2})", {.keys = 3}).has_value());
  CHECK(problem(R"({"a": {"b": 1}, "c": 2})", {.keys = 2}) == "more than 2 keys");
  std::string many = "{";
  for (int i = 0; i < 300'000; ++i) many += "\"k" + std::to_string(i) + "\":1,";
  many.back() = '}';
  CHECK(problem(many) == "more than 100000 keys");
}

TEST_CASE("json: of a key that is given twice the last value counts") {
  CHECK(read_json(R"({"a": 1, "a": 2})")->at("a") == 2);
}

}  // namespace
}  // namespace a2asim
