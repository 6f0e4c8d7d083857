// Rows that a rank of a plug-in received, and the results that go back in their places.
#include <fmt/format.h>

#include <algorithm>

#include "tools/backends/plugin_alltoall.h"

namespace a2asim {
Result<a2asim_view_v1> PluginAllToAll::view(std::size_t local) {
  const AllToAllConfig& config = config_of(local);
  const auto payloads = std::ssize(config.payload_bytes_per_token);
  PluginCall& call = begin(PluginOp::received);
  call.a = static_cast<std::int32_t>(local);
  SharedMemory& memory = session_->memory();
  a2asim_view_v1 view = {memory.take<std::int64_t>(config.ep_size), memory.take<std::int64_t>(config.ep_size),
                         memory.take<const void*>(payloads * config.ep_size), memory.take<void*>(config.ep_size)};
  if (view.results == nullptr) return no_room();
  std::fill_n(view.counters, config.ep_size, -1);
  std::fill_n(view.num_rows, config.ep_size, -1);
  std::fill_n(view.rows, payloads * config.ep_size, nullptr);
  std::fill_n(view.results, config.ep_size, nullptr);
  call.view = view;
  if (auto ok = session_->run(call); !ok) return tl::unexpected(ok.error());
  memory.keep();  // until the caller is through with it
  for (int source = 0; source < config.ep_size; ++source) {
    const std::int64_t rows = view.num_rows[source];
    const auto where = [&](std::string_view what) {
      return session_->distrust(fmt::format("rank {} {} of rank {}", local_ranks_[local], what, source));
    };
    if (rows < 0 || rows > runtime_max_[local])
      return where(fmt::format("reads {} rows (R is {})", rows, runtime_max_[local]));
    for (std::int64_t p = 0; p < payloads && rows > 0; ++p)
      if (view.rows[p * config.ep_size + source] == nullptr)
        return where(fmt::format("has no address for payload {}", p));
    if (rows > 0 && view.results[source] == nullptr) return where("has no address for results");
  }
  return view;
}

Result<Received> PluginAllToAll::received(int rank) {
  const std::size_t local = local_of(rank);
  const AllToAllConfig& config = config_of(local);
  const auto mark = session_->memory().mark();
  const auto seen = view(local);
  const auto release = [&](auto&& result) {
    session_->memory().release(mark);
    return std::forward<decltype(result)>(result);
  };
  if (!seen) return release(Result<Received>(tl::unexpected(seen.error())));
  Received out;
  const auto sources = static_cast<std::size_t>(config.ep_size), payloads = config.payload_bytes_per_token.size();
  out.counters.assign(seen->counters, seen->counters + sources);
  out.rows.assign(seen->num_rows, seen->num_rows + sources);
  PluginCall& call = begin(PluginOp::read_rows);
  call.view = *seen;
  call.b = rank;
  call.rows = session_->memory().take<void*>(static_cast<std::int64_t>(payloads * sources));
  call.row_bytes = session_->memory().take<std::int64_t>(static_cast<std::int64_t>(payloads));
  for (std::size_t p = 0; p < payloads && call.row_bytes != nullptr; ++p) {
    call.row_bytes[p] = config.payload_bytes_per_token[p];
    for (std::size_t s = 0; s < sources; ++s) {
      call.rows[p * sources + s] = session_->memory().take<std::byte>(out.rows[s] * call.row_bytes[p]);
      if (call.rows[p * sources + s] == nullptr) return release(Result<Received>(no_room()));
    }
  }
  const std::vector<void*> rows(call.rows, call.rows + payloads * sources);  // ours: the others can be written over
  if (auto ok = session_->run(call); !ok) return release(Result<Received>(tl::unexpected(ok.error())));
  out.payloads.resize(payloads);
  for (std::size_t p = 0; p < payloads; ++p) {
    for (std::size_t s = 0; s < sources; ++s) {
      const auto* const begin = static_cast<const std::byte*>(rows[p * sources + s]);
      out.payloads[p].emplace_back(begin, begin + out.rows[s] * config.payload_bytes_per_token[p]);
    }
  }
  return release(Result<Received>(std::move(out)));
}

Result<void> PluginAllToAll::give_results(int rank, std::span<const std::byte> rows) {
  const std::size_t local = local_of(rank);
  const AllToAllConfig& config = config_of(local);
  if ((config.active_rank_mask >> rank & 1) == 0) return {};
  const auto mark = session_->memory().mark();
  const auto seen = view(local);
  Result<void> ok = seen ? Result<void>() : Result<void>(tl::unexpected(seen.error()));
  if (ok) {
    PluginCall& call = begin(PluginOp::write_results);
    call.view = *seen;
    call.rows = session_->memory().take<void*>(config.ep_size);
    call.row_bytes = session_->memory().take<std::int64_t>(1);
    auto* const shared = session_->memory().take<std::byte>(std::ssize(rows));
    if (shared == nullptr) ok = no_room();
    std::size_t at = 0;
    for (int source = 0; ok && source < config.ep_size; ++source) {
      call.rows[source] = shared + at;
      at += static_cast<std::size_t>(seen->num_rows[source] * config.combine_bytes_per_token());
    }
    if (ok && at != rows.size()) ok = fail(ErrorKind::bad_input, "results are not of the rows that were received");
    if (ok) {
      std::ranges::copy(rows, shared);
      *call.row_bytes = config.combine_bytes_per_token();
      ok = session_->run(call);
    }
  }
  session_->memory().release(mark);
  return ok;
}

}  // namespace a2asim
