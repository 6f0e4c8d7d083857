// A log as a stream: only its batches are kept.
#include <fmt/format.h>

#include "tools/from_log/from_log.h"
#include "tools/program/input.h"

namespace a2asim {
namespace {

// One line without its end; false at the end of the input. What is beyond the limit is skipped.
bool next_line(std::istream& in, std::string& line, bool& is_cut) {
  line.clear();
  is_cut = false;
  std::streambuf& buffer = *in.rdbuf();
  for (int c = buffer.sbumpc();; c = buffer.sbumpc()) {
    if (c == std::char_traits<char>::eof()) return !line.empty();
    if (c == '\n') return true;
    if (line.size() < kMaxLogLineBytes) {
      line += static_cast<char>(c);
    } else {
      is_cut = true;
    }
  }
}

void take_server_args(const std::string& line, LogContents& log) {
  if (line.find("server_args=") == std::string::npos) return;
  Result<std::optional<LoggedArgs>> args = read_server_args(without_colours(line));
  if (!args) {
    if (log.args_problem.empty()) log.args_problem = fmt::format("line {}: {}", log.lines, args.error().message);
  } else if (!*args) {
    return;
  } else if (!log.args) {
    log.args = std::move(*args);
    log.args_line = log.lines;
  } else if (!log.other_server_line && !same_deployment(*log.args, **args)) {
    log.other_server_line = log.lines;
  }
}

}  // namespace

Result<LogContents> read_log(std::istream& in, std::size_t first_line, std::size_t last_line) {
  LogContents log;
  std::string line;
  for (bool is_cut = false; next_line(in, line, is_cut);) {
    ++log.lines;
    log.cut_lines += is_cut ? 1 : 0;
    take_server_args(line, log);
    if (log.lines < first_line || log.lines > last_line) continue;
    for (LogEntry& entry : read_batches(line, log.lines)) {
      if (const auto* unusable_line = std::get_if<UnusableLine>(&entry)) {
        log.unusable.push_back(*unusable_line);
      } else {
        log.batches.push_back(std::get<BatchLine>(entry));
      }
    }
    if (log.batches.size() + log.unusable.size() > kMaxBatchLines)
      return unusable(fmt::format("more than {} batch lines: take a part with --lines FIRST:LAST", kMaxBatchLines));
  }
  return log;
}

}  // namespace a2asim
