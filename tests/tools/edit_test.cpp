// Edits of a text: what is shown of them, as a diff and as a replacement.
#include "tools/check/edit.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace a2asim {

TEST_CASE("edit: a diff has three lines around, counts both sides, and marks a line without an end") {
  struct Row {
    std::string before, after, hunk;
  };
  const std::string cut = "\\ No newline at end of file\n";
  const std::vector<Row> table = {
      {"a\n", "b\n", "@@ -1,1 +1,1 @@\n-a\n+b\n"},
      {"a\n", "b", "@@ -1,1 +1,1 @@\n-a\n+b\n" + cut},
      {"a", "b\n", "@@ -1,1 +1,1 @@\n-a\n" + cut + "+b\n"},
      {"1\nx\n2", "1\ny\n2", "@@ -1,3 +1,3 @@\n 1\n-x\n+y\n 2\n" + cut},
      {"1\n2\n3\n4\nx\n5\n6\n7\n8\n", "1\n2\n3\n4\ny\nz\n5\n6\n7\n8\n",
       "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-x\n+y\n+z\n 5\n 6\n 7\n"},
      {"1\n2\n3\nx\n5\n6\n7\n", "1\n2\n3\n5\n6\n7\n", "@@ -1,7 +1,6 @@\n 1\n 2\n 3\n-x\n 5\n 6\n 7\n"},
      {"1\n2\n", "0\n1\n2\n", "@@ -1,2 +1,3 @@\n+0\n 1\n 2\n"},
      {"1\n2\n", "1\n2\n3\n", "@@ -1,2 +1,3 @@\n 1\n 2\n+3\n"},
      {"1\n1\n1\n", "1\n1\n", "@@ -1,3 +1,2 @@\n 1\n 1\n-1\n"},
  };
  for (const Row& row : table) {
    CAPTURE(row.before);
    CHECK(unified_diff("x.sh", row.before, row.after) == "--- a/x.sh\n+++ b/x.sh\n" + row.hunk);
  }
  CHECK(unified_diff("x.sh", "same", "same") == "");
  CHECK(unified_diff("//abs/x.sh", "a\n", "b\n").starts_with("--- a/abs/x.sh\n+++ b/abs/x.sh\n"));
}

TEST_CASE("edit: a replacement takes the bytes that differ, and whole characters") {
  struct Row {
    std::string before, after;
    std::size_t begin, end;
    std::string text;
  };
  const std::vector<Row> table = {
      {"abc", "abc", 3, 3, ""},
      {"abc", "axc", 1, 2, "x"},
      {"abc", "ac", 1, 2, ""},
      {"ac", "abc", 1, 1, "b"},
      {"", "x", 0, 0, "x"},
      {"x", "", 0, 1, ""},
      {"aaa", "aa", 2, 3, ""},
      {"aXb", "aXb!", 3, 3, "!"},
      {"xab", "yab", 0, 1, "y"},
      {"1\xc3\xa4"
       "2",
       "1\xc3\xb6"
       "2",
       1, 3, "\xc3\xb6"},  // the second byte of a character differs
      {"1\xc3\xa4"
       "2",
       "1\xc4\xa4"
       "2",
       1, 3, "\xc4\xa4"},  // and the first one
      {"\xc3\xa4\xc3\xa4", "\xc3\xa4", 2, 4, ""},
  };
  for (const Row& row : table) {
    CAPTURE(row.before);
    CAPTURE(row.after);
    const Replacement found = replacement_of(row.before, row.after);
    CHECK(found.range.begin == row.begin);
    CHECK(found.range.end == row.end);
    CHECK(found.text == row.text);
    CHECK(row.before.substr(0, found.range.begin) + found.text + row.before.substr(found.range.end) == row.after);
  }
}

TEST_CASE("edit: lines and columns count from 1, columns in characters") {
  struct Row {
    std::size_t byte, line, column;
  };
  const std::string text = "ab\n\n\xc3\xa4z\n";
  for (const Row& row :
       std::vector<Row>{{0, 1, 1}, {1, 1, 2}, {2, 1, 3}, {3, 2, 1}, {4, 3, 1}, {6, 3, 2}, {7, 3, 3}, {8, 4, 1}}) {
    CAPTURE(row.byte);
    CHECK(line_column(text, row.byte).line == row.line);
    CHECK(line_column(text, row.byte).column == row.column);
  }
}

TEST_CASE("edit: words are the same in any order, as often as they stand there") {
  CHECK(same_words({}, {}));
  CHECK(same_words({"a", "b"}, {"b", "a"}));
  CHECK_FALSE(same_words({"a"}, {"a", "a"}));
  CHECK_FALSE(same_words({"a", "a", "b"}, {"a", "b", "b"}));
}

}  // namespace a2asim
