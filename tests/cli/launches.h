// Launches of SGLang that several tests check: one that agrees, and one whose counts collapse until v0.5.16.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace a2asim {

inline const std::string kAgreeing =
    "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention "
    "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --max-running-requests 512 "
    "--chunked-prefill-size 8192 --cuda-graph-max-bs 64";
inline const std::string kCollapsing = kAgreeing + " --enable-dp-lm-head --moe-dense-tp-size 1";

// The words of a command without quotes, behind those that are there.
inline std::vector<std::string> with_words(std::vector<std::string> args, const std::string& command) {
  std::istringstream words(command);
  for (std::string word; words >> word;) args.push_back(word);
  return args;
}

}  // namespace a2asim
