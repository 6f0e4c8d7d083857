#!/usr/bin/env python3
"""Do the tests notice a fault that nobody picked? Faults drawn by seed from all expressions of the sources.

  tools/mutants.sh --sample 200 --seed 7              draws, builds and tests 200 of them
  tools/mutants.sh --sample 200 --seed 7 --area sim   only in sim/
  tools/mutants.sh --sample 200 --seed 7 --list       only says which

All go into one build of a copy of the sources in build/mutate, each behind a switch (mutate_faults.py, mutate.h);
one in what must be constant gets its own. A run of all tests without a fault tells which tests reach which; those
run with it, the shortest first, until one fails, or takes several times its usual time. Not run are tests that need a
browser or a GPU, or read the sources' text; gpu/ meets pretended GPUs, where CUDA's headers are. An index out of bounds
ends the program, as under the sanitizers. What does not compile is no fault, and another takes its place. What changes
nothing stands in tools/mutate_equivalent.txt with the reason, and does not count.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutate_faults  # noqa: E402

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
WORK = os.path.join(ROOT, "build", "mutate")
SOURCE, BUILD = os.path.join(WORK, "source"), os.path.join(WORK, "build")
AREAS = ("model", "sim", "tools", "gpu")
NOT_DRAWN = r"tools/(bench|examples|docs|backends/nccl|backends/flashinfer|mutate)|model/base/check_invariant"
DRAWN = re.compile(rf"(?!{NOT_DRAWN}).*\.(cpp|h|inc)$")
TARGETS = """unit_tests conformance_tests backend_tests property_tests thread_tests fake_gpu_tests golden_check
             golden_data a2asim a2asim_python a2asim-example-own-rule a2asim-example-own-dispatcher""".split()
DIGESTS = re.compile("digest of every shipped scenario")  # run last: what they alone notice lacks a test with a reason
NOT_RUN = re.compile(r"tools/tidy|the tree is in its shape|tools/mut|NOT_BUILT|python install")
LABELS_NOT_RUN = {"browser", "package", "docs", "gpu", "slow"}
INCLUDED = f"-include {SOURCE}/tools/mutate.h"
FLAGS = f"-O1 -w -Wno-narrowing -D_GLIBCXX_ASSERTIONS {INCLUDED}"
OPTIONS = ["CMAKE_BUILD_TYPE=Release", f"CMAKE_CXX_FLAGS_RELEASE={FLAGS}", f"CMAKE_CUDA_FLAGS={INCLUDED}",
           "CMAKE_CUDA_ARCHITECTURES=90", "A2ASIM_CUDA=AUTO", "A2ASIM_PYTHON_MODULE=AUTO", "A2ASIM_INSTALL=OFF",
           "A2ASIM_WERROR=OFF", "A2ASIM_UNITY=ON"]
OF_CONSTANTS = re.compile(r"constexpr|constant|\?:|different types")  # a build without the switch may do
MOST_FAULTS, MOST_BYTES = 4096, 8 << 30
JOBS = int(os.environ.get("A2ASIM_JOBS", os.cpu_count() or 1))


def said_by(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", timeout=36000).stdout


def source_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return mutate_faults.Source(path, file.read())


def draw(areas, seed):
    """All faults in an order that the seed decides; files in their own order, so that it is the same everywhere."""
    files = sorted(filter(DRAWN.match, said_by("git", "ls-files", *areas).split("\n")))
    faults = [fault for path in files for fault in source_of(path).faults()]
    random.Random(seed).shuffle(faults)
    return faults


def known_equivalents():
    """(path, what, line's text) of tools/mutate_equivalent.txt."""
    with open(os.path.join(ROOT, "tools", "mutate_equivalent.txt"), encoding="utf-8") as file:
        lines = [line.strip() for line in file if line[0] not in "#\n"]
    rows = [re.fullmatch(r"(\S+) \| (.+?) \| (.+) \| ([^|]+)", line) for line in lines]
    if None in rows:
        sys.exit("tools/mutate_equivalent.txt: each row is PATH | WHAT | TEXT OF THE LINE | REASON")
    return {row.groups()[:3] for row in rows}


def apart(faults, most=None):
    """The first ones that do not overlap."""
    chosen, taken = [], {}
    for fault in faults:
        spans = taken.setdefault(fault.path, [])
        if len(chosen) != most and not any(start < fault.end and fault.start < end for start, end in spans):
            spans.append((fault.start, fault.end))
            chosen.append(fault)
    return chosen


class Bench:
    """The copy of the sources with all faults, and its build."""

    def __init__(self, faults):
        self.faults, self.files = faults, {fault.path: source_of(fault.path) for fault in faults}
        for path in said_by("git", "ls-files", "-co", "--exclude-standard").splitlines():
            if path not in self.files and os.path.isfile(os.path.join(ROOT, path)):
                with open(os.path.join(ROOT, path), "rb") as file:
                    self.write(path, file.read())
                shutil.copymode(os.path.join(ROOT, path), os.path.join(SOURCE, path))
        self.put(self.files)
        subprocess.run(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", *[f"-D{option}" for option in OPTIONS]],
                       stdout=subprocess.DEVNULL, check=True)
        known = "\n" + said_by("ninja", "-C", BUILD, "-t", "targets", "all")
        self.targets = [target for target in TARGETS if f"\n{target}: phony" in known]

    def write(self, path, content):
        """Contents that did not change keep their times, so that the build stays warm."""
        copy = os.path.join(SOURCE, path)
        if os.path.isfile(copy):
            with open(copy, "rb") as file:
                if file.read() == content:
                    return
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "wb") as file:
            file.write(content)

    def put(self, paths, alone=None):
        for path in paths:
            here = [fault for fault in self.faults if fault.path == path and not fault.is_refused]
            self.write(path, self.files[path].render(here, alone).encode())

    def errors(self):
        log = said_by("ninja", "-C", BUILD, "-k", "0", "-j", str(JOBS), *self.targets)
        return log if "\nninja: build stopped" in log else ""

    def build(self):
        """Until all compiles: a fault that the compiler complains about gets a build of its own, or is none."""
        while log := self.errors():
            blamed = {}
            for block in re.split(r"\n(?=[^\n]*: (?:fatal )?error: )", log)[1:]:
                line = block.split("\n")[0]
                for fault in self.named_in(line) or self.named_in(block):
                    blamed[fault.number] = fault
                    fault.is_refused = fault.is_refused or not OF_CONSTANTS.search(line)
            if not blamed:
                sys.exit("tools/mutate.py: the copy does not build, and no fault is to blame:\n" + log[-8000:])
            for fault in blamed.values():
                fault.switch = ""
            self.put({fault.path for fault in blamed.values()})

    def named_in(self, words):
        """Those whose constant, or whose new text, which stands in the first line or the last, the compiler names."""
        places = {(path, int(line)) for path, line in re.findall(r"/source/([^:(\s]+)[:(](\d+)", words)}
        return [fault for fault in self.faults if fault.switch and (
            fault.constant and re.search(rf"\b{fault.constant}\b", words) or
            {(fault.path, self.files[fault.path].line(at)) for at in (fault.start, fault.end)} & places)]


class Test:
    """One of ctest's, run as ctest runs it."""

    def __init__(self, entry):
        of = {one["name"]: one["value"] for one in entry["properties"]}
        self.name, self.command, self.folder = entry["name"], entry["command"], of["WORKING_DIRECTORY"]
        self.is_run = not set(of.get("LABELS", ())) & LABELS_NOT_RUN and not NOT_RUN.search(self.name)
        self.environment = dict(one.split("=", 1) for one in of.get("ENVIRONMENT", ()))
        self.skipped, self.passes, self.fails = (
            of.get(name, []) for name in ("SKIP_RETURN_CODE", "PASS_REGULAR_EXPRESSION", "FAIL_REGULAR_EXPRESSION"))
        self.seconds, self.reached, self.alone = 600.0, b"", threading.Lock()

    def why_failed(self, number=0, reached=""):
        """Nothing: it passed, or said that it cannot run here. The patience is that of a busy machine."""
        limits = [f"--cpu={int(20 + 5 * self.seconds)}", f"--data={MOST_BYTES}", f"--fsize={MOST_BYTES}", "--core=0"]
        environment = {**os.environ, **self.environment, "A2ASIM_MUTANT": str(number), "A2ASIM_REACHED": reached}
        with self.alone, tempfile.TemporaryFile() as said:
            begin = time.monotonic()
            process = subprocess.Popen(["prlimit", *limits, *self.command], cwd=self.folder, stdin=subprocess.DEVNULL,
                                       stdout=said, stderr=said, env=environment, start_new_session=True)
            try:
                code = process.wait(120 + 10 * self.seconds)
            except subprocess.TimeoutExpired:
                code = -signal.SIGXCPU
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it left behind, too
            process.wait()
            self.took = time.monotonic() - begin
            said.seek(0)
            text = said.read(1 << 24).decode(errors="replace")
        if code in (-signal.SIGXCPU, self.skipped):
            return "timeout" if code != self.skipped else ""
        good = any(re.search(one, text) for one in self.passes) if self.passes else code == 0
        return "" if good and not any(re.search(one, text) for one in self.fails) else f"exit code {code}"

    def measure(self):
        """A run without a fault: its seconds, and which faults it reaches."""
        with tempfile.NamedTemporaryFile(dir=WORK) as file:
            file.write(bytes(MOST_FAULTS))
            file.flush()
            why = self.why_failed(0, file.name)
            self.seconds, self.reached, self.fails_anyhow = self.took, open(file.name, "rb").read(), bool(why)
        return why and f"{self.name}: {why}"


def killer(tests, number=0):
    """The first test that notices; they come in order of their seconds."""
    return next((f"{test.name} ({why})" for test in tests if (why := test.why_failed(number))), "")


def run(faults, wanted):
    known, begin = known_equivalents(), time.monotonic()
    drawn = apart(faults[:3 * wanted], min(3 * wanted // 2 + 10, MOST_FAULTS - 1))
    equivalent = [fault for fault in drawn if (fault.path, fault.what, fault.said) in known]
    drawn = [fault for fault in drawn if fault not in equivalent]
    for number, fault in enumerate(drawn, 1):
        fault.number = number
    bench = Bench(drawn)
    bench.build()
    compiled = set(re.findall(r"/source/(\S+)", said_by("ninja", "-C", BUILD, "-t", "deps")))
    listed = json.loads(said_by("ctest", "--test-dir", BUILD, "--show-only=json-v1"))["tests"]
    tests = [test for test in map(Test, filter(lambda entry: "command" in entry, listed)) if test.is_run]
    print(f"{time.monotonic() - begin:.0f} s until all is built", flush=True)
    decided, waiting = [], [fault for fault in drawn if not fault.is_refused and fault.path in compiled]

    def reaching(fault):
        """What is set before main() every program reaches: then only tests that reach another place of its folder."""
        own = [test for test in tests if test.reached[fault.number]]
        near = [other.number for other in drawn if os.path.dirname(other.path) == os.path.dirname(fault.path) and
                2 * sum(test.reached[other.number] for test in tests) < len(tests)]
        is_early = len(own) > 0.9 * len(tests) and near
        return [test for test in own if any(test.reached[number] for number in near)] if is_early else own

    def killer_alone(fault):
        bench.put([fault.path], alone=fault)
        who = None if bench.errors() else next(filter(None, pool.map(lambda test: killer([test]), tests)), "")
        bench.put([fault.path])
        return who

    def decide(fault, who):
        if who is not None:  # else it does not compile
            decided.append((fault, who))
            print(f"{len(decided):4} {time.monotonic() - begin:6.0f} s  {fault.path}:{fault.line}: {fault.what}: "
                  f"{'killed by ' + who if who else 'SURVIVED'}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        failed = list(filter(None, pool.map(Test.measure, tests)))
        tests = sorted((test for test in tests if not test.fails_anyhow),
                       key=lambda test: (bool(DIGESTS.search(test.name)), test.seconds))
        print(f"{time.monotonic() - begin:.0f} s until {len(tests)} tests passed without a fault", flush=True)
        print(*(f"left out, it fails without a fault: {one}" for one in failed), sep="\n", flush=True)
        while waiting and len(decided) < wanted:
            chosen, waiting = waiting[:wanted - len(decided)], waiting[wanted - len(decided):]
            alone = []
            killers = pool.map(lambda fault: killer(reaching(fault), fault.number), chosen)
            for fault, who in zip(chosen, killers):
                alone.append(fault) if not who and not fault.switch else decide(fault, who)
            for fault in alone:  # what may stand in a constant
                decide(fault, killer_alone(fault))
    survivors = [fault for fault, who in decided if not who]
    for fault in survivors:
        names = [test.name for test in reaching(fault)]
        print(f"survived: {fault.path}:{fault.line}: {fault.what}: {fault.said}\n"
              f"    {len(names) or 'no'} tests reach it: {', '.join(names[:5])}")
    killed = len(decided) - len(survivors)
    for fault in [fault for fault, who in decided if DIGESTS.search(who)]:
        print(f"only a digest notices: {fault.path}:{fault.line}: {fault.what}: {fault.said}")
    print(f"{killed} of {len(decided)} killed ({100 * killed / max(len(decided), 1):.1f} %); not counted: "
          f"{len(equivalent)} equivalent, {sum(fault.is_refused for fault in drawn)} that do not compile")
    return 0 if not failed and len(decided) == wanted and killed >= 0.9 * wanted else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, required=True, metavar="N", help="how many faults")
    parser.add_argument("--seed", type=int, required=True, metavar="N", help="which ones")
    parser.add_argument("--area", action="append", choices=AREAS, help="only of this folder; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the faults, build nothing")
    options = parser.parse_args()
    faults = draw(options.area or AREAS, options.seed)
    if not options.list:
        return run(faults, options.sample)
    for fault in faults[:options.sample]:
        print(f"{fault.path}:{fault.line}: {fault.what}: {fault.said} -> {fault.new}")
    print(f"{min(options.sample, len(faults))} of {len(faults)} faults")
    return 0


if __name__ == "__main__":
    sys.exit(main())
