#include "tools/program/text.h"

#include <doctest/doctest.h>

#include "model/base/nearest.h"

namespace a2asim {
namespace {

TEST_CASE("wrap breaks at blanks, hangs, and cuts only words that are too long") {
  CHECK(wrap("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap("one two three", 7, 2) == std::vector<std::string>{"one two", "  three"});
  CHECK(wrap("abcdefghij k", 4) == std::vector<std::string>{"abcd", "efgh", "ij k"});
  CHECK(wrap("", 4) == std::vector<std::string>{""});
  CHECK(wrap("äöü äöü", 3) == std::vector<std::string>{"äöü", "äöü"});  // characters, not bytes
}

TEST_CASE("one_line escapes what would move a terminal's cursor") {
  CHECK(one_line("a\nb\x1b[31m") == "a\\nb\\x1b[31m");
  CHECK(one_line(std::string(500, 'x')).size() == 402);
  CHECK(one_line("äää", 1) == "ä..");
}

TEST_CASE("cut keeps the width") {
  CHECK(cut("abcdef", 6) == "abcdef");
  CHECK(cut("abcdefg", 6) == "abcd..");
}

TEST_CASE("table aligns, numbers to the right") {
  CHECK(table({{"name", "R"}, {"a", "10"}}, {1}) == std::vector<std::string>{"name   R", "a     10"});
}

TEST_CASE("ranges and counts") {
  CHECK(ranges({}) == "");
  CHECK(ranges({3}) == "3");
  CHECK(ranges({0, 1, 2, 5, 7, 8}) == "0..2, 5, 7..8");
  CHECK(counted(1, "note") == "1 note");
  CHECK(counted(2, "note") == "2 notes");
  CHECK(bytes_in_words(513) == "513 B");
  CHECK(bytes_in_words(3 << 20) == "3.0 MiB");
}

TEST_CASE("nearest finds a slip of the finger and nothing far") {
  CHECK(nearest("chek", {"check", "generations"}) == "check");
  CHECK(nearest("frobnicate", {"check", "generations"}) == "");
}

}  // namespace
}  // namespace a2asim
