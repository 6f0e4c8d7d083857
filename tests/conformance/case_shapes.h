// Which worlds the cases of the suite make, one after the other: FlashInfer's grids are its own tests', number by
// number.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "model/alltoall/alltoall.h"

namespace a2asim::conformance {

struct CaseShapes {
  std::string_view name;
  std::vector<std::string> shapes;
  bool is_large = false;
};

// "4x16 64/8 1024+128 bfloat16[256] ids 0": ranks x cap, experts / top-k, bytes of the payloads, output, payload of
// ids.
inline std::string shape_in_words(const std::vector<AllToAllConfig>& configs, bool guard) {
  const AllToAllConfig& one = configs[0];
  std::string bytes;
  for (const std::int64_t payload : one.payload_bytes_per_token)
    bytes += fmt::format("{}{}", bytes.empty() ? "" : "+", payload);
  std::string text =
      fmt::format("{}x{} {}/{} {}", configs.size(), one.max_num_tokens, one.num_experts, one.top_k, bytes);
  if (one.hidden_size > 1) text += fmt::format(" {}[{}]", name(one.combine_type), one.hidden_size);
  if (one.expert_id_payload >= 0) text += fmt::format(" ids {}", one.expert_id_payload);
  if (~one.active_rank_mask != 0) text += fmt::format(" without ranks 0b{:b}", ~one.active_rank_mask);
  return text + (guard ? "" : " no guard");
}

inline const CaseShapes kCaseShapes[] = {
    {"FlashInfer SINGLE_GPU",
     {"1x902 256/8 14336+28672+86016+28672+143360 ids 2", "1x10 128/4 576+1152+3456+1152+5760 ids 2",
      "1x10 8/2 16+32+96+32+160 ids 2"},
     true},
    {"FlashInfer MULTI_RANK",
     {"2x5 2/1 16+32+96+32+160", "4x32 4/1 65536+131072+393216+131072+655360", "8x16 8/1 4096+8192+24576+8192+40960"},
     true},
    {"FlashInfer NON_DIVISIBLE", {"4x16 6/1 64", "5x16 8/1 128", "3x16 10/1 32"}},
    {"FlashInfer COMPACT_EP4",
     {"4x4 64/6 1024+128+88+88 ids 2", "4x4 64/8 1024+128+88+88 ids 2", "4x4 64/10 1024+128+88+88 ids 2",
      "4x4 64/16 1024+128+88+88 ids 2", "4x4 64/22 1024+128+88+88 ids 2"}},
    {"FlashInfer LARGER_PAYLOADS",
     {"8x16 8/1 8192+8192+8192+8192+8192", "8x16 8/1 8192+8192+8192+8192+8192+8192"},
     true},
    {"rows of NVFP4 and MXFP8 with their scales",
     {"4x12 64/8 128+16+32+32 ids 2", "4x12 64/8 128+16+32+32 bfloat16[256] ids 2", "4x12 64/8 256+8+32+32 ids 2",
      "4x12 64/8 256+8+32+32 bfloat16[256] ids 2", "4x12 64/8 3584+448+32+32 ids 2",
      "4x12 64/8 3584+448+32+32 bfloat16[7168] ids 2", "4x12 64/8 7168+224+32+32 ids 2",
      "4x12 64/8 7168+224+32+32 bfloat16[7168] ids 2"}},
    {"FlashInfer SANITIZE", {"2x64 2/1 4+1 ids 0", "4x32 4/1 4+1 ids 0", "8x16 8/1 4+1 ids 0"}},
    {"FlashInfer ACTIVE_RANK_MASK",
     {"4x16 4/1 4+64 ids 0 without ranks 0b100", "5x16 5/1 4+128 ids 0 without ranks 0b1"}},
    {"FlashInfer COMBINE bfloat16",
     {"4x16 8/2 8+8192+8+1 bfloat16[4096] ids 0", "4x16 16/4 16+5760+16+1 bfloat16[2880] ids 0",
      "8x16 48/6 24+10240+24+1 bfloat16[5120] ids 0", "8x16 64/8 32+14336+32+1 bfloat16[7168] ids 0",
      "8x16 64/8 32+8192+32+1 bfloat16[4096] ids 0", "8x16 80/10 40+8192+40+1 bfloat16[4096] ids 0",
      "8x16 128/16 64+8192+64+1 bfloat16[4096] ids 0", "8x16 176/22 88+8192+88+1 bfloat16[4096] ids 0"},
     true},
    {"FlashInfer COMBINE with one more payload",
     {"8x16 64/8 32+14336+32+4+1 bfloat16[7168] ids 0", "4x16 8/2 8+8192+8+4+1 bfloat16[4096] ids 0"},
     true},
    {"combine in float16 and float32",
     {"4x16 8/2 8+640+8+1 float16[320] ids 0", "4x16 16/4 16+640+16+1 float16[320] ids 0",
      "8x16 48/6 24+640+24+1 float16[320] ids 0", "8x16 64/8 32+640+32+1 float16[320] ids 0",
      "8x16 64/8 32+640+32+1 float16[320] ids 0", "8x16 80/10 40+640+40+1 float16[320] ids 0",
      "8x16 128/16 64+640+64+1 float16[320] ids 0", "8x16 176/22 88+640+88+1 float16[320] ids 0",
      "4x16 8/2 8+1280+8+1 float32[320] ids 0", "4x16 16/4 16+1280+16+1 float32[320] ids 0",
      "8x16 48/6 24+1280+24+1 float32[320] ids 0", "8x16 64/8 32+1280+32+1 float32[320] ids 0",
      "8x16 64/8 32+1280+32+1 float32[320] ids 0", "8x16 80/10 40+1280+40+1 float32[320] ids 0",
      "8x16 128/16 64+1280+64+1 float32[320] ids 0", "8x16 176/22 88+1280+88+1 float32[320] ids 0"}},
    {"combine in the shapes without a tree",
     {"4x9 4/1 4+272+4+1 bfloat16[136] ids 0", "4x9 48/12 48+272+48+1 bfloat16[136] ids 0",
      "4x9 56/14 56+272+56+1 bfloat16[136] ids 0", "4x9 72/18 72+272+72+1 bfloat16[136] ids 0"}},
    {"unequal and zero tokens, several rounds", {"8x128 256/8 128+32+32 bfloat16[64] ids 1"}},
    {"a workspace that just fits, every token to one rank",
     {"1x5 3/2 48+8+8 bfloat16[24] ids 1", "2x5 6/2 48+8+8 bfloat16[24] ids 1", "3x5 9/2 48+8+8 bfloat16[24] ids 1",
      "8x5 24/2 48+8+8 bfloat16[24] ids 1"}},
    {"64 ranks", {"64x5 192/2 48+8+8 bfloat16[24] ids 1"}},
    {"more than 132 tokens in all", {"8x256 256/8 512+32+32 bfloat16[256] ids 1"}, true},
    {"rounds leave nothing for the next", {"4x8 16/4 64+16+16 bfloat16[32] ids 1"}},
    {"NaN, infinity and the largest numbers",
     {"2x6 4/2 32+8+8 bfloat16[16] ids 1", "2x6 4/2 32+8+8 float16[16] ids 1"}},
    {"replay of a capture equals the eager run", {"4x16 12/4 128+16+16 bfloat16[64] ids 1"}},
    {"ranks that disagree write by their own R and read by their own R", {"2x8 2/1 16+4+4 bfloat16[8] ids 1 no guard"}},
};

}  // namespace a2asim::conformance
