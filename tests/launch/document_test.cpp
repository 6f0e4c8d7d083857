// Dockerfiles as docker build reads them, and documents as CommonMark does.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/launch/described.h"

using namespace a2asim;
using test::described;

namespace {

const std::string kServeLine = "CMD sglang serve --tp 8\n";

}  // namespace

TEST_CASE("dockerfile: instructions in any letters, with comments, blank lines and lines that go on") {
  CHECK(described("FROM i\n" + kServeLine) == "2 i|--tp|8\n");
  CHECK(described("from i\r\nenv A=1\r\n\tcmd  sglang serve --tp 8  \r\n") == "3 i A=1|--tp|8\n");
  CHECK(described(
            "# syntax=docker/dockerfile:1\n\nFROM i\nCMD sglang serve \\\n# a comment\n\n  --tp 8 \\\n  --dp 2\nRUN "
            "x\n") == "4 i|--tp|8|--dp|2\n");
  CHECK(described("FROM i\nRUN x \\\n  CMD sglang serve --tp 2\n" + kServeLine) == "4 i|--tp|8\n");
  CHECK(described("FROM i\nCMD sglang serve --tp 8") == "2 i|--tp|8\n");
}

TEST_CASE("dockerfile: the last ENTRYPOINT and CMD of the last stage count") {
  CHECK(described("FROM i\nCMD sglang serve --tp 1\n" + kServeLine) == "3 i|--tp|8\n");
  CHECK(described("FROM a AS one\nENV A=1\nENTRYPOINT [\"sglang\", \"serve\"]\nFROM b\n" + kServeLine) ==
        "5 b|--tp|8\n");
  CHECK(described("FROM a\nENTRYPOINT [\"sglang\", \"serve\"]\nFROM b\nCMD [\"--tp\", \"8\"]\n") == "none");
  CHECK(described("FROM i\nENTRYPOINT [\"sglang\", \"serve\"]\nCMD [\"--tp\", \"8\"]\n") == "3 i|--tp|8\n");
  CHECK(described("FROM i\nCMD [\"--dp\", \"2\"]\nENTRYPOINT [\"sglang\", \"serve\", \"--tp\", \"8\"]\n") ==
        "3 i|--tp|8\n");
  CHECK(described("FROM i\nENTRYPOINT sglang serve --tp 8\nCMD [\"--dp\", \"2\"]\n") == "3 i|--tp|8\n");
  CHECK(described("FROM i\nENTRYPOINT [\"sglang\", \"serve\"]\n") == "2 i\n");
  CHECK(described("FROM i\nCMD [\"sglang\", \"serve\", \"--j\", \"{\\\"a b\\\": 1}\", \"$A\"]\n")
            .starts_with("2 i|--j|{\"a b\": 1}|"));
  CHECK(described("FROM i\nCMD [ \"sglang\" , \"serve\" , \"it's\" ]\n") == "2 i|--model-path|it's\n");
}

TEST_CASE("dockerfile: variables of ENV and ARG, and images by ARG") {
  CHECK(described("FROM i\nENV A 1  2 \nENV B=x\n" + kServeLine) == "4 i A=1  2 B=x|--tp|8\n");
  CHECK(described("FROM i\nENV A=1 B=\"2 3\"\n" + kServeLine) == "3 i A=1 B=2 3|--tp|8\n");
  CHECK(described("FROM i\nENV T=4\nCMD sglang serve --tp $T\n") == "3 i|--tp|4\n");
  CHECK(described("FROM i\nARG T=4\nCMD sglang serve --tp $T\n") == "3 i|--tp|4\n");
  CHECK(described("ARG TAG=1\nARG NAME=r/$TAG\nFROM $NAME:${TAG}\n" + kServeLine) == "4 r/1:1|--tp|8\n");
  CHECK(described("FROM --platform=linux/amd64   r:2 AS x\n" + kServeLine) == "2 r:2|--tp|8\n");
  CHECK(described("FROM r:2\tAS x\n" + kServeLine) == "2 r:2|--tp|8\n");
  Environment given;
  given.set("TAG", "9");
  CHECK(described("ARG TAG=1\nFROM r:$TAG\n" + kServeLine, given) == "3 r:9|--tp|8\n");
  CHECK(described("ARG X\nFROM r:1\n" + kServeLine) == "3 r:1|--tp|8\n");
}

TEST_CASE("document: what stands in fences of shells is read, and nothing else") {
  for (const std::string language : {"", "bash", "sh", "Shell", "console", "zsh", "terminal", "shell-session",
                                     "bash-session", "BASH {.line}", "bash,copy", " bash"})
    for (const std::string fence : {"```", "~~~"}) {
      CAPTURE(language);
      CHECK(described("Text\n\n" + fence + language + "\nsglang serve --tp 8\n" + fence + "\n") == "4|--tp|8\n");
    }
  for (const std::string language : {"text", "json", "c++", "powershell", "bashful", "ini"})
    CHECK(described("```" + language + "\nsglang serve --tp 8\n```\n") == "none");
  CHECK(described("sglang serve --tp 1\n```sh\nx\n```\nsglang serve --tp 2\n```sh\nsglang serve --tp 3\n```\n") ==
        "7|--tp|3\n");
  CHECK(described("```sh\nsglang serve --tp 1\n``` x\nsglang serve --tp 2\n```\n") != "2|--tp|1\n");
  CHECK(described("~~~sh\nsglang serve --tp 1\n") == "2|--tp|1\n");  // until the end of the document
  CHECK(described("```sh\r\nsglang serve --tp 1\r\n```\r\n") == "2|--tp|1\n");
  CHECK(described("`````sh\nsglang serve --tp 1\n`````\nsglang serve --tp 2\n") == "2|--tp|1\n");
}

TEST_CASE("document: prompts and the indent of a list are no part of a command") {
  CHECK(described("```console\n$ sglang serve --tp 8 \\\n    --dp 2\n```\n") == "2|--tp|8|--dp|2\n");
  CHECK(
      described("1. x\n   ```sh\n   cat <<EOF >f\n   sglang serve --tp 1\n   EOF\n   sglang serve --tp 8\n   ```\n") ==
      "6|--tp|8\n");
  CHECK(described("- x\n\t```sh\n\tsglang serve --tp 8\n\t```\n") == "3|--tp|8\n");
  CHECK(described("   ```sh\nsglang serve --tp 8\n  sglang serve --tp 4\n```\n") == "2|--tp|8\n3|--tp|4\n");
}

TEST_CASE("document: YAML and Python in fences have lines of the document") {
  CHECK(described("x\n```yaml\ncommand: sglang serve --tp 2\n```\n") == "3|--tp|2\n");
  for (const std::string language : {"python", "py", "Python"})
    CHECK(described("x\n\n```" + language +
                    "\nimport sglang\n\nsglang.Engine(tp_size=8)\nsglang.Engine(tp_size=4)\n```\n") ==
          "6|--tp-size|8\n7|--tp-size|4\n");
  CHECK(described("```python\nsglang.Engine(tp_size=8)\n```\n```sh\nsglang serve --tp 2\n```\n") ==
        "2|--tp-size|8\n5|--tp|2\n");
}
