// Flags and variables that a command sets, and that this version of vLLM does not read, or reads otherwise than before.
#include <fmt/format.h>

#include <algorithm>

#include "model/engines/vllm/deployment.h"

namespace a2asim::vllm {
namespace {

std::string since(const Generation& generation) {
  return fmt::format("#{} ({}{})", generation.pr, generation.date,
                     generation.releases.empty() ? "" : fmt::format(", about {}", generation.releases.front().name));
}

const Generation& first_with(bool (*has)(const Generation&)) { return *std::ranges::find_if(generations(), has); }

bool reads_flag_only(const Generation& v) { return v.parallel.source == BackendSource::flag; }

constexpr std::string_view kNotRead = "not_read";  // the finding

void note_backend(const VllmPart& part, std::vector<Note>& notes) {
  const ParallelConfig& p = part.parallel;
  const ParallelArgs& args = part.given.args.parallel;
  const auto variable = part.given.env.get("VLLM_ALL2ALL_BACKEND");
  const auto warn = [&](std::string message) { notes.push_back({std::move(message), true, kNotRead}); };
  if (variable && reads_flag_only(part.generation()))
    warn(fmt::format("VLLM_ALL2ALL_BACKEND={} is not read since {}: this runs {}{}", *variable,
                     since(first_with(reads_flag_only)), p.backend,
                     args.all2all_backend ? ", from the flag" : ", the default"));
  else if (p.ignores_variable)
    warn(fmt::format("VLLM_ALL2ALL_BACKEND={} is set, but --all2all-backend {} wins", *variable, p.backend));
  if (p.ignores_flag)
    warn(fmt::format("--all2all-backend {} is given, but VLLM_ALL2ALL_BACKEND={} wins in this version",
                     *args.all2all_backend, *variable));
  if (!p.replaced.empty())
    notes.push_back({fmt::format("{} has been removed: this runs {}", p.replaced, p.backend), true});
  if (part.kernels == Kernels::none && args.all2all_backend)
    warn(fmt::format("--all2all-backend {} plays no role: {}", p.backend,
                     args.enable_expert_parallel
                         ? "expert parallelism over one replica needs no all-to-all"
                         : "without --enable-expert-parallel experts are sharded, not exchanged"));
}

void note_variables(const VllmPart& part, std::vector<Note>& notes) {
  constexpr std::string_view kChunk = "VLLM_MOE_DP_CHUNK_SIZE";
  for (const std::string_view name : {kChunk, std::string_view("VLLM_ENABLE_MOE_DP_CHUNK")}) {
    const auto value = part.given.env.get(name);
    if (!value) continue;
    if (!part.generation().capacity.chunks)
      notes.push_back({fmt::format("{}={} is not read since {}: the buffers hold max_num_batched_tokens", name, *value,
                                   since(first_with([](const Generation& v) { return !v.capacity.chunks; }))),
                       true, kNotRead});
    else if (part.kernels != Kernels::none && part.buffer.source != kChunk)
      notes.push_back(
          {fmt::format("{}={} plays no role for {}, which has no rounds", name, *value, part.parallel.backend)});
  }
}

void note_kernels(const VllmPart& part, std::vector<Note>& notes) {
  const ParallelSizes& s = part.given.args.parallel.sizes;
  if (part.kernels == Kernels::flashinfer_two_sided && s.tp > 1 && !part.generation().capacity.two_sided_spans_ep_group)
    notes.push_back(
        {fmt::format("before #40893 (2026-04-26) the two-sided workspace is made for the {} replicas, while "
                     "{} ranks use it",
                     s.dp, s.flat()),
         true});
  const std::int64_t most = part.given.env.get_int("VLLM_NIXL_EP_MAX_NUM_RANKS", 32);
  if (part.kernels == Kernels::nixl_ep && s.flat() > most)
    notes.push_back(
        {fmt::format("nixl_ep is made for VLLM_NIXL_EP_MAX_NUM_RANKS = {} ranks; {} cannot connect", most, s.flat()),
         true});
  if (part.sp > 1)
    notes.push_back({fmt::format("sequence-parallel experts: each of the {} ranks of a replica sends ceil(tokens / {})",
                                 s.tp, part.sp)});
}

}  // namespace

std::vector<Note> notes_on_settings(const VllmPart& part) {
  std::vector<Note> notes;
  note_backend(part, notes);
  note_variables(part, notes);
  note_kernels(part, notes);
  return notes;
}

}  // namespace a2asim::vllm
