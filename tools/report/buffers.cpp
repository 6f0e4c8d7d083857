#include "tools/report/buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "model/alltoall/workspace.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kSlotsSearched = 256;  // of each source, for wrong rows to draw first
constexpr int kCombine = -1;                  // in place of a payload: the outputs that come back

std::string_view part_words(DispatchType type, int payload) {
  return payload == kCombine ? "expert outputs" : payload_words(type, payload);
}

// How one rank divides a slice, and where a byte of it lies by that.
class Division {
 public:
  Division(const AllToAllConfig& config, DispatchType type, int rank, std::int64_t runtime_max)
      : config_(config), type_(type), regions_(config.regions(runtime_max)), rank_(rank), r_(runtime_max) {}

  std::int64_t begin(int payload) const {
    return payload == kCombine ? regions_.combine_region() : regions_.region(payload);
  }
  std::int64_t pitch(int payload) const {
    return payload == kCombine ? config_.combine_bytes_per_token() : regions_.bytes_per_token(payload);
  }
  std::int64_t rows() const { return regions_.rows(); }

  // The row of this part that a byte lies in, or -1.
  std::int64_t row_at(int payload, std::int64_t byte) const {
    const std::int64_t from_begin = byte - begin(payload);
    if (from_begin < 0 || pitch(payload) <= 0) return -1;
    const std::int64_t row = from_begin / pitch(payload);
    return row < rows() ? row : -1;
  }
  // Where a byte lies by this division, of the memory of rank `owner`: "in row [1, 0] of the expert ids".
  std::string place(std::int64_t byte, int owner) const {
    const int payloads = static_cast<int>(config_.payload_bytes_per_token.size());
    for (int payload = kCombine; payload < payloads; ++payload) {
      const std::int64_t row = row_at(payload, byte);
      if (row >= 0) return fmt::format("in row [{}, {}] of the {}", row / r_, row % r_, part_words(type_, payload));
    }
    if (byte < begin(0)) return "in front of the rows";
    if (byte < begin(kCombine)) return "between two blocks of rows";
    if (byte >= config_.workspace_bytes()) return fmt::format("beyond the memory of rank {}", owner);
    return fmt::format("beyond the rows that rank {} counts, still inside {}", rank_,
                       owner == rank_ ? "its memory" : fmt::format("the memory of rank {}", owner));
  }

 private:
  const AllToAllConfig& config_;
  DispatchType type_;
  RegionView regions_;
  int rank_;
  std::int64_t r_;
};

// Ascending; the wrong ones, then the first others.
std::vector<std::int64_t> chosen(std::int64_t all, const std::vector<std::int64_t>& wrong, std::size_t most) {
  std::vector<std::int64_t> out(wrong.begin(),
                                wrong.begin() + static_cast<std::ptrdiff_t>(std::min(wrong.size(), most)));
  for (std::int64_t i = 0; i < all && out.size() < most; ++i)
    if (std::ranges::find(wrong, i) == wrong.end()) out.push_back(i);
  std::ranges::sort(out);
  return out;
}

// One buffer: a rank, and one part of the rows that it reads.
class Buffer {
 public:
  Buffer(const MirroredLayer& layer, const SimAllToAll& alltoall, int rank, int payload)
      : layer_(layer),
        alltoall_(alltoall),
        rank_(rank),
        payload_(payload),
        r_(layer.inputs[static_cast<std::size_t>(rank)].runtime_max_tokens_per_rank),
        division_(layer.configs[static_cast<std::size_t>(rank)], layer.payloads.type, rank, r_) {
    find_wrong();
  }

  Json as_json() const {
    const std::vector<std::int64_t> sources =
        chosen(static_cast<std::int64_t>(layer_.configs.size()), wrong_sources_, kSourcesDrawn);
    const std::vector<std::int64_t> slots = chosen(r_, wrong_slots_, kSlotsDrawn);
    Json cells = Json::array();
    for (const std::int64_t source : sources) {
      Json line = Json::array();
      for (const std::int64_t slot : slots) line.push_back(cell(static_cast<int>(source), slot));
      cells.push_back(std::move(line));
    }
    return {{"step", layer_.outcome.step},
            {"layer", layer_.layer},
            {"rank", rank_},
            {"part", part_name(layer_.payloads.type, payload_)},
            {"words", words(payload_)},
            {"r", r_},
            {"ranks", layer_.configs.size()},
            {"wrong", wrong_},
            {"searched", is_whole_},
            {"sources", sources},
            {"slots", slots},
            {"cells", std::move(cells)}};
  }

 private:
  std::string_view words(int payload) const { return part_words(layer_.payloads.type, payload); }
  bool takes_part(int rank) const { return layer_.outcome.taking_part.contains(rank); }

  RowView look(int source, std::int64_t slot) const {
    return payload_ == kCombine ? alltoall_.returned(rank_, source, slot)
                                : alltoall_.received(rank_, source, payload_, slot);
  }

  void find_wrong() {
    std::vector<bool> slot_is_wrong(static_cast<std::size_t>(std::clamp<std::int64_t>(r_, 0, kSlotsSearched)));
    is_whole_ = r_ <= kSlotsSearched;
    for (int source = 0; source < static_cast<int>(layer_.configs.size()); ++source) {
      if (!takes_part(source)) continue;
      bool any = false;
      for (std::size_t slot = 0; slot < slot_is_wrong.size(); ++slot) {
        const RowView row = look(source, static_cast<std::int64_t>(slot));
        if (row.token < 0) break;  // slots are filled in order
        if (!row.wrong) continue;
        any = slot_is_wrong[slot] = true;
        ++wrong_;
      }
      if (any) wrong_sources_.push_back(source);
    }
    for (std::size_t slot = 0; slot < slot_is_wrong.size(); ++slot)
      if (slot_is_wrong[slot]) wrong_slots_.push_back(static_cast<std::int64_t>(slot));
  }

  // 0: no row is expected and nothing was written. A number n: the expected row, token n - 1 .. see README.md.
  Json cell(int source, std::int64_t slot) const {
    if (!takes_part(source)) return 0;
    const RowView row = look(source, slot);
    const bool is_written = row.found.state != Shadow::Content::State::unwritten;
    if (row.token < 0 && !is_written) return 0;
    if (row.token >= 0 && !row.wrong) return row.token + 1;
    Json out = Json::object();
    if (row.wrong) out["wrong"] = name(*row.wrong);
    if (row.token >= 0) out["token"] = row.token;
    if (is_written) add_found(row.found, out);
    if (row.found.race) out["race"] = true;
    if (row.lost) out["lost"] = lost_row(*row.lost);
    if (row.wrong && row.written_at >= 0) add_place(source, row, out);
    return out;
  }

  void add_found(const Shadow::Content& found, Json& out) const {
    const RowTag& tag = found.tag;
    out["writer"] = tag.writer;
    if (tag.kind == RowKind::padding) {
      out["padding"] = true;
    } else {
      out["source"] = tag.source;
      out["found"] = tag.token;
      out["of"] = words(tag.kind == RowKind::combined ? kCombine : tag.payload);
    }
    out["written"] = tag.step;
    out["round"] = tag.round;
    if (tag.kind == RowKind::dispatched) out["index"] = tag.slot;
  }

  Json lost_row(const RowTag& tag) const {
    return {{"writer", tag.writer}, {"token", tag.token}, {"of", words(tag.payload)}, {"index", tag.slot}};
  }

  // Where the expected row was put, as this rank divides the memory.
  void add_place(int source, const RowView& row, Json& out) const {
    if (row.written_at == row.at) return;
    const std::int64_t landed = division_.row_at(payload_, row.written_at);
    // Of outputs a rank reads its own slots in every slice: only these are drawn.
    const bool is_drawn = landed >= 0 && r_ > 0 && (payload_ != kCombine || landed / r_ == rank_);
    if (is_drawn)
      out["went"] = {payload_ == kCombine ? source : landed / r_, landed % r_};
    else
      out["went"] = division_.place(row.written_at, payload_ == kCombine ? source : rank_);
  }

  const MirroredLayer& layer_;
  const SimAllToAll& alltoall_;
  int rank_;
  int payload_;
  std::int64_t r_;
  Division division_;
  std::int64_t wrong_ = 0;
  bool is_whole_ = true;
  std::vector<std::int64_t> wrong_sources_, wrong_slots_;
};

// Of this layer. Findings are kept up to a limit, so in a wide disagreement these are the first such ranks.
std::vector<std::int64_t> ranks_with_wrong_rows(const MirroredLayer& layer, const SimAllToAll& alltoall) {
  std::vector<std::int64_t> ranks;
  for (const Finding& found : alltoall.findings()) {
    if (!found.row || found.layer != layer.layer) continue;
    if (std::ranges::find(ranks, found.rank) == ranks.end()) ranks.push_back(found.rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace

std::string part_name(DispatchType type, int payload) {
  if (payload == kCombine) return "combine";
  const std::string_view words = payload_words(type, payload);
  if (payload == 0) return "hidden";
  return std::string(words.starts_with("expert ") ? words.substr(7) : words);
}

// For the first tokens that something went wrong with, as outputs are judged: in the order of ranks and tokens.
void BufferRecorder::follow_tokens(const MirroredLayer& layer, const SimAllToAll& alltoall) {
  if (layer.outcome.step != followed_step_) ++steps_followed_;
  followed_step_ = layer.outcome.step;
  if (steps_followed_ > kStepsFollowed) return;
  std::size_t followed = 0;
  for (std::size_t rank = 0; rank < layer.configs.size(); ++rank) {
    if (!layer.outcome.taking_part.contains(static_cast<int>(rank))) continue;
    for (std::int64_t token = 0; token < layer.decisions[rank].real_rows; ++token) {
      auto row = alltoall.wrong_row_of(static_cast<int>(rank), token);
      if (!row) continue;
      rows_behind_.push_back(std::move(*row));
      if (++followed == kTokensFollowed) return;
    }
  }
}

void BufferRecorder::combined(const MirroredLayer& layer, SimAllToAll& alltoall,
                              std::span<const std::vector<std::byte>>) {
  const auto ranks = static_cast<std::int64_t>(layer.configs.size());
  std::vector<int> parts(layer.configs[0].payload_bytes_per_token.size());
  std::iota(parts.begin(), parts.end(), 0);
  parts.push_back(kCombine);
  left_out_ += layer.outcome.taking_part.count() * static_cast<std::int64_t>(parts.size());
  const std::vector<std::int64_t> wrong = ranks_with_wrong_rows(layer, alltoall);
  if (!wrong.empty() && layer.layer < kLayersDrawn) follow_tokens(layer, alltoall);
  const std::int64_t limit_bytes = wrong.empty() ? limit_bytes_ / 2 : limit_bytes_;
  bool& is_full = wrong.empty() ? is_half_full_ : is_full_;
  if (is_full || layer.layer >= kLayersDrawn) return;
  for (const std::int64_t rank : chosen(ranks, wrong, kRanksDrawn)) {
    if (!layer.outcome.taking_part.contains(static_cast<int>(rank))) continue;
    for (const int part : parts) {
      Json buffer = Buffer(layer, alltoall, static_cast<int>(rank), part).as_json();
      const auto bytes = static_cast<std::int64_t>(buffer.dump().size());
      is_full = used_bytes_ + bytes > limit_bytes;
      if (is_full) return;
      used_bytes_ += bytes;
      --left_out_;
      buffers_.push_back(std::move(buffer));
    }
  }
}

}  // namespace a2asim
