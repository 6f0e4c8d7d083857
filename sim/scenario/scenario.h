// What a scenario file says: a deployment, a model, a list of scheduler steps, faults, and what is expected of them.
//
// Values only. scenario_reader.h makes one of a text, scenario_writer.h writes it back; parse(to_yaml(s)) == s.
// scenario.schema.json says the same as a JSON Schema.
//
// Ranks: `tokens`, per-rank modes and Fault::source count data-parallel ranks; Fault::rank and Routing::rank count
// tensor-parallel ranks, which under an all-to-all backend are the expert-parallel ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/base/result.h"
#include "model/step/batch.h"
#include "model/step/finding.h"
#include "model/step/parallel.h"
#include "model/step/verdict.h"

namespace a2asim {

struct Engine;   // model/step/engine.h
struct Version;  // the same

// What a file may hold at most. Generous for its purpose, small enough that no file can exhaust the machine by itself.
inline constexpr std::int64_t kMaxScenarioTokens = std::int64_t{1} << 20;  // one rank, one step
inline constexpr std::int64_t kMaxScenarioCount =
    (std::int64_t{1} << 31) - 1;                              // other counts: int32, as in the kernels
inline constexpr std::int64_t kMaxScenarioSteps = 1'000'000;  // after `repeat`
inline constexpr std::int64_t kMaxScenarioRanks = 1024;
inline constexpr std::int64_t kMaxScenarioLayers = 1024;
inline constexpr std::int64_t kMaxScenarioHidden = std::int64_t{1} << 17;
inline constexpr std::int64_t kMaxScenarioExperts = std::int64_t{1} << 16;
inline constexpr std::int64_t kMaxScenarioCap_tokens = std::int64_t{1} << 30;  // keeps all sizes inside int64
inline constexpr std::int64_t kScenarioPayloads = 4;                           // the most: with scales
inline constexpr std::int64_t kMaxPayloadBytesPerToken = std::int64_t{1} << 20;

// Where something stood in the file, counted from 1; 0: nowhere. Takes no part in comparisons, so that a scenario that
// was written and read again is equal to the first.
struct Position {
  int line = 0;
  int column = 0;
  constexpr bool operator==(const Position&) const { return true; }
};

struct ScenarioModel {
  std::int64_t num_experts = 0;
  std::int64_t top_k = 0;
  std::int64_t hidden_size = 0;
  std::int64_t layers = 1;
  DataType dtype = DataType::bfloat16;  // of expert output, and of hidden states that are not quantised
  bool operator==(const ScenarioModel&) const = default;
};

// Which experts the tokens choose; drawn from the seed, the same on every rank.
struct Routing {
  enum class Kind : std::uint8_t {
    uniform,      // top_k distinct experts, all equally likely
    hot_rank,     // as many of the top_k as `rank` owns lie there, the rest uniform
    round_robin,  // token t of a rank takes experts t * top_k, t * top_k + 1, .. modulo num_experts
  };
  Kind kind = Kind::uniform;
  std::int64_t rank = 0;  // hot_rank only, otherwise 0
  Position at;
  bool operator==(const Routing&) const = default;
};

enum class ExpertsKind : std::uint8_t {
  exact,  // the closed form of model/alltoall/experts.h
  ffn,    // a small feed-forward network per expert
};

// One iteration of the scheduler on all data-parallel ranks, done `repeat` times.
struct Step {
  std::vector<ForwardMode> mode;     // one for all ranks, or one a rank
  std::vector<std::int64_t> tokens;  // one a rank; requests in decode, verify and draft, tokens in extend and mixed
  std::optional<bool> graph;         // nothing: as the engine decides; false: eager; true: must replay
  std::int64_t repeat = 1;
  Position at;
  bool operator==(const Step&) const = default;

  ForwardMode mode_of(std::size_t dp_rank) const { return mode.size() == 1 ? mode[0] : mode[dp_rank]; }
};

enum class FaultKind : std::uint8_t {
  skip_rank,        // rank takes no part in the step
  skip_all_gather,  // rank (nothing: all of them) does not exchange counts and goes on with its own
  stale_counts,     // rank uses the list of the step before
  wrong_mode,       // rank runs `mode`
  replay_rank,      // rank replays its graph while the others run eager
  dead_rank,        // rank is gone from this step on; masked: the others know it and leave it out
  corrupt_count,    // rank (nothing: every rank) sees `value` as the count of data-parallel rank `source`
  max_num_tokens,   // rank was constructed with this cap
  payload_bytes,    // rank was constructed with `value` bytes a token for this payload
};

// Which fields are used follows from the kind; the others keep their defaults.
struct Fault {
  FaultKind kind = FaultKind::skip_rank;
  std::int64_t step = 0;             // counted after `repeat`; 0 for the two faults of construction
  std::optional<std::int64_t> rank;  // nothing only where the kind says so
  ForwardMode mode = ForwardMode::decode;
  bool masked = false;
  std::int64_t source = 0;
  std::int64_t payload = 0;
  std::int64_t value = 0;
  Position at;
  bool operator==(const Fault&) const = default;
};
// The object is built wrongly, once: such a fault belongs to no step.
constexpr bool is_construction_fault(FaultKind kind) {
  return kind == FaultKind::max_num_tokens || kind == FaultKind::payload_bytes;
}

// What makes a file a regression test. What is left out is not compared; verdict or findings is given.
struct Expect {
  std::optional<Verdict> verdict;
  std::optional<std::int64_t> step;   // the first bad one, counted after `repeat`
  std::vector<FindingKind> findings;  // at least these are found
  bool operator==(const Expect&) const = default;
};

// Of what only the deployment can judge.
struct ScenarioPositions {
  Position version, env, model;         // version: or the engine, where no version is given
  std::string version_key = "version";  // as the file spells it
  Position deployment;                  // launch or parallel
  constexpr bool operator==(const ScenarioPositions&) const { return true; }
};

struct Scenario {
  std::string name;
  // `sglang: X` in a file is short for `engine: sglang` with `version: X`.
  std::optional<std::string> engine;   // nothing: whose server the command starts
  std::optional<std::string> version;  // a change, release or date; nothing: the newest
  std::optional<std::string> launch;   // exactly one of launch and parallel is given
  std::optional<Parallel> parallel;
  std::map<std::string, std::string> env;
  ScenarioModel model;
  std::uint64_t seed = 0;
  Routing routing;
  ExpertsKind experts = ExpertsKind::exact;
  std::vector<Step> steps;
  std::vector<Fault> faults;
  std::optional<Expect> expect;                        // for the file's own generation
  std::map<std::string, Expect> expect_by_generation;  // for others: as in `version`
  ScenarioPositions at;
  bool operator==(const Scenario&) const = default;
};

// Steps to run, `repeat` included.
std::int64_t num_steps(const Scenario& scenario);

// The launch command of a layout, in words: the engine's own, else flags in the order of parallel_fields().
std::vector<std::string> to_argv(const Parallel& parallel, const Engine& engine, const Version& version);
// Whose server the scenario starts: the engine that it names, else the first that is known.
const Engine& engine_of(const Scenario& scenario);
// The launch command of either form: one code path from here on. version: that runs; empty: the scenario's own.
std::string launch_text(const Scenario& scenario, std::string_view version = {});
// env, and what `parallel` says through a variable.
std::map<std::string, std::string> launch_env(const Scenario& scenario);
// Where the cap is set, or the deployment whose default it is.
Position cap_position(const Scenario& scenario);

// All that depends on the number of ranks: entries a step, ranks of faults and routing. The reader calls it for
// `parallel`; for `launch` call it once the command is understood. `file` names the file in the error.
Result<void> check_ranks(const Scenario& scenario, std::string_view file, std::int64_t attn_dp_size,
                         std::int64_t world_size);

// "FILE:LINE:COL: what" as bad_input; the position is left out where there is none.
tl::unexpected<Error> scenario_error(std::string_view file, Position at, std::string_view what);

// --- the vocabulary, shared by reader, writer and the test of the schema
// ----------------------------------------------

template <class T>
struct Named {
  std::string_view name;
  T value;
};
std::span<const Named<ForwardMode>> step_modes();
std::span<const Named<DataType>> model_dtypes();
std::span<const Named<Routing::Kind>> routing_kinds();
std::span<const Named<ExpertsKind>> experts_kinds();
std::span<const Named<FaultKind>> fault_kinds();
std::span<const Named<Verdict>> verdicts();
std::span<const Named<FindingKind>> finding_kinds();

template <class T>
std::string_view name_in(std::span<const Named<T>> names, T value) {
  for (const Named<T>& entry : names) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}

// A field of `parallel`: its key, its flag ("" where it is none), and where it lies. Exactly one member is set.
struct ParallelField {
  std::string_view key;
  std::string_view flag;
  std::int64_t min = 0;  // of an integer or of the list's entries
  std::int64_t max = 0;
  std::optional<std::int64_t> Parallel::*integer = nullptr;
  std::optional<bool> Parallel::*boolean = nullptr;
  std::optional<std::string> Parallel::*word = nullptr;
  std::vector<std::int64_t> Parallel::*list = nullptr;
};
std::span<const ParallelField> parallel_fields();

// What a word of `parallel` may look like, so that it can stand in a command as it is.
bool is_word(std::string_view text);

}  // namespace a2asim
