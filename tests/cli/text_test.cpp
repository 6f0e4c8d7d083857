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

TEST_CASE("escaped: controls of every kind, marks of direction and bytes that are no text") {
  CHECK(escaped("a\tb\nc") == "a\\tb\\nc");
  CHECK(escaped("a\tb\nc\r", LineEnds::kept) == "a\tb\nc\\r");
  CHECK(escaped("\x7f\x01") == "\\x7f\\x01");
  CHECK(escaped("\xc2\x85\xc2\x9b"
                "31m") == "\\u0085\\u009b31m");                                   // C1: the one-byte CSI
  CHECK(escaped("\xe2\x80\xae\xe2\x81\xa6\xd8\x9c") == "\\u202e\\u2066\\u061c");  // bidi
  CHECK(escaped("\xe2\x80\xa8") == "\\u2028");
  CHECK(escaped("\xf3\xa0\x81\x81") == "\\U000e0041");  // a tag that nobody sees
  CHECK(escaped("\xff\xc0\xaf\xed\xa0\x80"
                "a") == "\\xff\\xc0\\xaf\\xed\\xa0\\x80a");
  CHECK(escaped("\xe2\x80") == "\\xe2\\x80");  // cut
  const std::string plain = "é 漢字 🙂 ~";
  CHECK(escaped(plain) == plain);
  CHECK(escaped(std::string_view("\0", 1)) == "\\x00");
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
