#!/usr/bin/env python3
"""Does tools/tidy find what it looks for? A small tree with one offence of each kind: tidy_check.py TIDY."""
import os
import subprocess
import sys
import tempfile

LONG_FUNCTION = "int f() {\n" + "  ;\n" * 70 + "  return 1;\n}\n"
TREE = {
    "model/base/README.md": "nearest, random\n",
    "model/base/random.h": "#pragma once\n",
    "model/base/nearest.h": '#pragma once\n#include "model/check/check.h"\n',
    "model/check/README.md": "check, lost/place.h\n",
    "model/check/check.h": "#pragma once\n// SGLang #29461 of 2026-06-28: a comment may say so.\n",
    "model/check/dates.cpp": 'const char* since = "2026-06-28";\n',
    "model/engines/sglang/README.md": "version\n",
    "model/engines/sglang/version.cpp": 'const char* date = "2026-06-28";\n',
    "model/engines/another/README.md": "engine\n",
    "model/engines/another/engine.cpp": "int h() { return 0; }\n",
    "model/step/step.h": "#pragma once\n",
    "sim/named.cpp": 'const char* engine = "another";\n',
    "tools/docs/page.md": "see sim/cluster.cpp and sim/gone.cpp\n",
    "sim/cluster.cpp": "int g() { return 0; }\n",
    "sim/README.md": "| file |\n| cluster, named, twice*, other |\n" + "\n" * 60,
    "sim/twice.cpp": "namespace {\nconstexpr int kMost = 1;\nint f(int a) { return a; }\nvoid say(const std::string& text);\nvoid say(const std::string& text) {}\n}\n",
    "sim/twice_more.cpp": "namespace {\nconstexpr int kMost = 2;\nint f(long a) { return 1; }\nvoid say(std::string_view text) {}\n}\n",
    "tests/README.md": "name_test\n",
    "tests/name_test.cpp": 'TEST_CASE("one; two") {}\n',
    "tools/README.md": "long_*\n",
    "tools/long_file.cpp": "\n" * 451,
    "tools/long_function.cpp": LONG_FUNCTION,
    "tools/long_line.cpp": "//" + "-" * 119 + "\n",
}
OFFENCES = [
    "model/base/nearest.h:2: model/base must not include model/check/check.h",
    "model/check/README.md:1: does not name dates.cpp",
    "model/check/README.md:1: names lost/place.h, which is not there",
    "model/check/dates.cpp:1: '2026-06-28' belongs into an engine's room",
    "model/step/: no README.md",
    "sim/: 0.00 assertions per function, at least 0.3",
    "sim/README.md:1: 62 lines, at most 60",
    "sim/named.cpp:1: 'another' belongs into an engine's room",
    "sim/twice_more.cpp:2: kMost stands in sim/twice.cpp too: rename it, or add a file to A2ASIM_ALONE",
    "sim/twice_more.cpp:4: say stands in sim/twice.cpp too: rename it, or add a file to A2ASIM_ALONE",
    "tests/name_test.cpp:1: a ';' in the name of a test: ctest takes it for two",
    "tools/docs/page.md:1: names sim/gone.cpp, which is not there",
    "tools/long_file.cpp:1: 451 lines, at most 450",
    "tools/long_function.cpp:1: f has 73 lines, at most 70",
    "tools/long_line.cpp:1: 121 columns, at most 120",
]


def tidy(program, root):
    return subprocess.run([sys.executable, program, "--root", root], capture_output=True, text=True, timeout=60)


def main():
    with tempfile.TemporaryDirectory() as root:
        for path, text in TREE.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True, timeout=60)
        result = tidy(sys.argv[1], root)
        if result.returncode == 77:
            print(result.stdout, end="")
            return 77
        # An exception of the real tree that this one does not need is an offence of its own.
        found = sorted(line for line in result.stdout.splitlines()
                       if not line.startswith("tools/tidy: ") and (line.startswith(("model/", "sim/", "tests/", "tools/"))))
        if found != sorted(OFFENCES) or result.returncode != 1:
            print(f"exit code {result.returncode}; found:", *found, "expected:", *sorted(OFFENCES), result.stderr, sep="\n")
            return 1
    print(f"all {len(OFFENCES)} offences are found, and nothing else")
    return 0


if __name__ == "__main__":
    sys.exit(main())
