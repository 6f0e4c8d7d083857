#!/usr/bin/env python3
"""Does tools/mutate.py draw what it should, and is each fault what it says? mutate_check.py MUTATE

The faults of a small program are compared with a list, by hand, of what it prints with each.
"""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = """#include <algorithm>
#include <optional>
#include <vector>
// a < b in a comment
#define A2ASIM_INVARIANT(condition, why) static_cast<void>(condition)
struct Row {
  int number;
  bool has_list;
};
constexpr Row kRow = {.number = 4, .has_list = true};
constexpr int kSize = 6;
template <class T, int kN = 2>
int f(const std::vector<T>& list, std::optional<int> most) {
  A2ASIM_INVARIANT(list.size() > 0, "a < b");
  int sum{};
  if (!most && list[0] >= 7) sum = std::min(list[1],
                                            8);
  sum += static_cast<int>(list.size());
  return sum - 9 % kSize;
}
constexpr bool any(const std::vector<int>& list) {
  return std::ranges::any_of(list, [](int x) { return x == 5 || x * x > 48; });
}
int unreached(int a) {
  switch (a) {
    case 1:
      return a + a;
  }
  return a;
}
const char kBuffer[kSize] = {};
"""
MAIN = """#include "f.cpp"
#include <cstdio>
int main() {
  std::printf("%d %d %d ", f<int>({7, 5, 6}, {}), f<int>({7, 5, 6}, 3), f<int>({6, 5, 6}, {}));
  std::printf("%d %zu %d%d%d\\n", kRow.number + kRow.has_list, sizeof kBuffer, any({7, 5}), any({6, 4}), any({7}));
}
"""
WITHOUT = "5 0 0 5 6 101"
EXPECTED = {  # (line, fault): what the program prints then
    (10, "4 becomes 5"): "5 0 0 6 6 101", (10, "4 becomes 3"): "5 0 0 4 6 101",
    (10, "true becomes false"): "5 0 0 4 6 101",
    (10, "the field is empty"): "5 0 0 1 6 101", (10, "the field is empty (2)"): "5 0 0 4 6 101",
    (11, "6 becomes 7"): "6 1 1 5 7 101", (11, "6 becomes 5"): "4 -1 -1 5 5 101",
    (16, "a negation is dropped"): "0 5 0 5 6 101", (16, "&& becomes ||"): "5 5 5 5 6 101",
    (16, "0 becomes 1"): "0 0 0 5 6 101", (16, ">= becomes >"): "0 0 0 5 6 101",
    (16, "7 becomes 8"): "0 0 0 5 6 101", (16, "7 becomes 6"): "5 0 5 5 6 101",
    (16, "the condition is true"): "5 5 5 5 6 101", (16, "the condition is false"): "0 0 0 5 6 101",
    (16, "std::min becomes std::max"): "8 0 0 5 6 101", (16, "the statement is dropped"): "0 0 0 5 6 101",
    (16, "1 becomes 2"): "6 0 0 5 6 101", (16, "1 becomes 0"): "7 0 0 5 6 101",
    (17, "8 becomes 9"): WITHOUT, (17, "8 becomes 7"): WITHOUT,
    (18, "+= becomes -="): "-1 -6 -6 5 6 101", (18, "the statement is dropped"): "2 -3 -3 5 6 101",
    (19, "- becomes +"): "11 6 6 5 6 101", (19, "% becomes /"): "7 2 2 5 6 101",
    (19, "9 becomes 10"): "4 -1 -1 5 6 101", (19, "9 becomes 8"): "6 1 1 5 6 101",
    (22, "ranges::any_of becomes ranges::all_of"): "5 0 0 5 6 101", (22, "== becomes !="): "5 0 0 5 6 111",
    (22, "5 becomes 6"): "5 0 0 5 6 111", (22, "5 becomes 4"): "5 0 0 5 6 111",
    (22, "|| becomes &&"): "5 0 0 5 6 000", (22, "* becomes +"): "5 0 0 5 6 100",
    (22, "> becomes >="): WITHOUT, (22, "48 becomes 49"): "5 0 0 5 6 100", (22, "48 becomes 47"): WITHOUT,
    (27, "+ becomes -"): WITHOUT,
}
CONSTANT = 11  # this line's faults are in a constant, and get a build of their own
UNREACHED = 27


def differing(mutate, folder):
    """What is drawn, switched or recorded otherwise than it should."""
    with open(os.path.join(folder, "f.cpp"), "w", encoding="utf-8") as file:
        file.write(SOURCE)
    with open(os.path.join(folder, "main.cpp"), "w", encoding="utf-8") as file:
        file.write(MAIN)
    source = mutate.source_of("f.cpp")
    faults = source.faults()
    found = {(fault.line, fault.what) for fault in faults}
    if found != set(EXPECTED):
        return [f"not expected: {sorted(found - set(EXPECTED))}", f"missing: {sorted(set(EXPECTED) - found)}"]
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    if not compiler:
        print("SKIPPED: no C++ compiler; the list of faults is right")
        sys.exit(77)

    def built(name, shown, alone=None):
        with open(os.path.join(folder, "f.cpp"), "w", encoding="utf-8") as file:
            file.write(source.render(shown, alone))
        header = os.path.join(os.path.dirname(os.path.abspath(mutate.__file__)), "mutate.h")
        command = [compiler, "-std=c++20", "-w", "-include", header, "main.cpp", "-o", name]
        subprocess.run(command, cwd=folder, check=True)
        return os.path.join(folder, name)

    def said(program, number):
        reached = os.path.join(folder, "reached")
        with open(reached, "wb") as file:
            file.write(bytes(mutate.MOST_FAULTS))
        environment = {"A2ASIM_MUTANT": str(number), "A2ASIM_REACHED": reached}
        out = subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout.strip()
        with open(reached, "rb") as file:
            return out, [at for at, byte in enumerate(file.read()) if byte]

    wrong, left = [], [fault for fault in faults if fault.line != CONSTANT]
    for number, fault in enumerate(faults, 1):
        fault.number, fault.switch = number, fault.switch if fault in left else ""
    for fault in faults:
        if fault.line == CONSTANT and said(built("alone", [fault], fault), 0)[0] != EXPECTED[fault.line, fault.what]:
            wrong.append(f"{fault.line}: {fault.what}, in a build of its own")
    while left:  # faults of one build do not overlap
        shown = mutate.apart(left)
        left = [fault for fault in left if fault not in shown]
        program = built("switched", shown)
        for fault in [None, *shown]:
            out, reached = said(program, fault.number if fault else 0)
            expected = EXPECTED[fault.line, fault.what] if fault else WITHOUT
            is_reached = fault is not None and fault.number in reached
            if out != expected or is_reached and fault.line == UNREACHED or expected != WITHOUT and not is_reached:
                wrong.append(f"{fault and (fault.line, fault.what)}: prints {out}, not {expected}; reached: {reached}")
    return wrong


def main():
    spec = importlib.util.spec_from_file_location("mutate", sys.argv[1])
    mutate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutate)
    root = mutate.ROOT
    with tempfile.TemporaryDirectory() as mutate.ROOT:
        wrong = differing(mutate, mutate.ROOT)
    if wrong:
        print(*wrong, sep="\n")
        return 1
    mutate.ROOT = root

    def order(seed):
        return [(fault.path, fault.start, fault.what) for fault in mutate.draw(["model/base"], seed)]
    if order(7) != order(7) or order(7) == order(8):
        print("a seed decides the order of the faults, and nothing else does")
        return 1
    known = mutate.known_equivalents()
    drawn = {(fault.path, fault.what, fault.said) for path in {one[0] for one in known}
             for fault in mutate.source_of(path).faults()}
    if known - drawn:
        print("tools/mutate_equivalent.txt names faults that are not drawn:", *sorted(known - drawn), sep="\n")
        return 1
    print(f"all {len(EXPECTED)} faults are drawn and do what they say, and nothing else is")
    return 0


if __name__ == "__main__":
    sys.exit(main())
