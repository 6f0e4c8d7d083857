#!/usr/bin/env python3
"""Does tools/mutate.py draw what it should? mutate_check.py MUTATE: the faults of a small file, and the same order for a seed."""
import importlib.util
import os
import sys
import tempfile

SOURCE = """#include <vector>
// a < b in a comment
template <class T>
int f(const std::vector<int>& list, bool flag) {
  A2ASIM_INVARIANT(list.size() > 0, "a < b");
  int sum = 0;
  if (!flag && list[0] >= 2) sum = std::min(sum, 7);
  note("a + b");
  return sum - 1;
}
constexpr Row kRow = {
    .has_list = true,
};
"""
EXPECTED = {
    (6, "0 becomes 1"), (7, "&& becomes ||"), (7, ">= becomes >"), (7, "0 becomes 1"), (7, "2 becomes 3"),
    (7, "2 becomes 1"), (7, "7 becomes 8"), (7, "7 becomes 6"), (7, "std::min becomes std::max"),
    (7, "the condition is true"), (7, "the condition is false"), (7, "a negation is dropped"),
    (8, "the statement is dropped"), (9, "- becomes +"), (9, "1 becomes 2"), (9, "1 becomes 0"),
    (12, "true becomes false"), (12, "the field is left out"),
}


def main():
    spec = importlib.util.spec_from_file_location("mutate", sys.argv[1])
    mutate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutate)
    with tempfile.TemporaryDirectory() as mutate.ROOT:
        with open(os.path.join(mutate.ROOT, "f.cpp"), "w", encoding="utf-8") as file:
            file.write(SOURCE)
        found = {(number, what) for _, number, what, _ in mutate.faults_of("f.cpp")}
    if found != EXPECTED:
        print("not expected:", sorted(found - EXPECTED), "missing:", sorted(EXPECTED - found), sep="\n")
        return 1
    mutate.ROOT = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "..")
    if mutate.draw(["model/base"], 7) != mutate.draw(["model/base"], 7) or \
            mutate.draw(["model/base"], 7) == mutate.draw(["model/base"], 8):
        print("a seed decides the order of the faults, and nothing else does")
        return 1
    mutate.known_equivalents()
    print(f"all {len(EXPECTED)} faults are drawn, and nothing else")
    return 0


if __name__ == "__main__":
    sys.exit(main())
