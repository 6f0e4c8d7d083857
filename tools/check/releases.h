// A launch under many versions: `check --sglang all`, and what `upgrade` says of two of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/check/server_check.h"

namespace a2asim {

// Versions one after the other under which check says the same.
struct ReleaseRow {
  std::vector<const Version*> versions;
  std::optional<Verdict> verdict;  // nothing: not decided
  bool has_error = false;
  std::optional<std::int64_t> max_num_tokens, workspace_bytes_per_rank;
  std::string finding;  // the first that is no note, in words; or why it is not decided

  bool says_the_same(const ReleaseRow& other) const {
    return verdict == other.verdict && has_error == other.has_error && max_num_tokens == other.max_num_tokens &&
           workspace_bytes_per_rank == other.workspace_bytes_per_rank && finding == other.finding;
  }
};
std::string label(const ReleaseRow& row);  // "v0.5.9 to v0.5.13", or the name of a version without a release

// Oldest first. range: "all", "A..B", "A..", "..B"; nothing: all. Errors: bad_input, a version that is not known.
Result<std::vector<ReleaseRow>> release_rows(const PreparedServer& prepared, const std::optional<std::string>& range);

// Some engine's version is a range.
bool is_range(const ServerOptions& options);

struct ReleasesOutput {
  std::string format;  // text or json
  std::optional<std::string> report;
};
// check over a range: a table for each server. The exit code.
Result<int> check_releases(const ServerOptions& options, SettingsFiles& files, const std::vector<LaunchText>& texts,
                           const ReleasesOutput& output, Io& io);

}  // namespace a2asim
