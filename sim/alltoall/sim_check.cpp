// What a reader expected against what the shadow says is there.
#include <algorithm>

#include "sim/alltoall/sim_alltoall.h"

namespace a2asim {

// Nothing if the row is the expected one.
std::optional<SimAllToAll::Judgement> SimAllToAll::judge(const RowCheck& check, const Shadow::Content& content,
                                                         std::int64_t slot) {
  using State = Shadow::Content::State;
  const RowTag& tag = content.tag;
  if (content.state == State::unwritten) return Judgement{FindingKind::unwritten, Severity::error};
  if (content.state == State::torn) return Judgement{FindingKind::torn, Severity::error};
  const bool is_combine = check.operation == Operation::combine;
  const bool expected = tag.kind == (is_combine ? RowKind::combined : RowKind::dispatched) &&
                        tag.writer == (is_combine ? check.slice : check.source) && tag.source == check.source &&
                        tag.payload == check.run.payload && tag.slot == slot && tag.round == check.round;
  // The right row, but another rank wrote there too: on hardware either may win, or both in part.
  if (expected && content.race) return Judgement{FindingKind::torn, Severity::warning};
  if (expected) return std::nullopt;
  return Judgement{tag.round < check.round ? FindingKind::stale : FindingKind::misplaced, Severity::error};
}

// The rows that `rank` reads of what `source` should have put into its slice. Offsets: by the reader's geometry, and
// the writer's.
SimAllToAll::RowCheck SimAllToAll::received_rows(int r, int source, int payload) const {
  const Rank& rank = rank_at(r);
  const auto p = static_cast<std::size_t>(payload);
  const std::int64_t pitch = rank.config.payload_bytes_per_token[p];
  const std::int64_t region = receive_region(rank.at, ep_size_, rank.runtime_max, rank.bytes_before[p]);
  const std::int64_t count = std::min<std::int64_t>(counters(r, rank.at.recv_counters)[source], rank.runtime_max);
  const bool same_payloads = payload < static_cast<int>(rank_at(source).config.payload_bytes_per_token.size());
  return {Operation::experts,
          r,
          r,
          source,
          {region + receive_row(source, 0, rank.runtime_max) * pitch, pitch, count, 0, sent_by(source), payload},
          same_payloads ? sent_run(source, r, payload).begin : -1,
          dispatch_round_};
}

// The expert outputs that `r` reads back from the slice of `from`: base and row by its own geometry.
SimAllToAll::RowCheck SimAllToAll::returned_rows(int r, int from, std::int64_t runtime_max) const {
  const Rank& rank = rank_at(r);
  const Rank& writer = rank_at(from);
  const std::int64_t pitch = rank.config.combine_bytes_per_token();
  const std::int64_t written_at =
      writer.combine_data + receive_row(r, 0, writer.runtime_max) * writer.config.combine_bytes_per_token();
  return {Operation::combine,
          r,
          from,
          r,
          {rank.combine_data + receive_row(r, 0, runtime_max) * pitch, pitch, counters(r, rank.at.send_counters)[from],
           0, sent_by(r), -1, RowKind::combined},
          written_at,
          dispatch_round_};
}

SimAllToAll::RowView SimAllToAll::received(int rank, int source, int payload, std::int64_t slot) const {
  return view(received_rows(rank, source, payload), slot);
}

SimAllToAll::RowView SimAllToAll::returned(int rank, int from, std::int64_t slot) const {
  return view(returned_rows(rank, from, rank_at(rank).runtime_max), slot);
}

SimAllToAll::RowView SimAllToAll::view(const RowCheck& check, std::int64_t slot) const {
  RowView row;
  row.at = check.run.begin + slot * check.run.pitch_bytes;
  row.found = shadow_of(check.slice).read(row.at, row.at + check.run.pitch_bytes);
  if (slot >= check.run.count || check.run.record == Shadow::kNone) return row;
  row.token = records_.token(check.run.record, check.slice, slot);
  if (check.written_at >= 0) row.written_at = check.written_at + slot * check.run.pitch_bytes;
  if (const auto judgement = judge(check, row.found, slot)) row.wrong = judgement->kind;
  if (row.wrong) row.lost = lost_row(check, row.at, row.found);
  return row;
}

// The shadow keeps the winner of a race only; the others follow from where everybody's rows of this round begin.
std::optional<RowTag> SimAllToAll::lost_row(const RowCheck& check, std::int64_t begin,
                                            const Shadow::Content& content) const {
  if (!content.race || content.tag.round != check.round) return std::nullopt;
  const std::int64_t end = begin + check.run.pitch_bytes;
  for (int writer = ep_size_ - 1; writer >= 0; --writer) {
    if (writer == content.tag.writer || sent_by(writer) == Shadow::kNone) continue;
    const int payloads = static_cast<int>(rank_at(writer).config.payload_bytes_per_token.size());
    for (int p = 0; p < payloads; ++p) {
      const Shadow::Run run = sent_run(writer, check.slice, p);
      if (run.count <= 0 || run.begin >= end || run.end() <= begin) continue;
      const std::int64_t slot = std::max<std::int64_t>(begin - run.begin, 0) / run.pitch_bytes;
      return RowTag{RowKind::dispatched, writer,       writer, p, slot, records_.token(run.record, check.slice, slot),
                    check.round,         context_.step};
    }
  }
  return std::nullopt;
}

std::optional<Finding> SimAllToAll::wrong_row_of(int rank, std::int64_t token) const {
  std::vector<RowCheck> checks;
  for (int slice = 0; slice < ep_size_; ++slice)
    if (takes_part(slice)) checks.push_back(returned_rows(rank, slice, rank_at(rank).runtime_max));
  for (int slice = 0; slice < ep_size_; ++slice)
    for (std::size_t p = 0; takes_part(slice) && p < rank_at(slice).config.payload_bytes_per_token.size(); ++p)
      checks.push_back(received_rows(slice, rank, static_cast<int>(p)));
  for (const RowCheck& check : checks) {
    if (check.run.record == Shadow::kNone) continue;
    const std::span<const std::int32_t> tokens = records_.tokens(check.run.record, check.slice);
    const auto slot = std::ranges::find(tokens, token) - tokens.begin();
    if (slot >= std::min<std::int64_t>(std::ssize(tokens), check.run.count)) continue;
    const std::int64_t begin = check.run.begin + slot * check.run.pitch_bytes;
    const Shadow::Content content = shadow_of(check.slice).read(begin, begin + check.run.pitch_bytes);
    const auto judgement = judge(check, content, slot);
    if (judgement) return row_finding(check, slot, content, *judgement);
  }
  return std::nullopt;
}

void SimAllToAll::note_found(RowEvidence& row, const Shadow::Content& content) {
  if (content.state == Shadow::Content::State::unwritten) return;
  row.found_writer = content.tag.writer;
  row.found_source = content.tag.source;
  row.found_payload = content.tag.payload;
  row.found_token = content.tag.token;
  row.found_slot = content.tag.slot;
  row.found_round = content.tag.round;
  row.found_step = content.tag.step;
}

void SimAllToAll::inspect_rows(const RowCheck& check) {
  for (std::int64_t i = 0; i < check.run.count; ++i) inspect_row(check, i);
}

void SimAllToAll::inspect_row(const RowCheck& check, std::int64_t index) {
  const Shadow& shadow = shadow_of(check.slice);
  const std::int64_t begin = check.run.begin + index * check.run.pitch_bytes;
  const Shadow::Content content = shadow.read(begin, begin + check.run.pitch_bytes);
  const auto judgement = judge(check, content, index);
  if (!judgement) return;
  const std::int64_t token = records_.token(check.run.record, check.slice, index);
  std::vector<std::uint8_t>& tainted = rank_at(check.source).tainted;
  if (token >= 0 && token < static_cast<std::int64_t>(tainted.size())) tainted[static_cast<std::size_t>(token)] = 1;
  if (log_.count(judgement->kind)) log_.keep(row_finding(check, index, content, *judgement));
}

Finding SimAllToAll::row_finding(const RowCheck& check, std::int64_t slot, const Shadow::Content& content,
                                 const Judgement& judgement) const {
  Finding found = finding(judgement.kind, judgement.severity, check.operation, check.reader);
  found.root = root_;
  found.peer = check.source;
  found.token = records_.token(check.run.record, check.slice, slot);
  RowEvidence row;
  row.slice = check.slice;
  row.source = check.source;
  row.payload = check.run.payload;
  row.token = found.token;
  row.slot = slot;
  row.expected_offset = check.run.begin + slot * check.run.pitch_bytes;
  row.written_offset = check.written_at < 0 ? -1 : check.written_at + slot * check.run.pitch_bytes;
  row.expected_round = check.round;
  row.race = content.race;
  note_found(row, content);
  if (const auto lost = lost_row(check, row.expected_offset, content)) {
    row.lost_writer = lost->writer;
    row.lost_token = lost->token;
    row.lost_slot = lost->slot;
    row.lost_payload = lost->payload;
  }
  found.row = row;
  return found;
}

}  // namespace a2asim
