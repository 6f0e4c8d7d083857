// The one reader of YAML with commands: aliases count as often as they repeat.
#include "model/launch/yaml_reader.h"

#include <doctest/doctest.h>

#include "model/launch/file_kinds.h"
#include "model/launch/launch_file.h"

namespace a2asim {
namespace {

std::string problem(const std::string& text) {
  const auto read = read_yaml(text);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().message.find('\n') == std::string::npos);
  return read.error().message;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("yaml: aliases that multiply nodes or bytes are refused before anything is built") {
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 9; ++j) laughs += ", " + before;
    laughs += "]\n";
  }
  CHECK(has(problem(laughs), "line 5 more nodes or bytes"));
  std::string bytes = "a: &a " + std::string(100'000, 'x') + "\ncommand:\n";
  for (int i = 0; i < 100; ++i) bytes += "- *a\n";
  CHECK(has(problem(bytes), "more nodes or bytes"));
  CHECK(has(problem("command: &a [*a]"), "an alias stands inside what it names"));
  CHECK(read_yaml("a: &a [1, 2]\nb: [*a, *a]\n")->front()["b"][1][0].Scalar() == "1");
}

TEST_CASE("yaml: depth, documents and what is no YAML") {
  CHECK(has(problem(std::string(100, '[')), "nested more than 64 deep"));
  CHECK(has(problem(std::string(65, '[') + std::string(65, ']')), "nested more than 64 deep"));
  CHECK(read_yaml(std::string(64, '[') + std::string(64, ']')).has_value());
  CHECK(has(problem("a: 1\nb: [\nc: }"), "line 3 is no YAML"));
  CHECK(has(problem("a: *b"), "line 1 is no YAML"));
  CHECK(read_yaml("a: 1\n---\nb: 2\n")->size() == 2);
}

TEST_CASE("yaml: settings that repeat a long text stay within the limit of a file") {
  std::string text = "environment: {A: " + std::string(200'000, 'x') + "}\ncommand: \"";
  for (int i = 0; i < 1000; ++i) text += "$(A) ";
  const auto found = pieces_of_yaml(text + "\"\n", {});
  REQUIRE(found.has_value());
  REQUIRE(found->error.has_value());
  CHECK(has(found->error->message, "longer than 4 MiB"));
  std::string maps = "kind: ConfigMap\nmetadata: {name: c}\ndata: {A: " + std::string(100'000, 'x') + "}\n---\nx:\n";
  for (int i = 0; i < 100; ++i) maps += "- {command: [a], envFrom: [{configMapRef: {name: c}}]}\n";
  REQUIRE(pieces_of_yaml(maps, {})->error.has_value());
}

}  // namespace
}  // namespace a2asim
