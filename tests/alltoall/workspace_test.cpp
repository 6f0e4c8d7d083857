#include "model/alltoall/workspace.h"

#include <doctest/doctest.h>

#include <vector>

#include "model/flashinfer/capacity.h"

using namespace a2asim;

namespace {

std::int64_t bf16_bytes(int ep_size, std::int64_t tokens, std::int64_t hidden, std::int64_t top_k) {
  const WorkspaceLayout layout = make_workspace_layout(ep_size, tokens, kMaxTopKWorkspace);
  return workspace_bytes_per_rank(layout, ep_size, tokens, 2 * hidden + 8 * top_k, 2 * hidden);
}

std::int64_t payload_start(int ep_size, std::int64_t tokens) {
  return make_workspace_layout(ep_size, tokens, kMaxTopKWorkspace).payload_data;
}

}  // namespace

TEST_CASE("workspace: worked sizes") {
  CHECK(payload_start(8, 128) == 22912);
  CHECK(payload_start(8, 4096) == 721280);
  CHECK(payload_start(32, 64) == 11904);
  CHECK(payload_start(8, 1) == 640);
  CHECK(bf16_bytes(8, 128, 7168, 8) == 29448576);
  CHECK(bf16_bytes(8, 1024, 7168, 8) == 235585920);
  CHECK(bf16_bytes(8, 4096, 7168, 8) == 942342528);
  CHECK(bf16_bytes(4, 1024, 7168, 8) == 117883264);
  CHECK(bf16_bytes(16, 256, 7168, 8) == 117748224);
  CHECK(bf16_bytes(8, 1024, 4096, 10) == 135053696);
  CHECK(bf16_bytes(8, 1, 7168, 8) == 230528);
  CHECK(bf16_bytes(8, 16, 7168, 8) == 3681408);
  CHECK(bf16_bytes(32, 64, 7168, 8) == 58863232);
}

TEST_CASE("workspace: fields of one slice") {
  const WorkspaceLayout at = make_workspace_layout(48, 4096, 22);
  CHECK(at.flag_val == 0);
  CHECK(at.local_token_counter == 4);
  CHECK(at.send_counters == 8);
  CHECK(at.recv_counters == 200);
  CHECK(at.dispatch_completion_flags == 512);
  CHECK(at.combine_completion_flags == 768);
  CHECK(at.topk_target_ranks == 1024);
  CHECK(at.topk_send_indices == 361472);
  CHECK(at.payload_data == 721920);
}

TEST_CASE("workspace: v0.6.1 reserves 8 entries a token, the EPLB region comes with v0.6.16") {
  const auto layout = [](FlashInferVersion version, std::int64_t eplb) {
    return make_workspace_layout(limits(version), 16, 1000, eplb);
  };
  const WorkspaceLayout old = layout(FlashInferVersion::v0_6_1, 0);
  CHECK(old.topk_send_indices - old.topk_target_ranks == pad128(4 * 8 * 1000));
  const WorkspaceLayout later = layout(FlashInferVersion::v0_6_8_post1, 0);
  CHECK(later.topk_send_indices - later.topk_target_ranks == pad128(4 * 22 * 1000));
  CHECK(layout(FlashInferVersion::v0_6_12, 256).payload_data == later.payload_data);
  CHECK(layout(FlashInferVersion::v0_6_17, 0).payload_data == later.payload_data);
  CHECK(layout(FlashInferVersion::v0_6_17, 256).payload_data == later.payload_data + 4 * 16 * 256);
}

TEST_CASE("workspace: rounding follows FlashInfer's mask, for a cap of -1 too") {
  CHECK(pad128(0) == 0);
  CHECK(pad128(1) == 128);
  CHECK(pad128(128) == 128);
  CHECK(pad128(-1) == 0);
  CHECK(pad128(-128) == -128);
  CHECK(pad128(-921600) == -921600);
  CHECK(align_up(10, 4) == 12);
}

TEST_CASE("workspace: rows and regions, against counting bytes one by one") {
  CHECK(receive_row(1, 0, 4) == 4);
  CHECK(receive_row(1, 1, 2) == 3);  // another R, another row
  const std::vector<std::vector<std::int64_t>> payloads = {{10}, {16, 4, 4}, {1, 7, 128, 3}, {2, 2, 2, 2, 2, 2, 2, 2}};
  for (const int ep_size : {1, 2, 3, 8}) {
    for (const std::int64_t runtime_max : {1, 2, 5}) {
      for (const auto& bytes : payloads) {
        const WorkspaceLayout layout = make_workspace_layout(ep_size, 6, kMaxTopKWorkspace);
        const int count = static_cast<int>(bytes.size());
        const RegionView view(layout, ep_size, runtime_max, bytes.data(), count, 6);
        std::int64_t at = layout.payload_data;
        for (int p = 0; p < count; ++p) {
          CHECK(view.region(p) == at);
          for (int source = 0; source < ep_size; ++source) {
            for (std::int64_t slot = 0; slot < runtime_max; ++slot, at += bytes[static_cast<std::size_t>(p)])
              CHECK(view.row(p, source, slot) == at);
          }
        }
        CHECK(view.receive_end() == at);
        while (at % 128 != 0) ++at;
        CHECK(view.combine_region() == at);
        for (int source = 0; source < ep_size; ++source) {
          // Combine with an R of its own: the same region, other rows.
          const std::int64_t other = runtime_max + 3;
          CHECK(view.combine_row(source, 1, other) == view.combine_region() + (source * other + 1) * 6);
          for (std::int64_t slot = 0; slot < runtime_max; ++slot, at += 6) CHECK(view.combine_row(source, slot) == at);
        }
        CHECK(view.end() == at);
      }
    }
  }
}
