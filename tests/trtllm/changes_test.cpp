// What each change of TensorRT-LLM set, by its number; which GPUs share NVLink.
#include "tests/changes.h"

#include <algorithm>
#include <vector>

#include "model/engines/trtllm/deployment.h"
#include "tests/trtllm/trtllm_launch.h"

namespace a2asim::trtllm {
namespace {

using test::changed;
using test::Changes;
using test::Fields;
using test::lines;

std::string selector(Selector one) {
  return one == no_method            ? "none"
         : one == wideep             ? "wideep"
         : one == wideep_before_7514 ? "wideep_before_7514"
         : one == trtllmgen_2025_09  ? "trtllmgen_2025_09"
         : one == pr8728             ? "pr8728"
         : one == pr9388             ? "pr9388"
                                     : "?";
}

std::string list(std::span<const int> values) {
  std::string out;
  for (const int value : values) out += (out.empty() ? "" : " ") + std::to_string(value);
  return out;
}

std::string word(const std::vector<std::string>& words, auto value) {
  return words.at(static_cast<std::size_t>(value));
}

#define A2ASIM_FIELD(member) \
  { #member, test::written(v.member) }
Fields fields_of(const Generation& v) {
  return {{"trtllm", selector(v.trtllm_backend)},
          {"cutlass", selector(v.cutlass_backend)},
          {"wideep", selector(v.wideep_backend)},
          A2ASIM_FIELD(has_factory),
          A2ASIM_FIELD(factory_by_variable),
          A2ASIM_FIELD(mnnvl_on_arm_only),
          A2ASIM_FIELD(refuses_wideep),
          A2ASIM_FIELD(deepep_by_default),
          A2ASIM_FIELD(deepep_max_top_k),
          {"chunks.rows", word({"sum", "ep x most", "ranks x most"}, v.chunks.rows)},
          {"chunks.patch", word({"none", "own", "every"}, v.chunks.patch)},
          A2ASIM_FIELD(chunks.fills_zero_ranks),
          A2ASIM_FIELD(low_latency_asks_own_rows),
          A2ASIM_FIELD(wideep_nvlink_cuts),
          A2ASIM_FIELD(kernel.max_top_k),
          A2ASIM_FIELD(kernel.max_payloads),
          A2ASIM_FIELD(kernel.max_ranks),
          A2ASIM_FIELD(kernel.aligns_payloads),
          {"top_k", list(v.supported_top_k)},
          A2ASIM_FIELD(fixed_workspace),
          A2ASIM_FIELD(pads_hidden),
          A2ASIM_FIELD(skips_invalid_ids),
          A2ASIM_FIELD(checks_ranks_first),
          A2ASIM_FIELD(graphs.asks_others),
          {"buckets", word({"powers_floor", "powers_ceil", "steps_of_64"}, v.buckets)},
          A2ASIM_FIELD(filter_keeps_zero),
          A2ASIM_FIELD(context_dummy),
          A2ASIM_FIELD(has_mnnvl_under_ray)};
}
#undef A2ASIM_FIELD

// What a version is named after, and stands for besides.
struct Row {
  std::string_view name, date;
  std::vector<int> pull_requests;
  Changes set;
};
const std::vector<Row> kRows = {
    {"w0",
     "2025-05-30",
     {3439, 3504, 4792},
     {"cutlass=wideep_before_7514", "wideep=wideep_before_7514", "mnnvl_on_arm_only=yes", "deepep_by_default=no",
      "wideep_nvlink_cuts=no", "kernel.max_top_k=8", "kernel.max_payloads=8", "kernel.max_ranks=64",
      "kernel.aligns_payloads=no", "top_k=1 2 4 8"}},
    {"w1", "2025-07-08", {5684}, {"low_latency_asks_own_rows=yes"}},
    {"w2", "2025-07-18", {6173}, {"low_latency_asks_own_rows=no", "mnnvl_on_arm_only=no"}},
    {"w3",
     "2025-09-04",
     {7514, 6811, 7965, 8052},
     {"trtllm=trtllmgen_2025_09", "cutlass=none", "wideep=wideep", "wideep_nvlink_cuts=yes", "buckets=powers_ceil"}},
    {"t1",
     "2025-11-02",
     {8728, 8950},
     {"trtllm=pr8728", "cutlass=pr8728", "chunks.patch=own", "fixed_workspace=yes", "pads_hidden=yes"}},
    {"t2", "2025-11-24", {8968, 9329, 9388, 9486}, {"trtllm=pr9388", "cutlass=pr9388", "factory_by_variable=yes"}},
    {"t3", "2025-11-30", {9535, 9772}, {"fixed_workspace=no"}},
    {"t4",
     "2026-01-08",
     {10229, 10539},
     {"has_factory=yes", "factory_by_variable=no", "deepep_by_default=yes", "kernel.max_top_k=22",
      "kernel.max_payloads=4", "kernel.max_ranks=128", "kernel.aligns_payloads=yes", "top_k=1 2 4 6 8 10 16 22"}},
    {"t5", "2026-02-15", {11532}, {"deepep_by_default=no"}},
    {"pr12666", "2026-04-01", {12666}, {"pads_hidden=no"}},
    {"t6", "2026-04-10", {12929}, {"chunks.rows=ep x most"}},
    {"t7", "2026-05-14", {13998, 14126, 14986}, {"buckets=steps_of_64"}},
    {"t8", "2026-06-05", {15597}, {"deepep_by_default=yes", "filter_keeps_zero=no"}},
    {"t9",
     "2026-06-16",
     {15397, 16207},
     {"chunks.rows=ranks x most", "top_k=1 2 4 6 8 10 12 14 16 18 22", "skips_invalid_ids=yes"}},
    {"t10", "2026-07-22", {16745, 16864}, {"chunks.patch=every", "context_dummy=yes"}},
    {"t10b", "2026-07-30", {}, {"chunks.fills_zero_ranks=yes"}},
    {"t11", "2026-07-31", {17119, 17797, 17009}, {"refuses_wideep=yes"}},
    {"t12",
     "2026-08-19",
     {17978, 18300, 18308, 17984},
     {"deepep_max_top_k=16", "context_dummy=no", "has_mnnvl_under_ray=yes"}},
    {"t13", "2026-09-07", {18800}, {"kernel.max_ranks=256", "checks_ranks_first=yes"}},
    {"t14", "2026-09-18", {19425}, {}},
};

}  // namespace

TEST_CASE("trtllm: each change set what its number says") {
  const auto all = generations();
  REQUIRE(all.size() == kRows.size());
  Fields before = fields_of(Generation{});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Row& row = kRows[i];
    CAPTURE(row.name);
    CHECK(all[i].name == row.name);
    CHECK(all[i].date == row.date);
    CHECK(all[i].changes == row.pull_requests);
    CHECK(changed(before, fields_of(all[i])) == lines(row.set));
    before = fields_of(all[i]);
  }
}

// The hangs that no batch shows end with t7 and t12; the third is known everywhere.
TEST_CASE("trtllm: which ways to hang a version has") {
  for (const auto& [name, count] :
       std::map<std::string_view, std::size_t>{{"w0", 3}, {"t6", 3}, {"t7", 2}, {"t11", 2}, {"t12", 1}, {"t14", 1}}) {
    const auto all = generations();
    const auto v = std::ranges::find(all, name, &Generation::name);
    REQUIRE(v != all.end());
    CAPTURE(name);
    CHECK(hazards_of(*v).size() == count);
  }
}

// A rack of Grace Blackwell is one NVLink domain, an HGX board has eight GPUs, and a workstation's GPU is alone.
TEST_CASE("trtllm: how many GPUs share NVLink follows from the GPU's name, the variable, or the option") {
  const auto domain = [](const std::string& gpu, std::optional<std::int64_t> option = {}, const char* variable = "") {
    test::TrtllmLaunch launch{.command = "trtllm-serve M --tp_size 4 --ep_size 4", .nvlink_domain = option};
    launch.gpu_name = gpu;
    if (*variable != 0) launch.env_name = kDomainVariable, launch.env_value = variable;
    const auto deployment = test::deploy(launch);
    const TrtllmPart& part = trtllm_part(*deployment);
    return part.domain_is_known ? part.domain : 0;
  };
  const std::map<std::string, std::int64_t> gpus = {{"NVIDIA GB200", 72}, {"GB300", 72},       {"DGX GB200 NVL72", 72},
                                                    {"GB200 NVL36", 72},  {"NVL36", 36},       {"NVL576", 576},
                                                    {"GH200 480GB", 32},  {"H100 80GB", 8},    {"H200", 8},
                                                    {"H20", 8},           {"B200", 8},         {"B300 SXM6", 8},
                                                    {"A100-SXM4", 8},     {"RTX 6000 Ada", 1}, {"L40S", 1},
                                                    {"SM120", 1},         {"MI300X", 0},       {"", 0}};
  for (const auto& [gpu, expected] : gpus) {
    CAPTURE(gpu);
    CHECK(domain(gpu) == expected);
  }
  CHECK(domain("H100", 4) == 4);
  CHECK(domain("H100", {}, "16") == 16);
  CHECK(domain("H100", 2, "16") == 2);
  CHECK(domain("H100", {}, "0") == 8);
}

}  // namespace a2asim::trtllm
