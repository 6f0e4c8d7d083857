// Any bytes as YAML with commands (compose, Kubernetes, recipes) and as an option file give pieces, or one line.
#include "model/launch/file_kinds.h"
#include "model/launch/launch_file.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  const std::string text = fuzz::text_of(data, size);
  LaunchCommand command;
  if (const auto merged = merge_config(command, {}, text); !merged) fuzz::require_bad_input(merged.error());
  const auto found = pieces_of_yaml(text, {});
  if (!found) return 0;
  if (found->error) fuzz::require_bad_input(*found->error);
  std::size_t bytes = 0;
  for (const LaunchPiece& piece : found->pieces) bytes += piece.text.size();
  fuzz::require(found->error.has_value() || bytes < (std::size_t{16} << 20));
  return 0;
}
