// The variable that sets the cap of FlashInfer's dispatcher (SGLang: environ.py).
#pragma once

#include <string_view>

namespace a2asim {

// Tokens that one rank may dispatch; up to pr25907 times ep_size. What it makes of max_num_tokens: capacity.h.
inline constexpr std::string_view kCapVariable = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK";

}  // namespace a2asim
