// The one-sided lane's workspace of a deployment: bytes, and the largest R that they take.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/engines/trtllm/resolve.h"

namespace a2asim::trtllm {
namespace {

bool contains(std::string_view text, std::string_view word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end(),
                     [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; }) != text.end();
}

WorkspaceShape shape_of(const TrtllmPart& part) {
  const ModelShape& model = *part.given.model;
  WorkspaceShape out{part.mapping.moe_ep_size, model.top_k, part.max_num_tokens, model.hidden_size};
  if (part.given.args.is_given("moe_config.load_balancer.num_slots")) out.eplb_experts = model.num_experts;
  return out;
}

bool sends_nvfp4(const TrtllmPart& part) { return contains(part.given.args.model, "fp4"); }

// What a token travels with. Without knowing better, the unquantised form, which is the largest.
DispatchRequest request_of(const TrtllmPart& part, std::int64_t bytes) {
  const ModelShape& model = *part.given.model;
  const std::int64_t padded = (model.hidden_size + 255) / 256 * 256;
  const std::int64_t hidden = part.generation().pads_hidden ? padded : model.hidden_size;
  DispatchRequest out;
  out.shape = shape_of(part);
  out.payloads = payload_bytes(sends_nvfp4(part) ? PayloadKind::nvfp4 : PayloadKind::bf16, hidden, model.top_k);
  out.combine_bytes = 2 * hidden;
  out.workspace_bytes = bytes;
  return out;
}

std::string source_in_words(const TrtllmPart& part, const Environment& env) {
  const Generation& generation = part.generation();
  if (const auto mb = env.get(kWorkspaceMb); mb && !mb->empty()) return fmt::format("{}={}", kWorkspaceMb, *mb);
  return generation.fixed_workspace ? "2048 MiB, whatever max_num_tokens is"
                                    : fmt::format("sized for max_num_tokens {}", part.max_num_tokens);
}

}  // namespace

const FlashInferLimits& limits_of(const Generation& generation) {
  static const std::map<std::string_view, FlashInferLimits> rows = [] {
    std::map<std::string_view, FlashInferLimits> made;
    for (const Generation& one : generations())
      made.emplace(one.name, FlashInferLimits{.version = {},
                                              .tag = "",
                                              .max_top_k = one.kernel.max_top_k,
                                              .max_payloads = one.kernel.max_payloads,
                                              .max_ranks = static_cast<int>(one.kernel.max_ranks),
                                              .num_metainfo_fields = 10,
                                              .divisible_experts = false,
                                              .dispatch_checks_ranks = one.checks_ranks_first,
                                              .supported_top_k = one.supported_top_k,
                                              .payload_alignment = one.kernel.aligns_payloads ? 128 : 1,
                                              .skips_invalid_ids = one.skips_invalid_ids});
    return made;
  }();
  return rows.at(generation.name);
}

Outcome<std::int64_t> workspace_bytes(const TrtllmPart& part, const Environment& env) {
  std::optional<std::int64_t> automatic;
  if (part.given.model && !part.generation().fixed_workspace) {
    const Result<std::int64_t> sized = automatic_bytes(part.generation().kernel, shape_of(part));
    if (!sized) return raise("ValueError", sized.error().message);
    automatic = *sized;
  }
  const auto mb = env.get(kWorkspaceMb);
  if (!part.given.model && !part.generation().fixed_workspace && (!mb || mb->empty())) return 0;
  return chosen_bytes(mb, automatic);
}

void add_workspace(TrtllmPart& part, AllToAllSetup& out, Said& said) {
  for (const RankSetup& setup : part.setups)
    if (setup.lane == Lane::one_sided && setup.workspace_bytes != part.setups.front().workspace_bytes)
      said.reject("MnnvlMemory",
                  {ErrorKind::assertion_error, fmt::format("Not all rank allocating same size. ({} and {} bytes)",
                                                           part.setups.front().workspace_bytes, setup.workspace_bytes)},
                  fmt::format("give every rank the same {}: mpirun -x, srun --export=ALL", kWorkspaceMb));
  const std::int64_t bytes = part.setups.front().workspace_bytes;
  if (!part.given.model || bytes == 0) return;
  const ModelShape& model = *part.given.model;
  const DispatchRequest request = request_of(part, bytes);
  if (sends_nvfp4(part) && request.combine_bytes == 2 * model.hidden_size) out.dispatch_type = DispatchType::nvfp4;
  part.largest_r = largest_r(part.generation().kernel, request);
  const std::string source = source_in_words(part, part.given.env);
  if (part.largest_r < part.max_num_tokens) {
    out.max_num_tokens = part.largest_r;
    out.max_num_tokens_source =
        fmt::format("what the workspace of {} bytes takes ({}{})", bytes, source,
                    request.combine_bytes > 2 * model.hidden_size
                        ? fmt::format(", but rows are padded to hidden {}", request.combine_bytes / 2)
                        : "");
  } else {
    out.max_num_tokens_source += fmt::format("; the workspace takes R up to {} ({})", part.largest_r, source);
  }
  Capacity capacity;
  capacity.max_num_tokens = out.max_num_tokens;
  for (const std::int64_t a_token : request.payloads) capacity.dispatch_bytes_per_token += a_token;
  capacity.combine_bytes_per_token = request.combine_bytes;
  capacity.formula_bytes = automatic_bytes(part.generation().kernel, shape_of(part)).value_or(bytes);
  capacity.workspace_bytes_per_rank = bytes;
  out.capacity = capacity;
}

}  // namespace a2asim::trtllm
