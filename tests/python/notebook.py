"""Ten cells of a notebook, as its reader would type them; each asserts what the reader should see."""
import a2asim

# %% 1. The launch of the bug report
shape = {"num_experts": 256, "top_k": 8, "hidden_size": 7168}
report = a2asim.check(a2asim.DATA / "examples/collapse.sh", version="pr29461", **shape)
assert not report.agrees and report.verdict == "disagrees"

# %% 2. What is wrong, and what to do
finding = report.errors[0]
print(finding.message, finding.fix, sep="\n")
assert finding.id == "geometry_disagreement" and finding.fix
assert finding.witness["runtime_max_tokens_per_rank"] == [2, 1, 1, 1]

# %% 3. The report as a cell shows it
shown = report._repr_html_()
assert "geometry_disagreement" in shown and "<script" not in shown and shown.count("<div") == shown.count("</div>")

# %% 4. The fixed version
fixed = a2asim.check(a2asim.DATA / "examples/collapse.sh", version="pr30450", **shape).raise_for_errors()
assert fixed.agrees and fixed.capacity.max_num_tokens == report.capacity.max_num_tokens

# %% 5. A launch as a dictionary, changed bit by bit
launch = {"model_path": "M", "tp": 4, "dp": 4, "enable_dp_attention": True, "moe_a2a_backend": "flashinfer",
          "moe_runner_backend": "flashinfer_cutlass", "enable_dp_lm_head": True, "moe_dense_tp_size": 1}
verdicts = {size: a2asim.check({**launch, "moe_dense_tp_size": size}, version="pr29461", **shape).verdict
            for size in (None, 1)}
assert verdicts == {None: "agrees", 1: "disagrees"}, verdicts


# %% 6. A rule of one's own
@a2asim.rule
def own_rows(view):
    return max(view.rows, 1)


assert own_rows(a2asim.View(rows=3, dp_global=[3, 1])) == 3

# %% 7. Where it breaks
found = a2asim.explore(own_rows, version="pr30450", budget=50000)
assert not found.ok and "own_rows() in Python" in str(found)

# %% 8. What happens then, byte by byte
broken = a2asim.replay(found.errors[0].scenario, rule=own_rows)
assert broken.verdict == "disagrees" and any(one.step == 0 for one in broken.findings)

# %% 9. How much memory
plan = a2asim.plan("DeepSeek-V3", ep=[8, 16], tokens=[64, 128])
sizes = [point["capacity"]["workspace_bytes_per_rank"] for point in plan.parts]
assert len(sizes) == 4 and all(size > 0 for size in sizes)

# %% 10. The page for a colleague
page = broken.page()
assert page.startswith("<!DOCTYPE html") or page.startswith("<!doctype html")
print("ten cells ran")
