// One call of a plug-in's table as plain data, in memory that caller and callee share at the same address: so that the
// same bytes serve a table in this process and one in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gpu/backend_plugin.h"
#include "model/base/result.h"

namespace a2asim {

enum class PluginOp : std::int32_t {
  load,
  workspace_bytes,
  create,
  destroy,
  dispatch,
  received,
  read_rows,      // of a view that was received
  write_results,  // the same
  combine,
  slots,
  set_rank_mask,
  sanitize,
  experts,
  read_workspace,
  poison,
  capture,
  replay,
  check,
};
const char* name(PluginOp op);

inline tl::unexpected<Error> no_room() {
  return fail(ErrorKind::bad_input, "a plug-in's call carries more bytes than there is room for");
}

inline constexpr std::int64_t kPluginTextBytes = 1024;
inline constexpr std::int64_t kPluginFacts = 32;

struct PluginCall {
  PluginOp op = PluginOp::load;
  void* object = nullptr;  // the plug-in's own; create sets it
  std::int32_t a = 0, b = 0, c = 0;
  std::uint64_t mask = 0;
  std::int64_t bytes = 0;
  const a2asim_group_v1* group = nullptr;
  const a2asim_input_v1* inputs = nullptr;
  a2asim_view_v1 view = {};
  std::int64_t* row_bytes = nullptr;  // of read_rows: a payload; of write_results: one number
  void** rows = nullptr;              // of read_rows: where each (payload, source) goes; of write_results: each source
  const std::int64_t* runtime_max = nullptr;
  void** outputs = nullptr;
  std::int32_t* words = nullptr;
  void* to = nullptr;

  // The answer.
  std::int32_t code = 0;
  std::int64_t number = 0;
  std::int32_t error_kind = 0, num_facts = 0;
  std::int64_t facts[kPluginFacts][11] = {};
  char text[kPluginTextBytes] = {};
  std::uint64_t capabilities = 0;  // of load; text is the name
};

// In the process of the table. `table` is nullptr for load alone, whose checks this makes.
void perform(const a2asim_backend_v1* table, PluginCall& call);
// "" or why a table cannot be used.
std::string reject(const a2asim_backend_v1& table);
// The table that a library exports, or nullptr and why in call.text. Runs its constructors.
const a2asim_backend_v1* open_library(const char* path, PluginCall& call);

}  // namespace a2asim
