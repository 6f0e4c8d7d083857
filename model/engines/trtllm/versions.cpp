// Every state of TensorRT-LLM that is known, oldest first: the one before it, plus what changed.
#include "model/engines/trtllm/versions.h"

#include <functional>

namespace a2asim::trtllm {
namespace {

using Rows = ChunkRules::Rows;
using Patch = ChunkRules::Patch;

constexpr int kTopKUpTo8[] = {1, 2, 4, 8};
constexpr int kTopKUpTo22[] = {1, 2, 4, 6, 8, 10, 16, 22};
constexpr int kNewestTopK[] = {1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 22};

constexpr std::string_view kByDate =
    "placed by its date: what the tag holds was not read; name a change or a date "
    "where it matters";

class Rack {
 public:
  void add(Version own, std::vector<int> changes, const std::function<void(Generation&)>& change) {
    Generation next = rows_.empty() ? Generation{} : rows_.back();
    static_cast<Version&>(next) = std::move(own);
    next.changes = std::move(changes);
    change(next);
    rows_.push_back(std::move(next));
  }
  std::vector<Generation> take() && { return std::move(rows_); }

 private:
  std::vector<Generation> rows_;
};

void add_2025(Rack& rack) {
  rack.add({"w0",
            4792,
            "2025-05-30",
            "",
            "WIDEEP: DeepEP beside the two-sided NVLink lane; sizes are gathered",
            {{"0.20.0", kByDate}, {"0.21.0rc0", kByDate}, {"0.21.0rc1", kByDate}}},
           {3439, 3504, 4792}, [](Generation& v) {
             v.mnnvl_on_arm_only = true;
             v.cutlass_backend = v.wideep_backend = wideep_before_7514;  // WIDEEP was split off CUTLASS
             v.deepep_by_default = false;
             v.wideep_nvlink_cuts = false;
             v.kernel = {.max_top_k = 8, .max_payloads = 8, .max_ranks = 64, .aligns_payloads = false};
             v.supported_top_k = kTopKUpTo8;
           });
  rack.add({"w1",
            5684,
            "2025-07-08",
            "",
            "TRTLLM_DEEP_EP_TOKEN_LIMIT; each rank compares its own rows with it",
            {{"0.21.0", kByDate}}},
           {5684}, [](Generation& v) { v.low_latency_asks_own_rows = true; });
  rack.add({"w2",
            6173,
            "2025-07-18",
            "",
            "the low-latency limit is compared with the largest count of all ranks",
            {{"1.0.0", kByDate}}},
           {6173}, [](Generation& v) {
             v.low_latency_asks_own_rows = false;
             v.mnnvl_on_arm_only = false;
           });
  rack.add({"w3",
            7514,
            "2025-09-04",
            "",
            "DeepEP under CUDA graphs; the TRTLLM backend sends two-sided",
            {{"1.1.0rc2", kByDate}, {"1.1.0", kByDate}}},
           {7514, 6811, 7965, 8052}, [](Generation& v) {
             v.trtllm_backend = trtllmgen_2025_09;
             v.cutlass_backend = no_method;
             v.wideep_backend = wideep;
             v.wideep_nvlink_cuts = true;
             v.buckets = BucketRule::powers_ceil;
           });
  rack.add({"t1",
            8728,
            "2025-11-02",
            "",
            "the one-sided lane; ep <= top_k sends, too; a workspace of 2048 MiB",
            {{"1.2.0rc2", kByDate}, {"1.2.0rc3", kByDate}}},
           {8728, 8950}, [](Generation& v) {
             v.trtllm_backend = v.cutlass_backend = pr8728;
             v.chunks.patch = Patch::own_entry;
             v.fixed_workspace = v.pads_hidden = true;
           });
  rack.add({"t2", 9388, "2025-11-24", "", "lanes are classes; the names NVLinkOneSided and NVLinkTwoSided"},
           {8968, 9329, 9388, 9486}, [](Generation& v) {
             v.trtllm_backend = v.cutlass_backend = pr9388;
             v.factory_by_variable = true;
           });
  rack.add({"t3",
            9535,
            "2025-11-30",
            "",
            "the workspace is sized by max_num_tokens; its variable overrides that",
            {{"1.2.0rc4", kByDate}}},
           {9535, 9772}, [](Generation& v) { v.fixed_workspace = false; });
}

void add_early_2026(Rack& rack) {
  rack.add({"t4",
            10539,
            "2026-01-08",
            "",
            "each payload begins at a multiple of 128 bytes; kMaxTopK 22; every backend "
            "asks the communication factory",
            {{"1.2.0rc6", kByDate}, {"1.2.0", kByDate}}},
           {10229, 10539}, [](Generation& v) {
             v.has_factory = true;
             v.factory_by_variable = false;
             v.deepep_by_default = true;
             v.kernel = {.max_top_k = 22, .max_payloads = 4, .max_ranks = 128, .aligns_payloads = true};
             v.supported_top_k = kTopKUpTo22;
           });
  rack.add({"t5", 11532, "2026-02-15", "", "DeepEP only with TRTLLM_CAN_USE_DEEP_EP=1", {}}, {11532},
           [](Generation& v) { v.deepep_by_default = false; });
  rack.add({"pr12666", 12666, "2026-04-01", "", "GPT-OSS pads its hidden states behind the all-to-all", {}}, {12666},
           [](Generation& v) { v.pads_hidden = false; });
  rack.add({"t6", 12929, "2026-04-10", "", "chunks are counted from ep x the largest count", {{"1.3.0rc14", kByDate}}},
           {12929}, [](Generation& v) { v.chunks.rows = Rows::ep_times_most; });
  rack.add({"t7", 14126, "2026-05-14", "", "a warm-up batch that only some ranks have is an error, not a hang"},
           {13998, 14126, 14986}, [](Generation& v) { v.buckets = BucketRule::steps_of_64; });
  rack.add({"t8", 15597, "2026-06-05", "", "NcclEP; DeepEP is on by default again"}, {15597}, [](Generation& v) {
    v.deepep_by_default = true;
    v.filter_keeps_zero = false;
  });
  rack.add({"t9",
            15397,
            "2026-06-16",
            "",
            "chunks are counted from the ranks x the largest count",
            {{"1.3.0rc21", kByDate}}},
           {15397, 16207}, [](Generation& v) {
             v.chunks.rows = Rows::ranks_times_most;
             v.supported_top_k = kNewestTopK;
             v.skips_invalid_ids = true;
           });
}

void add_late_2026(Rack& rack) {
  rack.add({"t10", 16745, "2026-07-22", "", "of an empty chunk every rank sets every entry", {{"1.3.0rc22", kByDate}}},
           {16745, 16864}, [](Generation& v) {
             v.chunks.patch = Patch::every_entry;
             v.context_dummy = true;  // when it came is not known
           });
  rack.add({"t10b",
            0,
            "2026-07-30",
            "",
            "a rank without tokens: all ranks pad to the largest count",
            {{"1.3.0rc23", kByDate}}},
           {}, [](Generation& v) { v.chunks.fills_zero_ranks = true; });
  rack.add({"t11", 17119, "2026-07-31", "", "the backend WIDEEP is refused", {{"1.3.0rc24", kByDate}}},
           {17119, 17797, 17009}, [](Generation& v) { v.refuses_wideep = true; });
  rack.add({"t12", 17978, "2026-08-19", "",
            "a refused padding request: all ranks skip the step; MNNVL under Ray; low "
            "latency asks top_k"},
           {17978, 18300, 18308, 17984}, [](Generation& v) {
             v.deepep_max_top_k = 16;
             v.context_dummy = false;
             v.has_mnnvl_under_ray = true;
           });
  rack.add({"t13", 18800, "2026-09-07", "", "kMaxRanks 256, compared before anything is allocated"}, {18800},
           [](Generation& v) {
             v.kernel.max_ranks = 256;
             v.checks_ranks_first = true;
           });
  rack.add({"t14", 19425, "2026-09-18", "", "counted writes on request, with a second combine region"}, {19425},
           [](Generation&) {});
}

constexpr Hazard kHazards[] = {
    {"a warm-up batch that fits the KV cache of some ranks only hangs the start", "t7"},
    {"an attention-DP padding request that the KV cache refuses raises on its rank, and its peers wait 300 s", "t12"},
    {"each rank chooses its method alone: a node with an NVLink down or another environment hangs, or fails with \"Not "
     "all rank allocating same size.\"",
     ""},
};

}  // namespace

std::vector<Generation> make_generations() {
  Rack rack;
  add_2025(rack);
  add_early_2026(rack);
  add_late_2026(rack);
  return std::move(rack).take();
}

std::span<const Hazard> hazards() { return kHazards; }

}  // namespace a2asim::trtllm
