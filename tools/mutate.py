#!/usr/bin/env python3
"""Do the tests notice a fault that nobody picked? Faults drawn by seed from all expressions of the sources.

  tools/mutants.sh --sample 200 --seed 7              draws, builds and tests 200 of them
  tools/mutants.sh --sample 200 --seed 7 --area sim   only in sim/
  tools/mutants.sh --sample 200 --seed 7 --list       only says which

Each fault is one small change of one line: a comparison or its edge, an operator, a constant by one, min for max, and for
or, a condition or a statement dropped, a field of a version's row left out. It goes into a copy of the sources in
build/mutate; the targets that it touches are built, and all tests that need no browser and no GPU run until the first
that fails; faults of gpu/ meet the tests on pretended GPUs, where CUDA's headers are. What does not compile is no fault, and another one is drawn. A survivor is printed with its line. Faults that
change nothing stand in tools/mutate_equivalent.txt with the reason, and are not counted.
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
WORK = os.path.join(ROOT, "build", "mutate")
AREAS = ("model", "sim", "tools", "gpu")
LEFT_OUT = re.compile(r"^tools/(bench|examples|docs)/|\.(cu|cuh)$|^model/base/check_invariant")
ENDINGS = (".cpp", ".h", ".inc")
TEST_SECONDS = 900  # for each stage; a machine may be busy
STAGES = (  # targets to build, tests to run; what decides quickly comes first
    (["golden_check", "golden_data"], ["-R", "^golden"]),
    (["unit_tests", "conformance_tests", "a2asim", "a2asim-example-own-rule"],
     ["-L", "unit", "-E", "fake GPUs|NOT_BUILT|tools/tidy|tools/mutants"]),
    (["property_tests", "thread_tests"], ["-E", "^unit|^golden|NOT_BUILT", "-LE", "browser|package|docs|gpu"]),
)
GPU_STAGES = ((["fake_gpu_tests"], ["-R", "fake GPUs"]),)  # for gpu/ itself; gpu/group is tested without CUDA's headers

SWAPS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "), (" % ", " / "), (" && ", " || "),
         (" || ", " && "), (" & ", " | "), (" | ", " & "), (" << ", " >> "), (" >> ", " << "), (" += ", " -= "),
         (" -= ", " += "), (" |= ", " &= "), ("std::min", "std::max"), ("std::max", "std::min"),
         ("ranges::any_of", "ranges::all_of"), ("ranges::all_of", "ranges::any_of"), ("true", "false"),
         ("false", "true")]
STATEMENT = re.compile(r"^\s+(?!return|break|continue|using|case|default|throw|goto|static_assert|A2ASIM_INVARIANT)"
                       r"[A-Za-z_][\w.:\[\]>()-]*(\(.*\)| [-+|&]?= .*|\+\+|--);$")
DECLARATION = re.compile(r"^\s+(const |constexpr |static |auto |std::|bool |int |double |[A-Z]\w*(<.*>)?[&*]? \w+[ ;({=])")


def without_text(line):
    """Strings, characters and comments blanked, columns kept."""
    pattern = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|//.*'
    return re.sub(pattern, lambda m: " " * len(m[0]), line)


def swaps(code, line):
    for old, new in SWAPS:
        for match in re.finditer(re.escape(old), code):
            before, after = code[:match.start()], code[match.end():]
            if old.isalpha() and (re.search(r"\w$", before) or re.match(r"\w", after)):
                continue
            if old in (" < ", " > ", " & ", " * ", " << ") and re.search(r"\b(template|operator|include)\b", code):
                continue
            yield f"{old.strip()} becomes {new.strip()}", line[:match.start()] + new + line[match.end():]


def constants(code, line):
    for match in re.finditer(r"(?<![\w.'])\d+(?![\w.'])", code):
        if re.search(r"(#|\bcase\b|array<|static_assert)", code[:match.start()]):
            continue
        for step in (1, -1):
            value = int(match[0]) + step
            if value >= 0:
                yield f"{match[0]} becomes {value}", line[:match.start()] + str(value) + line[match.end():]


def conditions(code, line):
    match = re.match(r"^(\s*(?:\} else )?if \()(.*)\)( \{| .*;|)$", code)
    if match and ";" not in match[2] and match[2].count("(") == match[2].count(")"):
        start, end = match.end(1), match.end(2)
        for value in ("true", "false"):
            yield f"the condition is {value}", line[:start] + f"({line[start:end]}, {value})" + line[end:]
    for match in re.finditer(r"(?<![\w)\]!])!(?=[\w(])", code):
        yield "a negation is dropped", line[:match.start()] + line[match.end():]


def statements(code, line):
    if STATEMENT.match(code) and not DECLARATION.match(code):
        yield "the statement is dropped", re.match(r"^\s*", line)[0] + ";"
    if re.match(r"^\s+\.\w+ = [^{}]*,$", code):
        yield "the field is left out", re.match(r"^\s*", line)[0]


def faults_of(path):
    """(path, line number, what, new line) for each fault that the file can have."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        lines = file.read().split("\n")
    found = []
    for number, line in enumerate(lines, 1):
        code = without_text(line)
        if not code.strip() or code.lstrip().startswith(("#", "template", "static_assert", "namespace", "using")):
            continue
        if "A2ASIM_INVARIANT(" in code:  # a promise, not a decision
            continue
        for kind in (swaps, constants, conditions, statements):
            found += [(path, number, what, new) for what, new in kind(code, line) if new != line]
    return found


def draw(areas, seed):
    """All faults in an order that the seed decides; files in their own order, so that it is the same everywhere."""
    listed = subprocess.run(["git", "ls-files", *areas], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    files = sorted(path for path in listed.stdout.split("\n") if path.endswith(ENDINGS) and not LEFT_OUT.search(path))
    faults = [fault for path in files for fault in faults_of(path)]
    random.Random(seed).shuffle(faults)
    return faults


def known_equivalents():
    """(path, line's text, what) of tools/mutate_equivalent.txt: PATH | WHAT | TEXT OF THE LINE | REASON."""
    known = set()
    with open(os.path.join(ROOT, "tools", "mutate_equivalent.txt"), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.startswith("#") or not line.strip():
                continue
            parts = [part.strip() for part in line.split(" | ")]
            if len(parts) != 4 or not all(parts):
                sys.exit(f"tools/mutate_equivalent.txt:{number}: expected PATH | WHAT | LINE | REASON")
            known.add(tuple(parts[:3]))
    return known


class Bench:
    """The copy of the sources and its build."""

    def __init__(self, jobs):
        self.jobs, self.source, self.build = jobs, os.path.join(WORK, "source"), os.path.join(WORK, "build")

    def prepare(self):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True,
                                check=True, timeout=60)
        for path in listed.stdout.splitlines():
            self.restore(path)
        configure = ["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                     "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DA2ASIM_CUDA=AUTO", "-DA2ASIM_INSTALL=OFF", "-DA2ASIM_WERROR=OFF"]
        if shutil.which("ccache"):
            configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        subprocess.run(configure, stdout=subprocess.DEVNULL, check=True, timeout=600)
        self.has_gpu = "fake_gpu_tests" in subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"],
                                                          capture_output=True, text=True, timeout=60).stdout
        for stages in (STAGES, GPU_STAGES if self.has_gpu else ()):
            who = self.killer(stages)
            if who:
                sys.exit(f"tools/mutate.py: without a fault already: {who}")

    def restore(self, path):
        """Contents that did not change keep their times, so that the build stays warm."""
        origin, copy = os.path.join(ROOT, path), os.path.join(self.source, path)
        if not os.path.isfile(origin):
            return
        if os.path.isfile(copy) and open(origin, "rb").read() == open(copy, "rb").read():
            return
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy(origin, copy)

    def apply(self, fault):
        path, number, _, new = fault
        copy = os.path.join(self.source, path)
        with open(copy, encoding="utf-8") as file:
            lines = file.read().split("\n")
        lines[number - 1] = new
        with open(copy, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))

    def compiles(self, targets):
        done = subprocess.run(["ninja", "-C", self.build, "-j", str(self.jobs), *targets], capture_output=True, timeout=3600)
        return done.returncode == 0

    def stages_of(self, path):
        """Nothing: its tests cannot be built here."""
        if not path.startswith("gpu/") or path.startswith("gpu/group/"):
            return STAGES
        return GPU_STAGES if self.has_gpu else ()

    def killer(self, stages):
        """The test that notices; "compiler" where nothing builds; None where all pass."""
        for targets, chosen in stages:
            if not self.compiles(targets):
                return "compiler"
            command = ["ctest", "--test-dir", self.build, "-j", str(self.jobs), "--stop-on-failure", "--no-tests=error",
                       *chosen]
            try:
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TEST_SECONDS)
            except subprocess.TimeoutExpired:
                return "a test that does not end"
            if done.returncode != 0:
                failed = re.search(r"Test +#\d+: (.*?) \.*\*+", done.stdout)
                return failed[1].strip() if failed else "a test that could not run"
        return None


def text_of(fault):
    with open(os.path.join(ROOT, fault[0]), encoding="utf-8") as file:
        return file.read().split("\n")[fault[1] - 1].strip()


def run(faults, wanted, bench):
    equivalent = known_equivalents()
    killed, survivors, passed_over = 0, [], 0
    for fault in faults:
        if killed + len(survivors) == wanted:
            break
        path, number, what, _ = fault
        if (path, what, text_of(fault)) in equivalent:
            passed_over += 1
            continue
        stages = bench.stages_of(path)
        if not stages:
            continue
        begin = time.monotonic()
        bench.apply(fault)
        who = bench.killer(stages)
        bench.restore(path)
        if who == "compiler":
            continue
        killed += who is not None
        if who is None:
            survivors.append(fault)
        count = killed + len(survivors)
        print(f"{count:4} {time.monotonic() - begin:5.0f} s  {path}:{number}: {what}: {who or 'SURVIVED'}", flush=True)
    for path, number, what, _ in survivors:
        print(f"survived all tests: {path}:{number}: {what}: {text_of((path, number))}")
    count = killed + len(survivors)
    print(f"{killed} of {count} killed ({100 * killed / max(count, 1):.0f} %); {passed_over} equivalent, not counted")
    return 0 if count == wanted and killed >= 0.9 * count else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, required=True, metavar="N", help="how many faults")
    parser.add_argument("--seed", type=int, required=True, metavar="N", help="which ones")
    parser.add_argument("--area", action="append", choices=AREAS, help="only of this folder; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the faults, build nothing")
    options = parser.parse_args()
    faults = draw(options.area or AREAS, options.seed)
    if options.list:
        for path, number, what, new in faults[:options.sample]:
            print(f"{path}:{number}: {what}: {text_of((path, number))} -> {new.strip()}")
        print(f"{min(options.sample, len(faults))} of {len(faults)} faults")
        return 0
    bench = Bench(int(os.environ.get("A2ASIM_JOBS", os.cpu_count() or 1)))
    bench.prepare()
    return run(faults, options.sample, bench)


if __name__ == "__main__":
    sys.exit(main())
