// The table of the plug-in: flashinfer_group.h behind the calls of gpu/backend_plugin.h.
#include <cstdlib>

#include "tools/backends/flashinfer/flashinfer_group.h"

namespace {

namespace fi = tensorrt_llm::kernels::moe_alltoall;
using a2asim::flashinfer::Group;
using a2asim::flashinfer::has_rank_mask;

std::string create_error;

// Calls body; what it throws becomes the object's error.
template <class Body>
int guarded(void* object, const Body& body) {
  std::string& error = object == nullptr ? create_error : static_cast<Group*>(object)->error;
  try {
    body();
    return 0;
  } catch (const std::exception& failure) {
    error = failure.what();
    if (error.find("Unsupported top_k") != std::string::npos)
      error = "SKIPPED: this release has no kernel for this top_k";
  }
  return 1;
}

Group& group_of(void* object) { return *static_cast<Group*>(object); }

// Sums of one order since v0.6.16: before, every addition of combine was rounded to the type of the rows.
constexpr std::uint64_t kCapabilities =
    A2ASIM_CAN_TOLD_SLOTS | A2ASIM_CAN_ZERO_TOKENS | A2ASIM_CAN_CHANGING_R | A2ASIM_CAN_UNEQUAL_R |
    A2ASIM_CAN_SEVERAL_RANKS | A2ASIM_CAN_GRAPHS | A2ASIM_CAN_SANITIZE | A2ASIM_CAN_EXPERTS |
    A2ASIM_CAN_READ_WORKSPACE |
    (has_rank_mask<fi::MoeA2ADispatchParams> ? A2ASIM_CAN_RANK_MASK | A2ASIM_CAN_SUM_ORDER : 0);

// Before CUDA starts: a queue for every rank's stream, and all kernels loaded at once, or ranks would wait for each
// other.
const int settings = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1) + setenv("CUDA_MODULE_LOADING", "EAGER", 1);

}  // namespace

extern "C" const a2asim_backend_v1 a2asim_backend_v1_table = {
    .version = A2ASIM_BACKEND_VERSION,
    .struct_bytes = sizeof(a2asim_backend_v1),
    .name = "flashinfer " A2ASIM_FLASHINFER_VERSION,
    .capabilities = kCapabilities,
    .workspace_bytes = [](const a2asim_group_v1*, std::int32_t) { return std::int64_t{0}; },
    .create = [](const a2asim_group_v1* group,
                 void** object) { return guarded(nullptr, [&] { *object = new Group(*group); }); },
    .destroy = [](void* object) { delete static_cast<Group*>(object); },
    .error =
        [](void* object, a2asim_error_v1* error) {
          const std::string& text = object == nullptr ? create_error : group_of(object).error;
          std::strncpy(error->text, text.c_str(), static_cast<std::size_t>(error->text_bytes - 1));
        },
    .dispatch = [](void* object, const a2asim_input_v1* inputs,
                   void*) { return guarded(object, [&] { group_of(object).dispatch(inputs); }); },
    .received =
        [](void* object, std::int32_t local, a2asim_view_v1* view) {
          return guarded(object, [&] { group_of(object).view(static_cast<std::size_t>(local), *view); });
        },
    .copy = [](void* object, void* to, const void* from,
               std::int64_t bytes) { return guarded(object, [&] { Group::copy(to, from, bytes); }); },
    .combine = [](void* object, const std::int64_t* runtime_max, void* const* outputs,
                  void*) { return guarded(object, [&] { group_of(object).combine(runtime_max, outputs); }); },
    .slots =
        [](void* object, std::int32_t local, std::int32_t* slots) {
          return guarded(object, [&] { group_of(object).slots(static_cast<std::size_t>(local), slots); });
        },
    .set_rank_mask = [](void* object,
                        std::uint64_t mask) { return guarded(object, [&] { group_of(object).set_mask(mask); }); },
    .sanitize = [](void* object, std::int32_t invalid_expert_id,
                   void*) { return guarded(object, [&] { group_of(object).sanitize(invalid_expert_id); }); },
    .experts =
        [](void* object, std::int32_t hidden_payload, std::int32_t weight_payload, void*) {
          return guarded(object, [&] { group_of(object).experts({hidden_payload, weight_payload}); });
        },
    .read_workspace =
        [](void* object, std::int32_t rank, void* to, std::int64_t bytes) {
          return guarded(object, [&] { group_of(object).read(static_cast<std::size_t>(rank), to, bytes); });
        },
    .poison = [](void* object, std::int32_t byte) { return guarded(object, [&] { group_of(object).poison(byte); }); },
    .capture =
        [](void* object, const a2asim_input_v1* inputs, std::int32_t invalid_expert_id, std::int32_t hidden_payload,
           std::int32_t weight_payload, std::int32_t* graph) {
          return guarded(object, [&] {
            *graph = group_of(object).capture(inputs, invalid_expert_id, {hidden_payload, weight_payload});
          });
        },
    .replay =
        [](void* object, const std::int32_t* graphs, const a2asim_input_v1* inputs, void* const* outputs) {
          return guarded(object, [&] { group_of(object).replay(graphs, inputs, outputs); });
        },
    .check = nullptr,
};
