// The laws: what each says, where its worlds are drawn from and what its run must reach.
#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/engines/sglang/generation.h"
#include "model/engines/vllm/generation.h"
#include "property_tests/law.h"

namespace a2asim::props {
namespace {

using Reached = std::vector<std::string_view>;

constexpr std::string_view kNoEngine = "it asks the all-to-all alone, which no engine changes";

const Reached kOfDecisions = {"max over the gathered token counts",
                              "max over the gathered token counts, divided by attn_tp_size",
                              "the static cap max_num_tokens",
                              "this rank's own rows",
                              "no all-to-all: all-gatherv and reduce-scatterv",
                              "dummy token",
                              "the cap refuses",
                              "SUM_LEN keeps counts apart",
                              "MAX_LEN evens counts out",
                              "idle rank replays padding",
                              "idle rank runs eagerly",
                              "bucket pads",
                              "above the largest bucket",
                              "at the largest bucket",
                              "the engine does not start",
                              "a wish to replay",
                              "a wish to replay that cannot be"};
const Reached kOfCheck = {"check: agrees", "check: disagrees", "check: over capacity", "check: rejected"};
const Reached kOfRows = {"row: misplaced",
                         "row: stale",
                         "row: unwritten",
                         "row: torn",
                         "row: expert_id_out_of_range",
                         "nan_output",
                         "wrong_output",
                         "receive overflow runs on",
                         "some ranks refuse, their peers wait",
                         "prefill is gathered"};
const Reached kOfFaults = {
    "fault seen: skip_rank",         "fault seen: skip_all_gather", "fault seen: stale_counts",
    "fault seen: wrong_mode",        "fault seen: replay_rank",     "fault seen: dead_rank",
    "fault seen: corrupt_count",     "fault seen: max_num_tokens",  "fault seen: payload_bytes",
    "fault seen: sequence parallel", "fault seen: wide replicas",   "fault seen: sizes of a gather",
    "step after a death",            "several bad steps"};
const Reached kOfTexts = {"a damaged scenario is read", "a damaged scenario is refused", "a damaged command is read",
                          "a damaged command is refused"};

// Sizes, as ranks derive them, and what check says of them.
std::vector<Law> laws_of_decisions() {
  return {
      {"agreement", "every rank derives the same R", ranks_agree, random_space, {small_space}},
      {"exact fit", "rows <= R <= cap on every rank that goes on", fits_exactly, random_space, {small_space}},
      {"no waste", "R is the largest count of rows", wastes_nothing, random_space, {small_space}},
      {"idle ranks",
       "all ranks take part in a step with work, every token is carried once",
       idle_ranks_take_part,
       random_space,
       {small_space},
       kOfDecisions},
      {"permuted ranks", "permuting ranks permutes decisions", permuting_ranks_permutes, random_space, {small_space}},
      {"shared decisions",
       "a rank that takes over another's decision would have come to it alone",
       sharing_changes_nothing,
       random_space,
       {small_space}},
      {"sound check",
       "what check calls safe is safe, and its witnesses are real",
       check_is_sound,
       random_space,
       {small_deployments},
       kOfCheck},
      {"static caps",
       "what fits a cap fits a larger one",
       larger_caps_fit,
       random_space_of_backends,
       {small_backends},
       {"a static cap is exceeded"},
       true,
       "its table of caps is SGLang's"},
  };
}

// The simulated cluster, faults included.
std::vector<Law> laws_of_the_cluster() {
  return {
      {"oracle",
       "outputs are those of the oracle, over poisoned memory",
       outputs_equal_the_oracle,
       random_space,
       {small_space, small_sequences}},
      {"no stale read",
       "no row read is stale, misplaced, torn or unwritten",
       reads_nothing_stale,
       random_space,
       {small_space, small_sequences}},
      {"fidelities",
       "integers, tags and bytes tell the same",
       fidelities_agree,
       random_space,
       {small_sequences},
       kOfRows},
      {"verdicts",
       "the cluster's verdict is what the sizes say, counted plainly",
       verdicts_are_plain,
       random_space,
       {small_space}},
      {"digest", "two runs of one world have one digest", one_digest, random_space_with_faults, {small_pairs}},
      {"blame",
       "a wrong output has a row that was not read back as sent",
       wrong_outputs_have_a_row_to_blame,
       random_space,
       {small_sequences}},
      {"causes",
       "whatever fault: a wrong output has a cause that is named",
       consequences_have_causes,
       random_space_with_faults,
       {small_faults},
       {"a fault reaches the outputs", "a fault stops the run"}},
      {"faults",
       "what one rank does wrong is its own, and is seen where it changes its size or collective",
       faults_are_seen,
       random_space_with_faults,
       {small_faults, small_wide_faults},
       kOfFaults},
      {"fault order",
       "the order in which faults are written changes nothing",
       order_of_faults_changes_nothing,
       random_space_with_faults,
       {small_fault_pairs},
       {"several faults", "two faults of one rank and step", "two faults of one kind and step"},
       false},
  };
}

// One all-to-all against plain loops, which no generation changes; and texts.
std::vector<Law> laws_of_rows_and_texts() {
  return {
      {"permuted rows",
       "permuting ranks permutes outputs, bit for bit, and receive counters",
       permuting_ranks_permutes_rows,
       random_space,
       {small_rounds},
       {},
       false,
       kNoEngine},
      {"conservation",
       "each token arrives once at each destination, and no other byte changes",
       conserves_tokens,
       random_space,
       {small_rounds},
       {"rows to experts with a remainder"},
       false,
       kNoEngine},
      {"unequal sizes",
       "a row goes where its sender's R says, over what lower ranks wrote",
       unequal_sizes_go_where_the_sender_says,
       random_space,
       {small_rounds},
       {},
       false,
       kNoEngine},
      {"renamed experts",
       "other names of experts within a rank change nothing",
       renaming_experts_changes_nothing,
       random_space,
       {small_rounds},
       {},
       false,
       kNoEngine},
      {"graphs",
       "capture then replay leaves the bytes of an eager run",
       replay_equals_eager,
       random_space,
       {small_rounds},
       {},
       false,
       kNoEngine},
      {"judge",
       "one NaN or one wrong number is one bad token, right outputs are none",
       judge_sees_what_is_wrong,
       random_space,
       {small_rounds},
       {},
       false,
       kNoEngine},
      {"missing ranks",
       "an absent rank is waited for by name; a masked one is left out",
       missing_ranks_are_named,
       random_space,
       {small_rounds},
       {},
       false,
       kNoEngine},
      {"texts",
       "what is printed is read again; any bytes give a value or one clear error",
       texts_are_stable,
       random_space_with_faults,
       {small_texts},
       kOfTexts,
       true,
       "the commands that it damages are SGLang's"},
  };
}

const std::vector<Law>& all_laws() {
  static const std::vector<Law> all = [] {
    std::vector<Law> laws = laws_of_decisions();
    for (const std::vector<Law>& more : {laws_of_the_cluster(), laws_of_rows_and_texts()})
      laws.insert(laws.end(), more.begin(), more.end());
    return laws;
  }();
  return all;
}

}  // namespace

std::span<const Law> laws() { return all_laws(); }

const Law& law(std::string_view name) {
  const auto found = std::ranges::find(all_laws(), name, &Law::name);
  A2ASIM_INVARIANT(found != all_laws().end(), "a law of this name exists");
  return *found;
}

const Law& canary_law() {
  static const Law own = {"canary", "no step has three tokens", canary, random_space, {small_space}};
  return own;
}

const Law& dying_law() {
  static const Law own = {"dying canary", "no step has three tokens", dying_canary, random_space, {small_space}};
  return own;
}

const Law& throwing_law() {
  static const Law own = {"throwing canary", "no step has three tokens", throwing_canary, random_space, {}};
  return own;
}

std::string_view why_skipped(const Law& law, const Version& version) {
  return is_of_first_engine(version) ? std::string_view() : law.first_engine_only;
}

namespace {

// Laws that a version of vLLM breaks. Where some ranks raise, the others wait, and no byte is read.
bool breaks(const vllm::Generation& version, std::string_view law) {
  const bool one_sided = version.parallel.backends.find("flashinfer_nvlink_one_sided") != std::string_view::npos;
  if (law == "no stale read" && one_sided && !version.capacity.one_sided.marks_unused_rows) return true;
  if (version.known_failure == vllm::KnownFailure::none) return false;
  const bool reads = version.known_failure == vllm::KnownFailure::idle_graph;
  return law == "agreement" || (reads && (law == "oracle" || law == "no stale read"));
}

}  // namespace

bool is_known_to_fail(const Law& law, std::string_view generation) {
  const Version& version = version_named(generation);
  const Engine& engine = engine_of(version);
  if (&engine == engines().front()) return find_generation(generation)->generation->known_failures.contains(law.name);
  return engine.name == "vllm" && breaks(vllm::as_generation(version), law.name);
}

}  // namespace a2asim::props
