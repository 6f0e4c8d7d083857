// Any bytes as a Dockerfile or a Markdown document give pieces whose lines are the file's, or nothing.
#include "model/launch/file_kinds.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  const std::string text = fuzz::text_of(data, size);
  for (const auto& found : {pieces_of_dockerfile(text, {}), pieces_of_markdown(text)}) {
    if (!found) continue;
    if (found->error) fuzz::require_bad_input(*found->error);
    for (const LaunchPiece& piece : found->pieces) fuzz::require(piece.line >= 1 && piece.line <= size + 2);
  }
  return 0;
}
