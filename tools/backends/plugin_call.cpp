#include "tools/backends/plugin_call.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "model/alltoall/dispatcher.h"

namespace a2asim {
namespace {

void refuse(PluginCall& call, std::string_view why) {
  call.code = -1;
  call.error_kind = static_cast<std::int32_t>(ErrorKind::bad_input);
  const std::size_t size = std::min<std::size_t>(why.size(), kPluginTextBytes - 1);
  std::memcpy(call.text, why.data(), size);
  call.text[size] = '\0';
}

void fetch_error(const a2asim_backend_v1& table, PluginCall& call) {
  a2asim_error_v1 error = {call.text, kPluginTextBytes, static_cast<std::int32_t>(ErrorKind::runtime_error),
                           0,         call.facts,       kPluginFacts};
  table.error(call.op == PluginOp::create ? nullptr : call.object, &error);
  call.text[kPluginTextBytes - 1] = '\0';
  call.error_kind = error.kind;
  call.num_facts = error.num_facts;
}

// Rows of every (payload, source), or results of every source, by one copy each.
int copy_rows(const a2asim_backend_v1& table, PluginCall& call, bool writes) {
  const std::int32_t ep_size = call.group->ep_size;
  const std::int32_t payloads = writes ? 1 : call.group->ranks[call.b].num_payloads;
  for (std::int32_t p = 0; p < payloads; ++p) {
    for (std::int32_t s = 0; s < ep_size; ++s) {
      const std::int64_t bytes = call.view.num_rows[s] * call.row_bytes[p];
      if (bytes == 0) continue;
      const std::int32_t at = p * ep_size + s;
      const int code = writes ? table.copy(call.object, call.view.results[s], call.rows[s], bytes)
                              : table.copy(call.object, call.rows[at], call.view.rows[at], bytes);
      if (code != 0) return code;
    }
  }
  return 0;
}

int run(const a2asim_backend_v1& table, PluginCall& call) {
  switch (call.op) {
    case PluginOp::load:
      return 0;
    case PluginOp::workspace_bytes:
      call.number = table.workspace_bytes(call.group, call.a);
      return 0;
    case PluginOp::create:
      return table.create(call.group, &call.object);
    case PluginOp::destroy:
      table.destroy(call.object);
      return 0;
    case PluginOp::dispatch:
      return table.dispatch(call.object, call.inputs, nullptr);
    case PluginOp::received:
      return table.received(call.object, call.a, &call.view);
    case PluginOp::read_rows:
    case PluginOp::write_results:
      return copy_rows(table, call, call.op == PluginOp::write_results);
    case PluginOp::combine:
      return table.combine(call.object, call.runtime_max, call.outputs, nullptr);
    case PluginOp::slots:
      return table.slots(call.object, call.a, call.words);
    case PluginOp::set_rank_mask:
      return table.set_rank_mask(call.object, call.mask);
    case PluginOp::sanitize:
      return table.sanitize(call.object, call.a, nullptr);
    case PluginOp::experts:
      return table.experts(call.object, call.a, call.b, nullptr);
    case PluginOp::read_workspace:
      return table.read_workspace(call.object, call.a, call.to, call.bytes);
    case PluginOp::poison:
      return table.poison(call.object, call.a);
    case PluginOp::capture:
      return table.capture(call.object, call.inputs, call.a, call.b, call.c, call.words);
    case PluginOp::replay:
      return table.replay(call.object, call.words, call.inputs, call.outputs);
    case PluginOp::check:
      return table.check == nullptr ? 0 : table.check(call.object);
  }
  return -1;
}

}  // namespace

const char* name(PluginOp op) {
  constexpr std::array<const char*, 18> names = {
      "load",  "workspace_bytes", "create",   "destroy", "dispatch",       "received", "copy",    "copy",   "combine",
      "slots", "set_rank_mask",   "sanitize", "experts", "read_workspace", "poison",   "capture", "replay", "check"};
  return names[static_cast<std::size_t>(op)];
}

std::string reject(const a2asim_backend_v1& table) {
  if (table.version != A2ASIM_BACKEND_VERSION || table.struct_bytes != sizeof(a2asim_backend_v1))
    return fmt::format("its table says version {} and {} bytes; version {} has {}", table.version, table.struct_bytes,
                       A2ASIM_BACKEND_VERSION, sizeof(a2asim_backend_v1));
  if ((table.capabilities & ~Capabilities::all().bits()) != 0)
    return fmt::format("it claims capabilities {:#x}, of which this program knows {:#x}", table.capabilities,
                       Capabilities::all().bits());
  const struct {
    const char* function;
    bool is_there;
    std::uint64_t needed_by;  // 0: always
  } functions[] = {{"name", table.name != nullptr, 0},
                   {"workspace_bytes", table.workspace_bytes != nullptr, 0},
                   {"create", table.create != nullptr, 0},
                   {"destroy", table.destroy != nullptr, 0},
                   {"error", table.error != nullptr, 0},
                   {"dispatch", table.dispatch != nullptr, 0},
                   {"received", table.received != nullptr, 0},
                   {"copy", table.copy != nullptr, 0},
                   {"combine", table.combine != nullptr, 0},
                   {"slots", table.slots != nullptr, A2ASIM_CAN_TOLD_SLOTS},
                   {"set_rank_mask", table.set_rank_mask != nullptr, A2ASIM_CAN_RANK_MASK},
                   {"sanitize", table.sanitize != nullptr, A2ASIM_CAN_SANITIZE},
                   {"experts", table.experts != nullptr, A2ASIM_CAN_EXPERTS},
                   {"read_workspace", table.read_workspace != nullptr, A2ASIM_CAN_READ_WORKSPACE},
                   {"poison", table.poison != nullptr, A2ASIM_CAN_READ_WORKSPACE},
                   {"capture", table.capture != nullptr, A2ASIM_CAN_GRAPHS},
                   {"replay", table.replay != nullptr, A2ASIM_CAN_GRAPHS}};
  for (const auto& one : functions)
    if (!one.is_there && (one.needed_by == 0 || (table.capabilities & one.needed_by) != 0))
      return fmt::format("its table has no {}{}", one.function, one.needed_by == 0 ? "" : ", which a capability needs");
  return "";
}

const a2asim_backend_v1* open_library(const char* path, PluginCall& call) {
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    refuse(call, fmt::format("it cannot be loaded: {}", ::dlerror()));
    return nullptr;
  }
  if (const void* table = ::dlsym(library, "a2asim_backend_v1_table"))
    return static_cast<const a2asim_backend_v1*>(table);
  for (int version = 2; version < 100; ++version) {
    if (::dlsym(library, fmt::format("a2asim_backend_v{}_table", version).c_str()) == nullptr) continue;
    refuse(call, fmt::format("it is of version {} of the plug-in interface; this program knows version {}", version,
                             A2ASIM_BACKEND_VERSION));
    return nullptr;
  }
  refuse(call, "it exports no a2asim_backend_v1_table: see gpu/backend_plugin.h");
  return nullptr;
}

void perform(const a2asim_backend_v1* table, PluginCall& call) {
  call.code = 0;
  if (call.op == PluginOp::load) {
    if (const std::string why = reject(*table); !why.empty()) return refuse(call, why);
    call.capabilities = table->capabilities;
    std::strncpy(call.text, table->name, kPluginTextBytes - 1);
    return;
  }
  call.code = run(*table, call);
  if (call.code != 0) fetch_error(*table, call);
}

}  // namespace a2asim
