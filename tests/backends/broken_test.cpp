// The suite over deliberately broken copies of the simulator, as plug-ins: each makes a mistake that kernels make.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "sim/conformance/suite.h"
#include "tools/backends/builtin_table.h"
#include "tools/backends/plugin_alltoall.h"

namespace a2asim {
namespace {

// The table that works, and what the broken ones remember.
const a2asim_backend_v1* good = nullptr;
std::map<std::pair<void*, std::int32_t>, std::vector<std::vector<std::byte>>> rows_kept;
std::map<std::pair<void*, std::int32_t>, std::vector<std::int64_t>> counts_kept;
const a2asim_group_v1* group = nullptr;

int create(const a2asim_group_v1* given, void** object) {
  group = given;
  return good->create(given, object);
}

// Slots 4 bytes too far apart, in rows of the first payload.
int slot_stride(void* object, std::int32_t local, a2asim_view_v1* view) {
  const int code = good->received(object, local, view);
  const auto bytes = static_cast<std::size_t>(group->ranks[0].payload_bytes_per_token[0]);
  auto& kept = rows_kept[{object, local}];
  kept.resize(static_cast<std::size_t>(group->ep_size));
  for (int s = 0; code == 0 && s < group->ep_size; ++s) {
    const auto rows = static_cast<std::size_t>(view->num_rows[s]);
    std::vector<std::byte>& moved = kept[static_cast<std::size_t>(s)];
    moved.assign(rows * bytes, std::byte{0});
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t from = std::min(i * (bytes + 4), (rows - 1) * bytes);
      std::memcpy(moved.data() + i * bytes, static_cast<const std::byte*>(view->rows[s]) + from, bytes);
    }
    view->rows[s] = moved.data();
  }
  return code;
}

// Counters go on where the last round ended.
int no_zeroing(void* object, std::int32_t local, a2asim_view_v1* view) {
  const int code = good->received(object, local, view);
  auto& kept = counts_kept[{object, local}];
  kept.resize(static_cast<std::size_t>(group->ep_size), 0);
  for (int s = 0; code == 0 && s < group->ep_size; ++s)
    view->counters[s] = kept[static_cast<std::size_t>(s)] += view->counters[s];
  return code;
}

// The flag of the last source comes before its rows: the reader finds what was there before.
int early_flag(void* object, std::int32_t local, a2asim_view_v1* view) {
  const int code = good->received(object, local, view);
  const int s = group->ep_size - 1;
  const auto bytes = static_cast<std::size_t>(view->num_rows[s] * group->ranks[0].payload_bytes_per_token[0]);
  std::vector<std::vector<std::byte>>& kept = rows_kept[{object, local}];
  kept.resize(2);
  const auto* const now = static_cast<const std::byte*>(view->rows[s]);
  kept[1] = kept[0];
  kept[1].resize(bytes, std::byte{0xFF});
  kept[0].assign(now, now + bytes);
  view->rows[s] = kept[1].data();
  return code;
}

// Rows to oneself take another way, which is missing.
int own_rows_lost(void* object, std::int32_t local, a2asim_view_v1* view) {
  const int code = good->received(object, local, view);
  view->num_rows[local] = view->counters[local] = 0;
  return code;
}

// The first token's output is written to the second's place as well.
int wrong_token(void* object, const std::int64_t* runtime_max, void* const* outputs, void* stream) {
  const int code = good->combine(object, runtime_max, outputs, stream);
  if (counts_kept[{object, -1}].size() == 1 && counts_kept[{object, -1}][0] > 1)
    std::memcpy(static_cast<std::byte*>(outputs[0]) + 16, outputs[0], 16);
  return code;
}
int count_tokens(void* object, const a2asim_input_v1* inputs, void* stream) {
  counts_kept[{object, -1}] = {inputs[0].num_tokens};
  return good->dispatch(object, inputs, stream);
}

std::vector<conformance::CaseResult> run_suite(const a2asim_backend_v1& table) {
  const auto session = PluginSession::in_process(table);
  REQUIRE_MESSAGE(session.has_value(), (session ? "" : session.error().message));
  const conformance::Subject subject{
      "broken", [&](const std::vector<AllToAllConfig>& configs, bool guard) -> Result<std::unique_ptr<Dispatcher>> {
        auto made = PluginAllToAll::create(*session, {configs, guard, {}, false}, 1000);
        if (!made) return tl::unexpected(made.error());
        return std::unique_ptr<Dispatcher>(std::move(*made));
      }};
  std::vector<conformance::CaseResult> results;
  for (const conformance::Case& one : conformance::cases())
    if (!one.is_large) results.push_back(conformance::run(subject, one));
  return results;
}

std::int64_t failed(const std::vector<conformance::CaseResult>& results) {
  return std::ranges::count(results, conformance::CaseOutcome::failed, &conformance::CaseResult::outcome);
}

TEST_CASE("broken backends: the simulator itself passes all cases, and none is skipped") {
  const auto results = run_suite(builtin_table(Builtin::sim, simulator_capabilities(), make_simulator));
  for (const conformance::CaseResult& one : results) CHECK_MESSAGE(one.why.empty(), one.name, ": ", one.why);
  CHECK(results.size() > 12);
}

TEST_CASE("broken backends: the suite fails every one of them") {
  good = &builtin_table(Builtin::sim, simulator_capabilities(), make_simulator);
  using Received = int (*)(void*, std::int32_t, a2asim_view_v1*);
  const std::pair<const char*, Received> readers[] = {{"wrong slot stride", slot_stride},
                                                      {"counters are not zeroed", no_zeroing},
                                                      {"flag too early", early_flag},
                                                      {"own rows lost", own_rows_lost}};
  // Without the workspace, so that what is wrong has to show in rows, counters and outputs.
  a2asim_backend_v1 table = *good;
  table.capabilities &= ~(A2ASIM_CAN_READ_WORKSPACE | A2ASIM_CAN_EXPERTS);
  table.create = create;
  CHECK(failed(run_suite(table)) == 0);
  for (const auto& [what, received] : readers) {
    CAPTURE(what);
    rows_kept.clear();
    counts_kept.clear();
    a2asim_backend_v1 broken = table;
    broken.received = received;
    CHECK(failed(run_suite(broken)) >= 3);
  }
  counts_kept.clear();
  a2asim_backend_v1 broken = table;
  broken.dispatch = count_tokens;
  broken.combine = wrong_token;
  CHECK(failed(run_suite(broken)) >= 3);
}

TEST_CASE("broken backends: one in a process of its own is judged alike") {
  const auto session =
      PluginSession::in_child(builtin_table(Builtin::sim, simulator_capabilities(), make_simulator), {});
  REQUIRE(session.has_value());
  const conformance::Subject subject{
      "sim", [&](const std::vector<AllToAllConfig>& configs, bool guard) -> Result<std::unique_ptr<Dispatcher>> {
        auto made = PluginAllToAll::create(*session, {configs, guard, {}, false}, 1000);
        if (!made) return tl::unexpected(made.error());
        return std::unique_ptr<Dispatcher>(std::move(*made));
      }};
  for (const conformance::Case& one : conformance::law_cases()) {
    const conformance::CaseResult result = conformance::run(subject, one);
    CHECK_MESSAGE(result.outcome == conformance::CaseOutcome::passed, one.name, ": ", result.why);
  }
}

}  // namespace
}  // namespace a2asim
