#include "tools/learn/lab.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/base/check_invariant.h"
#include "sim/cluster/cluster_mirror.h"

namespace a2asim {
namespace {

constexpr std::size_t kShownSlots = 16;  // of a source, in a picture
constexpr std::int64_t kBarWidth = 40;

ReceiveBuffer read_buffer(const MirroredLayer& layer, const SimAllToAll& alltoall, int rank) {
  ReceiveBuffer buffer;
  buffer.rank = rank;
  buffer.runtime_max_tokens_per_rank = layer.inputs[static_cast<std::size_t>(rank)].runtime_max_tokens_per_rank;
  for (int source = 0; source < layer.configs[static_cast<std::size_t>(rank)].ep_size; ++source) {
    buffer.received.push_back(alltoall.recv_counter(rank, source));
    buffer.slots.emplace_back();
    for (std::int64_t slot = 0; slot < buffer.runtime_max_tokens_per_rank; ++slot)
      buffer.slots.back().push_back(alltoall.received(rank, source, layer.payloads.hidden_payload, slot));
  }
  return buffer;
}

std::string label_of(const RowView& slot) {
  switch (slot.found.state) {
    case Shadow::Content::State::unwritten:
      return ".";
    case Shadow::Content::State::torn:
      return "mix";
    case Shadow::Content::State::whole:
      return fmt::format("{}.{}", slot.found.tag.source, slot.found.tag.token);
  }
  return "?";
}

class Watch : public ClusterMirror {
 public:
  explicit Watch(Experiment& into) : into_(into) {}
  void dispatched(const MirroredLayer& layer, SimAllToAll& alltoall) override {
    if (layer.layer != 0) return;
    if (into_.buffers.empty()) note_tokens(layer);
    into_.buffers.emplace_back();
    for (int rank = 0; rank < static_cast<int>(layer.inputs.size()); ++rank)
      into_.buffers.back().push_back(read_buffer(layer, alltoall, rank));
  }
  void combined(const MirroredLayer&, SimAllToAll&, std::span<const std::vector<std::byte>>) override {}
  void judged(const MirroredLayer&, int, const ReferenceResult&, Tolerance) override {}
  void stopped(const MirroredLayer&) override {}

 private:
  void note_tokens(const MirroredLayer& layer) {
    for (std::size_t rank = 0; rank < layer.inputs.size(); ++rank) {
      const DispatchInput& input = layer.inputs[rank];
      const auto top_k = static_cast<std::size_t>(layer.configs[rank].top_k);
      for (std::int64_t token = 0; token < input.local_num_tokens; ++token) {
        const auto experts = input.token_selected_experts.subspan(static_cast<std::size_t>(token) * top_k, top_k);
        into_.tokens.push_back({static_cast<int>(rank), token, {experts.begin(), experts.end()}});
      }
    }
  }
  Experiment& into_;
};

}  // namespace

std::size_t Lab::busiest() const { return static_cast<std::size_t>(std::ranges::max_element(tokens) - tokens.begin()); }

std::vector<std::int64_t> Lab::reordered() const {
  std::vector<std::int64_t> out(tokens.rbegin(), tokens.rend());
  for (std::int64_t& count : out) ++count;
  return out;
}

std::size_t ReceiveBuffer::wrong() const {
  std::size_t count = 0;
  for (const auto& of_source : slots)
    count += static_cast<std::size_t>(
        std::ranges::count_if(of_source, [](const auto& slot) { return slot.wrong.has_value(); }));
  return count;
}

std::vector<std::optional<std::int64_t>> Experiment::sizes(std::size_t at) const {
  std::vector<std::optional<std::int64_t>> out;
  if (at >= report.steps.size()) return out;
  for (const ReplayedRank& rank : step(at).ranks) out.push_back(rank.runtime_max());
  return out;
}

bool Experiment::agrees(std::size_t at) const {
  const auto all = sizes(at);
  return std::ranges::adjacent_find(all, std::ranges::not_equal_to{}) == all.end();
}

Parallel lab_parallel() {
  Parallel parallel;
  parallel.tp_size = parallel.dp_size = parallel.ep_size = static_cast<std::int64_t>(kLabRanks);
  parallel.enable_dp_attention = true;
  parallel.moe_a2a_backend = "flashinfer";
  parallel.moe_runner_backend = "flashinfer_cutlass";
  parallel.disable_cuda_graph = true;
  parallel.max_num_tokens = 64;
  return parallel;
}

Parallel collapsed(Parallel parallel) {
  parallel.moe_dense_tp_size = 1;
  parallel.enable_dp_lm_head = true;
  return parallel;
}

Parallel with_graphs(Parallel parallel) {
  parallel.disable_cuda_graph.reset();
  parallel.cuda_graph_bs = {1, 2, 4, 8, 16};
  return parallel;
}

Scenario lab_scenario(Parallel parallel, std::vector<Step> steps) {
  Scenario scenario;
  scenario.name = "lesson";
  scenario.parallel = std::move(parallel);
  scenario.model = {.num_experts = 8, .top_k = 2, .hidden_size = 64, .layers = 1};
  scenario.seed = 7;
  scenario.steps = std::move(steps);
  return scenario;
}

Step decode_step(std::vector<std::int64_t> tokens) {
  Step step;
  step.mode = {ForwardMode::decode};
  step.tokens = std::move(tokens);
  return step;
}

// Of the scenario's engine; empty: its own.
static VersionChoice version_named(const Scenario& scenario, std::string_view version) {
  return version.empty() ? VersionChoice{} : VersionChoice{std::string(engine_of(scenario).name), std::string(version)};
}

Experiment run(const Lab& lab, const Scenario& scenario, std::string_view version) {
  Experiment experiment;
  Watch watch(experiment);
  ReplayOptions options;
  options.version = version_named(scenario, version);
  options.rule = lab.rule;
  options.mirror = &watch;
  Result<ReplayReport> report = replay(scenario, "lesson", options);
  A2ASIM_INVARIANT(report.has_value(), "a lesson's scenario can be run");
  experiment.report = std::move(*report);
  return experiment;
}

std::string sizes_in_words(const Experiment& experiment, std::size_t at) {
  const auto sizes = experiment.sizes(at);
  if (sizes.empty()) return "no rank computes a size: " + experiment.report.why;
  if (!experiment.agrees(at)) return fmt::format("ranks use different sizes, R = {}", listed(sizes));
  return sizes[0] ? fmt::format("all ranks use R = {}", *sizes[0]) : "no rank computes an R";
}

std::unique_ptr<Deployment> deployment_of(const Lab& lab, const Scenario& scenario, std::string_view version) {
  Result<ScenarioDeployment> deployed = deploy(scenario, "lesson", version_named(scenario, version), lab.rule);
  A2ASIM_INVARIANT(deployed.has_value() && deployed->deployment, "a lesson's scenario can be deployed");
  return std::move(deployed->deployment);
}

std::string listed(const std::vector<std::int64_t>& numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

std::string listed(const std::vector<std::optional<std::int64_t>>& numbers) {
  std::vector<std::string> words;
  for (const auto& number : numbers) words.push_back(number ? std::to_string(*number) : "-");
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::vector<std::string> picture_of(const ReceiveBuffer& buffer) {
  std::vector<std::string> lines = {fmt::format("buffer of rank {}: {} sources x {} slots", buffer.rank,
                                                buffer.slots.size(), buffer.runtime_max_tokens_per_rank)};
  bool has_mix = false, has_wrong = false;
  for (std::size_t source = 0; source < buffer.slots.size(); ++source) {
    std::string line = fmt::format("  from rank {} |", source);
    for (std::size_t slot = 0; slot < std::min(buffer.slots[source].size(), kShownSlots); ++slot) {
      const RowView& content = buffer.slots[source][slot];
      line += fmt::format(" {:>4}", label_of(content) + (content.wrong ? "!" : " "));
    }
    lines.push_back(line + (buffer.slots[source].size() > kShownSlots ? " ..|" : " |"));
    for (const RowView& content : buffer.slots[source]) {
      has_mix = has_mix || content.found.state == Shadow::Content::State::torn;
      has_wrong = has_wrong || content.wrong.has_value();
    }
  }
  if (has_mix) lines.push_back("  mix: parts of more than one row, or of a row and of memory that nobody wrote");
  if (has_wrong) lines.push_back("  !: a token's row should be here and is not");
  return lines;
}

std::vector<std::string> two_sizes(std::int64_t reader, std::int64_t writer) {
  constexpr std::int64_t kMostSlots = 32;
  const std::int64_t last = static_cast<std::int64_t>(kLabRanks) - 1;
  std::vector<std::string> out;
  for (const std::int64_t size : {reader, writer}) {
    std::string line = fmt::format("R = {:<5}", size);
    for (std::int64_t slot = 0; slot < std::min(size * (last + 1), kMostSlots); ++slot)
      line += slot % size == 0 ? fmt::format(" {}", slot / size) : " .";
    out.push_back(line + (size * (last + 1) > kMostSlots ? " .." : ""));
  }
  out.push_back(fmt::format("row 0 of rank {0}: read at {0} x {1} = {2}, written at {0} x {3} = {4}", last, reader,
                            last * reader, writer, last * writer));
  return out;
}

std::string bar(std::int64_t part, std::int64_t whole) {
  const std::int64_t filled =
      whole > 0 ? std::clamp<std::int64_t>((part * kBarWidth + whole - 1) / whole, 0, kBarWidth) : 0;
  return fmt::format("{}{}  {} of {}", std::string(static_cast<std::size_t>(filled), '#'),
                     std::string(static_cast<std::size_t>(kBarWidth - filled), '.'), part, whole);
}

}  // namespace a2asim
