// Graphs, refusals at the start, and what is to be said of a command that no batch shows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "model/check/check_explain.h"
#include "model/engines/trtllm/resolve.h"
#include "model/step/fix_steps.h"

namespace a2asim::trtllm {
namespace {

constexpr std::int64_t kDefaultGraphBatch = 128;

std::string list_of(std::span<const std::int64_t> sizes) {
  if (sizes.size() <= 8) return fmt::format("{}", fmt::join(sizes, ", "));
  return fmt::format("{}, .. {} ({} sizes)", fmt::join(sizes.first(5), ", "), sizes.back(), sizes.size());
}

SizingDecision baked(std::int64_t tokens) { return {tokens, tokens, false, SizingBranch::max_of_list}; }

// --- variables: what each does in this version
struct Variable {
  std::string_view name;
  bool (*is_read)(const TrtllmPart& part);
  std::string_view does;
};
bool by_factory(const TrtllmPart& part) { return part.generation().has_factory && !part.is_wideep; }
bool shares_tokens(const TrtllmPart& part) { return part.setups.front().lane == Lane::none; }
bool is_before(const TrtllmPart& part, std::string_view name) {
  const auto at = std::ranges::find(generations(), name, &Generation::name);
  return part.generation().date < at->date;
}

constexpr Variable kVariables[] = {
    {kForceComm, [](const TrtllmPart& part) { return by_factory(part) && !shares_tokens(part); },
     "names the method; what cannot be made is an error then"},
    {kForceMethod,
     [](const TrtllmPart& part) { return !by_factory(part) && (part.is_wideep || !is_before(part, "t1")); },
     "names the method"},
    {kCanUseDeepEp, [](const TrtllmPart& part) { return by_factory(part) || part.is_wideep; },
     "allows DeepEP where no NVLink domain holds all ranks"},
    {kDisable,
     [](const TrtllmPart& part) { return part.is_wideep ? !part.generation().refuses_wideep : is_before(part, "t2"); },
     "switches the all-to-all off"},
    {kAllToAllBackend, [](const TrtllmPart& part) { return !is_before(part, "t1") && is_before(part, "t2"); },
     "chooses the one-sided or the two-sided lane"},
    {kWorkspaceMb, [](const TrtllmPart& part) { return part.setups.front().lane == Lane::one_sided; },
     "replaces the size of the workspace on the ranks that have it"},
    {"TRTLLM_DEEP_EP_TOKEN_LIMIT",
     [](const TrtllmPart& part) { return part.setups.front().lane == Lane::deepep_low_latency; },
     "is the most tokens of a rank that DeepEPLowLatency takes"},
    {"ENABLE_CONFIGURABLE_MOE", [](const TrtllmPart& part) { return part.generation().factory_by_variable; },
     "asks the communication factory for the method"},
    {"TRTLLM_MOE_ENABLE_ALLTOALL_WITHOUT_ALLGATHER",
     [](const TrtllmPart& part) { return part.is_wideep && is_before(part, "t1"); },
     "sends without gathering the ids first"},
    {"TRTLLM_MOE_POST_QUANT_ALLTOALLV", [](const TrtllmPart&) { return true; }, "quantises before the dispatch"},
};

void remark(TrtllmPart& part, Severity severity, std::string message, Advice fix = {},
            FindingKind kind = FindingKind::note) {
  CheckFinding finding = make_note(kind, Phase::start, std::move(message));
  finding.advise(std::move(fix));
  finding.severity = severity;
  part.remarks.push_back(std::move(finding));
}

void add_variables(TrtllmPart& part) {
  const Environment& env = part.given.env;
  for (const Variable& variable : kVariables) {
    if (!env.is_set(variable.name)) continue;
    const bool is_read = variable.is_read(part);
    if (is_read) {
      remark(part, Severity::note,
             fmt::format("{}={} is read: it {}", variable.name, *env.get(variable.name), variable.does));
    } else {
      const std::string why =
          shares_tokens(part) && by_factory(part)
              ? "without attention DP no method is chosen"
              : fmt::format("{} (backend {}) does not read it", part.generation().name, part.moe_backend);
      remark(part, Severity::warning, fmt::format("{} has no effect: {}", variable.name, why),
             std::vector{unset_variable(std::string(variable.name), "")}, FindingKind::not_read);
    }
  }
}

// mpirun hands on what -x names, and srun what --export names.
void add_forwarding(TrtllmPart& part) {
  if (!part.given.forwarded || part.setup_of.size() < 2) return;
  for (const Variable& variable : kVariables) {
    if (!part.given.env.is_set(variable.name) || !variable.is_read(part)) continue;
    if (std::ranges::count(*part.given.forwarded, variable.name) > 0) continue;
    std::string without;
    if (variable.name == kWorkspaceMb && part.given.model) {
      Environment env = part.given.env;
      env.unset(std::string(kWorkspaceMb));
      const auto bytes = workspace_bytes(part, env);
      if (bytes)
        without = fmt::format(
            ": a rank without it asks for {} bytes instead of {}, and the load is refused (\"Not all "
            "rank allocating same size.\")",
            *bytes, part.setups.front().workspace_bytes);
    }
    remark(part, Severity::warning,
           fmt::format("{} may not reach every rank: the launcher hands on only what it is told to{}", variable.name,
                       without),
           fmt::format("give mpirun -x {}, or srun --export=ALL", variable.name), FindingKind::rank_environment);
  }
}

void add_domain(TrtllmPart& part) {
  const std::int64_t ep = part.mapping.moe_ep_size;
  if (part.domain_is_known || shares_tokens(part) || ep <= part.domain) return;
  remark(
      part, Severity::note,
      fmt::format("how many GPUs share NVLink is not known: {} are assumed, so that the method is {}; with one domain "
                  "for all {} ranks it is an NVLink lane",
                  part.domain, name(part.setups.front().lane), ep),
      fmt::format("give --nvlink-domain {} or --nvlink-domain {}", part.domain, ep));
}

void add_chunks(TrtllmPart& part) {
  const std::int64_t ranks = part.mapping.dp_size;
  const Lane lane = part.setups.front().lane;
  if (ranks < 2 || lane == Lane::fused) return;
  const std::int64_t most = ranks * part.max_num_tokens;
  const std::int64_t chunks = (most + part.moe_max_num_tokens - 1) / part.moe_max_num_tokens;
  if (chunks < 2) return;
  std::string message = fmt::format("moe_config.max_num_tokens {}: up to {} chunks a step ({} ranks x {} tokens)",
                                    part.moe_max_num_tokens, chunks, ranks, part.max_num_tokens);
  if (lane == Lane::deepep || lane == Lane::deepep_low_latency)
    message += part.is_wideep ? "; a step of several chunks gathers instead of sending"
                              : "; with the first step of several chunks the layer gathers for good";
  else if (lane == Lane::all_gather && part.generation().chunks.patch == ChunkRules::Patch::none)
    message += "; a rank with fewer tokens than chunks has empty ones, which NCCL may refuse";
  remark(part, Severity::note, std::move(message));
}

void add_memory(TrtllmPart& part) {
  const std::int64_t bytes = part.setups.front().workspace_bytes;
  if (bytes == 0) return;
  constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
  std::string message = fmt::format("the workspace takes {:.1f} GiB per rank, outside the KV cache's share",
                                    static_cast<double>(bytes) / kGib);
  const double share = part.given.args.real("kv_cache_config.free_gpu_memory_fraction").value_or(0.9);
  if (part.given.gpu_memory_gib)
    message += fmt::format(
        ": {:.1f} % of {:.0f} GiB; what is left for weights beside a KV cache of {:.0f} % of the free "
        "memory shrinks by as much",
        100 * static_cast<double>(bytes) / kGib / *part.given.gpu_memory_gib, *part.given.gpu_memory_gib, 100 * share);
  remark(part, Severity::note, std::move(message));
}

void add_graphs(const Deployment& deployment, TrtllmPart& part) {
  if (deployment.capture_bs.empty()) return;
  remark(part, Severity::note,
         fmt::format("decode graphs of {} requests, {} token{} each; all ranks replay the same one, or none",
                     list_of(deployment.capture_bs), 1 + part.draft_tokens, part.draft_tokens == 0 ? "" : "s"));
  const std::int64_t together = part.max_num_tokens / (1 + part.draft_tokens);
  if (part.max_batch_size > together && part.given.args.is_given("max_batch_size"))
    remark(
        part, Severity::note,
        fmt::format("max_batch_size {} is more than max_num_tokens {} / {} tokens: {} slots can never decode together",
                    part.max_batch_size, part.max_num_tokens, 1 + part.draft_tokens, part.max_batch_size - together));
}

void add_hazards(TrtllmPart& part) {
  if (part.mapping.dp_size < 2) return;
  std::string list;
  for (const Hazard& hazard : hazards_of(part.generation()))
    list += fmt::format("{}{}", list.empty() ? "" : "; ", hazard.what);
  remark(part, Severity::note, "what ranks may differ in and no batch shows, in this version: " + list);
}

// --- refusals
void refuse_graphs(const TrtllmPart& part, const Sizes& sizes, std::int64_t most, Said& said) {
  const bool both = !sizes.empty() && part.given.args.text("cuda_graph_config.max_batch_size");
  if (!both || *std::ranges::max_element(sizes) == most) return;
  said.reject(
      "CudaGraphConfig",
      {ErrorKind::value_error, fmt::format("cuda_graph_config.max_batch_size {} does not go with batch_sizes up to {}",
                                           most, *std::ranges::max_element(sizes))},
      std::vector{remove_flag("cuda_graph_config.max_batch_size"), remove_flag("cuda_graph_config.batch_sizes")});
}

void refuse_kernel(const TrtllmPart& part, AllToAllSetup& alltoall) {
  if (!alltoall.uses_flashinfer || !part.given.model) return;
  const auto refuse = [&](std::string what, Fix fix) {
    alltoall.launch_error =
        Rejection{"first_forward", "one-sided dispatch", {ErrorKind::runtime_error, std::move(what)}, std::vector{fix}};
  };
  const std::span<const int> known = part.generation().supported_top_k;
  const std::int64_t top_k = part.given.model->top_k;
  if (std::ranges::find(known, top_k) == known.end())
    refuse(fmt::format("Unsupported top_k (the kernels have {})", fmt::join(known, ", ")),
           part.generation().has_factory ? set_variable(std::string(kForceComm), "ALLGATHER")
                                         : set_variable(std::string(kForceMethod), "NotEnabled"));
  else if (part.largest_r < 1)
    refuse("Workspace size per rank insufficient for dispatch.",
           unset_variable(std::string(kWorkspaceMb),
                          fmt::format("now {}", part.given.env.get(kWorkspaceMb).value_or("not set"))));
}

}  // namespace

Result<DecodeGraphs> graphs_of(TrtllmPart& part, Said& said) {
  const Arguments& args = part.given.args;
  DecodeGraphs out;
  part.graphs_pad = args.flag("cuda_graph_config.enable_padding");
  const bool off = graphs_are_off(args);
  const Result<Sizes> given = args.numbers("cuda_graph_config.batch_sizes");
  if (!given) return tl::unexpected(given.error());
  const Result<std::int64_t> most = args.number("cuda_graph_config.max_batch_size", kDefaultGraphBatch, 1, 1 << 20);
  if (!most) return tl::unexpected(most.error());
  for (const std::int64_t size : *given)
    if (size < 1)
      return fail(ErrorKind::bad_input,
                  fmt::format("cuda_graph_config.batch_sizes: {} is no number of requests", size));
  refuse_graphs(part, *given, *most, said);
  out.graphs_are_disabled = off;
  out.graph_max_bs = {given->empty() ? *most : *std::ranges::max_element(*given), true};
  if (off) return out;
  Sizes sizes = given->empty() ? default_buckets(part.generation().buckets, *most, part.graphs_pad) : *given;
  std::ranges::sort(sizes);
  out.capture_bs = filter_buckets(sizes, {.max_batch_size = part.max_batch_size,
                                          .max_num_tokens = part.max_num_tokens,
                                          .draft_tokens = part.draft_tokens,
                                          .pads = part.graphs_pad,
                                          .keeps_zero = false});
  for (const std::int64_t size : out.capture_bs) out.baked.push_back({baked(size * (1 + part.draft_tokens))});
  return out;
}

void refuse_at_start(const TrtllmPart& part, AllToAllSetup& alltoall, Said& said) {
  const Arguments& args = part.given.args;
  const Lane lane = part.setups.front().lane;
  if (part.is_wideep && part.generation().refuses_wideep)
    said.reject("moe_config.backend", {ErrorKind::value_error, "the backend WIDEEP was removed (#17119)"},
                "give moe_config.backend TRTLLM, CUTLASS or DEEPGEMM (now WIDEEP)");
  const std::int64_t slots = slots_of(part);
  if (part.given.model && part.mapping.moe_ep_size > 1 && slots < part.mapping.moe_ep_size)
    said.reject("expert parallelism",
                {ErrorKind::assertion_error,
                 fmt::format("{} expert slots for {} ranks: each needs one", slots, part.mapping.moe_ep_size)},
                fmt::format("lower moe_expert_parallel_size (now {}), or give moe_config.load_balancer.num_slots",
                            part.mapping.moe_ep_size));
  const bool ray = args.text("orchestrator_type").value_or("") == "ray";
  if (ray && is_nvlink(lane) && !part.generation().has_mnnvl_under_ray)
    said.reject(
        "MNNVL workspace under Ray",
        {ErrorKind::runtime_error,
         fmt::format("illegal memory access: without an MPI world the communicator has 1 rank, and {} are indexed",
                     part.mapping.moe_ep_size)},
        std::vector{remove_flag("orchestrator_type", "ray"), upgrade_to("pr18300")});
  if (part.moe_backend.starts_with("MEGAMOE") && part.given.model && part.given.model->hidden_size % 512 != 0)
    said.reject(
        "MegaMoE",
        {ErrorKind::value_error, fmt::format("hidden_size {} is no multiple of 512", part.given.model->hidden_size)},
        "give another moe_config.backend");
  refuse_kernel(part, alltoall);
}

void add_remarks(const Deployment& deployment, TrtllmPart& part) {
  if (!part.setups.front().why.empty())
    remark(part, Severity::note, fmt::format("method {}: {}", name(part.setups.front().lane), part.setups.front().why));
  if (deployment.uses_flashinfer && part.largest_r > 0)
    remark(part, Severity::note,
           fmt::format("workspace {} bytes per rank; the largest R that it takes is {}",
                       part.setups.front().workspace_bytes, part.largest_r));
  const std::int64_t ranks_limit = part.generation().kernel.max_ranks;
  if (part.setups.front().lane == Lane::two_sided && part.mapping.moe_ep_size > ranks_limit && !part.is_wideep)
    remark(
        part, Severity::warning,
        fmt::format(
            "ep {} is above kMaxRanks {}: {}the two-sided lane is used", part.mapping.moe_ep_size, ranks_limit,
            part.generation().checks_ranks_first ? "" : "a one-sided workspace is allocated for each layer, and then "),
        std::vector{set_variable(std::string(kForceComm), "NVLINK_TWO_SIDED"),
                    choose("lower moe_expert_parallel_size")});
  if (part.generation().context_dummy && part.mapping.dp_size > 1)
    remark(part, Severity::note,
           fmt::format("an idle rank beside a prefill takes part with max_num_tokens {}: slots are wasted, sizes "
                       "agree",
                       part.max_num_tokens));
  add_domain(part);
  add_variables(part);
  add_forwarding(part);
  add_chunks(part);
  add_graphs(deployment, part);
  add_memory(part);
  add_hazards(part);
}

}  // namespace a2asim::trtllm
