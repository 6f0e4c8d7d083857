"""From what run.sh measured to the table on stdout and one JSON object a line: report.py WORK_FOLDER JSON_FILE"""
import glob
import json
import math
import os
import sys


def read_simulator(work):
    """Benchmark name -> its median, with seconds of wall clock and of CPU."""
    medians = {}
    for path in sorted(glob.glob(os.path.join(work, "sim.*.json"))):
        with open(path) as file:
            for row in json.load(file)["benchmarks"]:
                if row.get("aggregate_name") == "median":
                    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}[row["time_unit"]]
                    medians[row["run_name"]] = {**row, "wall_s": row["real_time"] * scale, "cpu_s": row["cpu_time"] * scale}
    return medians


def read_peer(work, name):
    """(answer, None), or (None, why there is none)."""
    why = os.path.join(work, name + ".why")
    if os.path.exists(why):
        with open(why) as file:
            return None, f"{name.split('.')[0]} {file.read().strip()}"
    with open(os.path.join(work, name + ".json")) as file:
        for line in file:
            if line.startswith("{"):
                return json.loads(line), None
    return None, "no answer"


def exponent(points):
    """Slope of log y over log x by least squares."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


class Report:
    def __init__(self):
        self.rows = []

    def add(self, name, value, unit):
        self.rows.append({"name": name, "value": value, "unit": unit})

    def show(self, json_path):
        width = max(len(row["name"]) for row in self.rows)
        for row in self.rows:
            value = "-" if row["value"] is None else f"{row['value']:.4g}" if row["value"] < 1e4 else f"{row['value']:,.0f}"
            print(f"{row['name']:<{width}}  {value:>12}  {row['unit']}")
        with open(json_path, "w") as file:
            for row in self.rows:
                file.write(json.dumps(row) + "\n")


def add_speeds(report, sim):
    for ranks in (8, 64):
        report.add(f"geometry_{ranks}_steps_per_s", 1 / sim[f"geometry/ranks:{ranks}"]["cpu_s"], "steps/s")
    for ranks in (8, 64):
        row = sim[f"provenance/ranks:{ranks}/tokens:128"]
        report.add(f"provenance_{ranks}x128_steps_per_s", 1 / row["cpu_s"], "steps/s")
    report.add("provenance_64x4096_s", sim["provenance/ranks:64/tokens:4096"]["cpu_s"], "s")


def add_numeric(report, sim, work):
    for ranks, tokens, hidden, peer in ((8, 128, 64, "mpi"), (32, 64, 64, "mpi"), (64, 64, 64, "smpi"),
                                        (8, 128, 7168, "mpi")):
        shape = f"{ranks}x{tokens}x{hidden}"
        own = sim[f"numeric/ranks:{ranks}/tokens:{tokens}/hidden:{hidden}"]
        report.add(f"numeric_{shape}_steps_per_s", 1 / own["wall_s"], "steps/s")
        answer, why = read_peer(work, f"{peer}.{shape}")
        if answer:
            report.add(f"{peer}_{shape}_steps_per_s", answer["steps_per_s"], "steps/s")
            report.add(f"numeric_{shape}_vs_{peer}", 1 / own["wall_s"] / answer["steps_per_s"], f"times {peer}")
        else:
            report.add(f"numeric_{shape}_vs_{peer}", None, f"skipped: {why}")
        copy = sim.get(f"copy/ranks:{ranks}/tokens:{tokens}/hidden:{hidden}")
        if copy:
            report.add(f"numeric_{shape}_vs_memcpy", copy["cpu_s"] / own["cpu_s"], "of memcpy's rate")


def add_growth(report, work):
    series = {}
    with open(os.path.join(work, "growth.jsonl")) as file:
        for line in file:
            point = json.loads(line)
            series.setdefault((point["series"], point["variable"]), []).append(point)
    print(f"{'growth':<12}{'against':<9}{'value':>7}{'pairs':>10}{'seconds':>11}{'peak MiB':>10}")
    per_pair = []
    for (name, variable), points in series.items():
        for point in points:
            print(f"{name:<12}{variable:<9}{point['value']:>7}{point['pairs']:>10}{point['seconds']:>11.3g}"
                  f"{point['peak_kib'] / 1024:>10.1f}")
        time = exponent([(point["value"], point["seconds"]) for point in points])
        memory = exponent([(point["value"], point["peak_kib"]) for point in points])
        print(f"{'':<12}time ~ {variable}^{time:.2f}, peak memory ~ {variable}^{memory:.2f}", end="")
        report.add(f"growth_exponent_{name}_{variable}", time, f"time ~ {variable}^value")
        report.add(f"growth_exponent_memory_{name}_{variable}", memory, f"peak memory ~ {variable}^value")
        if points[0]["pairs"] and variable != "hidden":
            pairs = exponent([(point["pairs"], point["seconds"]) for point in points])
            per_pair.append(pairs)
            report.add(f"growth_exponent_pairs_{name}_{variable}", pairs, "time ~ pairs^value")
            print(f", time ~ pairs^{pairs:.2f}", end="")
        print()
    report.add("growth_exponent_pairs", max(per_pair, key=lambda value: abs(value - 1)),
               "time ~ pairs^value, the series farthest from 1")


def main():
    work, json_path = sys.argv[1:3]
    report = Report()
    sim = read_simulator(work)
    add_speeds(report, sim)
    add_numeric(report, sim, work)
    add_growth(report, work)
    print()
    report.show(json_path)


if __name__ == "__main__":
    main()
