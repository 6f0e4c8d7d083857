#include "tools/program/text.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "model/base/nearest.h"
#include "model/base/random.h"
#include "tools/program/template.h"

namespace a2asim {
namespace {

TEST_CASE("wrap breaks at blanks, hangs, and cuts only words that are too long") {
  CHECK(wrap("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap("one two three", 7, 2) == std::vector<std::string>{"one two", "  three"});
  CHECK(wrap("abcdefghij k", 4) == std::vector<std::string>{"abcd", "efgh", "ij k"});
  CHECK(wrap("", 4) == std::vector<std::string>{""});
  CHECK(wrap("äöü äöü", 3) == std::vector<std::string>{"äöü", "äöü"});  // characters, not bytes
}

TEST_CASE("wrap: no line is wider, no word is lost, and a line ends only where the next word does not fit") {
  Random random(1);
  for (int draw = 0; draw < 2000; ++draw) {
    const auto width = static_cast<std::size_t>(random.between(3, 12));
    const auto hang = static_cast<std::size_t>(random.between(0, 2));
    std::string text, all;
    for (std::int64_t words = random.between(0, 8); words > 0; --words) {
      const std::string word(static_cast<std::size_t>(random.between(1, 14)), static_cast<char>('a' + words));
      text += word + std::string(static_cast<std::size_t>(random.between(1, 2)), ' ');
      all += word;
    }
    CAPTURE(text);
    CAPTURE(width);
    const std::vector<std::string> lines = wrap(text, width, hang);
    std::string joined;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CHECK(lines[i].size() <= width);
      const std::string inside = lines[i].substr(i == 0 ? 0 : hang);
      CHECK((i == 0 || lines[i].starts_with(std::string(hang, ' '))));
      CHECK((inside.empty() ? all.empty() : inside.front() != ' ' && inside.back() != ' '));
      if (i > 0) {
        const bool cuts = inside.front() == lines[i - 1].back();  // each word has a letter of its own
        const auto whole = static_cast<std::size_t>(std::ranges::count(text, inside.front()));
        CHECK(lines[i - 1].size() + (cuts ? 1 : 1 + whole) > width);
      }
      for (const char c : inside) joined += c == ' ' ? "" : std::string(1, c);
    }
    CHECK(joined == all);
  }
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
  CHECK(table({{"name", "R", "x"}, {"a"}, {"b", "10", ""}}, {}) ==
        std::vector<std::string>{"name  R   x", "a", "b     10"});
  CHECK(table({{"ä", "1"}, {"bc", "23"}}, {0, 1}) == std::vector<std::string>{" ä   1", "bc  23"});
}

TEST_CASE("ranges and counts") {
  CHECK(ranges({}) == "");
  CHECK(ranges({3}) == "3");
  CHECK(ranges({0, 1, 2, 5, 7, 8}) == "0..2, 5, 7..8");
  CHECK(counted(1, "note") == "1 note");
  CHECK(counted(2, "note") == "2 notes");
  CHECK(counted(0, "note") == "0 notes");
  CHECK(bytes_in_words(513) == "513 B");
  CHECK(bytes_in_words(1023) == "1023 B");
  CHECK(bytes_in_words(1024) == "1.0 KiB");
  CHECK(bytes_in_words(1536) == "1.5 KiB");
  CHECK(bytes_in_words((1 << 20) - 1) == "1024.0 KiB");
  CHECK(bytes_in_words(3 << 20) == "3.0 MiB");
  CHECK(bytes_in_words(std::int64_t{5} << 30) == "5.0 GiB");
  CHECK(bytes_in_words(std::int64_t{7} << 40) == "7.0 TiB");
  CHECK(bytes_in_words(std::int64_t{9} << 50) == "9.0 PiB");
  CHECK(bytes_in_words(std::int64_t{2} << 60) == "2048.0 PiB");
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(123456) == "123,456");
  CHECK(grouped(1234567) == "1,234,567");
}

TEST_CASE("letters, blanks and full stops") {
  CHECK(capitalised("abc d") == "Abc d");
  CHECK(capitalised("zoo") == "Zoo");
  CHECK(capitalised("`x") == "`x");
  CHECK(capitalised("{x") == "{x");
  CHECK(capitalised("") == "");
  CHECK(upper("azAZ09_`{") == "AZAZ09_`{");
  CHECK(spaced("a_b_c") == "a b c");
  CHECK(sentence("One") == "One.");
  CHECK(sentence("One.") == "One.");
  CHECK(painted("x", "31", false) == "x");
  CHECK(painted("x", "31", true) == "\x1b[31mx\x1b[0m");
}

TEST_CASE("html: what a page would take for markup is escaped, and flags are code") {
  CHECK(html_text("a<b>&\"c'\n\x1b") == "a&lt;b&gt;&amp;&quot;c&#39;\n\\x1b");
  CHECK(html_flags("set --tp-size, or (--dp) now") == "set <code>--tp-size</code>, or (<code>--dp</code>) now");
  CHECK(html_flags("-- --a  [--b=<c>]; x.") == "-- <code>--a</code>  [<code>--b=&lt;c&gt;</code>]; x.");
}

TEST_CASE("nearest finds a slip of the finger and nothing far") {
  CHECK(nearest("chek", {"check", "generations"}) == "check");
  CHECK(nearest("frobnicate", {"check", "generations"}) == "");
}

}  // namespace
}  // namespace a2asim
