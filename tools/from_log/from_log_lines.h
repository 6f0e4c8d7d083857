// One line of an SGLang server log -> the batch that it reports.
//
// SGLang: report_prefill_stats and report_decode_stats (managers/scheduler_components/metrics_reporter.py from v0.5.15,
// observability/scheduler_metrics_mixin.py before, managers/ before 2026), the logger's prefix in configure_logger
// (utils/common.py) and run_scheduler_process (managers/scheduler.py).
// What they print, by version:
//   [2026-06-20 10:11:12 DP1 PP0 ATTN_CP0 MOE_DP0 TP1 EP1] Decode batch, #running-req: 3, .., cuda graph: True, ..
//   [2026-06-20 10:11:12.345 DP0 TP0] Prefill batch [17], #new-seq: 1, #new-token: 128, .., #running-req: 0, ..
// Milliseconds come with SGLANG_LOG_MS, the number in brackets (the scheduler's iteration) with
// SGLANG_LOG_FORWARD_ITERS; up to 2025 a full stop stands where the comma is. A tag is there only where the size is
// above 1, DP with data parallelism only. Of a replica's ranks the first attention-TP rank logs, in the newest
// versions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace a2asim {

struct BatchLine {
  enum class Kind : std::uint8_t { prefill, decode };
  std::size_t number = 0;  // of the line, from 1
  Kind kind = Kind::decode;
  std::optional<std::int64_t> time_ms;  // of a clock without time zone; only differences count
  std::optional<std::int64_t> dp_rank, pp_rank, tp_rank, attn_cp_rank;
  std::optional<std::int64_t> iteration;
  std::int64_t count = 0;        // #running-req of a decode batch, #new-token of a prefill batch
  std::int64_t running_req = 0;  // of a prefill batch: requests that were decoding
  std::optional<bool> cuda_graph;  // on other devices the label is theirs: "npu graph"
  double accept_len = 0;  // of a decode batch that speculates: accepted tokens a request and pass; 0: not logged
};

// A line that reports a batch and cannot be used.
struct UnusableLine {
  std::size_t number = 0;
  std::string_view reason;
};

using LogEntry = std::variant<BatchLine, UnusableLine>;

// Prefixes of containers and journals, colours and carriage returns do not matter; two messages that share a line are
// two entries. Nothing for any other line, and no allocation for it either. Any bytes may come.
std::vector<LogEntry> read_batches(std::string_view line, std::size_t number);

// The same text without terminal colours ("\x1b[31m").
std::string without_colours(std::string_view text);

}  // namespace a2asim
