#include "sim/alltoall/row_inspector.h"

#include <algorithm>

#include "model/base/check_invariant.h"

namespace a2asim {

RowRead RowInspector::received_rows(int rank, int source, int payload) const {
  const RowsOfRank& own = rank_at(rank);
  A2ASIM_INVARIANT(payload >= 0 && payload < own.regions.num_payloads(), "the reader has this payload");
  const std::int64_t count = std::min<std::int64_t>(own.recv_counters[source], own.runtime_max);
  const bool same_payloads = payload < rank_at(source).regions.num_payloads();
  return {Operation::experts,
          rank,
          rank,
          source,
          {own.regions.row(payload, source, 0), own.regions.bytes_per_token(payload), count, 0, rank_at(source).record,
           payload},
          same_payloads ? sent_run(source, rank, payload).begin : -1};
}

RowRead RowInspector::returned_rows(int rank, int from, std::int64_t combine_runtime_max) const {
  A2ASIM_INVARIANT(combine_runtime_max >= 0, "combine was called with a size");
  const RowsOfRank& own = rank_at(rank);
  return {Operation::combine,
          rank,
          from,
          rank,
          {own.regions.combine_row(rank, 0, combine_runtime_max), own.regions.combine_bytes_per_token(),
           own.send_counters[from], 0, own.record, -1, RowKind::combined},
          rank_at(from).regions.combine_row(rank, 0)};
}

std::optional<WrongRow> RowInspector::wrong_row(const RowRead& read, std::int64_t slot) const {
  A2ASIM_INVARIANT(read.run.record != Shadow::kNone, "rows are expected of ranks that take part");
  using State = Shadow::Content::State;
  const std::int64_t begin = read.run.begin + slot * read.run.pitch_bytes;
  const Shadow::Content content = shadow_of(read.slice).read(begin, begin + read.run.pitch_bytes);
  const RowTag& tag = content.tag;
  if (content.state == State::unwritten) return WrongRow{FindingKind::unwritten, Severity::error, content};
  if (content.state == State::torn) return WrongRow{FindingKind::torn, Severity::error, content};
  const bool is_combine = read.operation == Operation::combine;
  const std::int64_t round = records_->sent(read.run.record).round;
  const bool expected = tag.kind == (is_combine ? RowKind::combined : RowKind::dispatched) &&
                        tag.writer == (is_combine ? read.slice : read.source) && tag.source == read.source &&
                        tag.payload == read.run.payload && tag.slot == slot && tag.round == round;
  // The right row, but another rank wrote there too: on hardware either may win, or both in part.
  if (expected && content.race) return WrongRow{FindingKind::torn, Severity::warning, content};
  if (expected) return std::nullopt;
  return WrongRow{tag.round < round ? FindingKind::stale : FindingKind::misplaced, Severity::error, content};
}

RowView RowInspector::view(const RowRead& read, std::int64_t slot) const {
  A2ASIM_INVARIANT(slot >= 0 && read.run.pitch_bytes > 0, "a picture shows a row");
  RowView row;
  row.at = read.run.begin + slot * read.run.pitch_bytes;
  row.found = shadow_of(read.slice).read(row.at, row.at + read.run.pitch_bytes);
  if (slot >= read.run.count || read.run.record == Shadow::kNone) return row;
  row.token = token(read, slot);
  if (read.written_at >= 0) row.written_at = read.written_at + slot * read.run.pitch_bytes;
  if (const auto wrong = wrong_row(read, slot)) {
    row.wrong = wrong->kind;
    row.lost = lost_row(read, row.at, row.found);
  }
  return row;
}

// The shadow keeps the winner of a race only; the others follow from where everybody's rows of this round begin.
std::optional<RowTag> RowInspector::lost_row(const RowRead& read, std::int64_t begin,
                                             const Shadow::Content& content) const {
  A2ASIM_INVARIANT(read.run.record != Shadow::kNone, "rows are expected of ranks that take part");
  const SentRecords::Sent& now = records_->sent(read.run.record);
  if (!content.race || content.tag.round != now.round) return std::nullopt;
  const std::int64_t end = begin + read.run.pitch_bytes;
  for (int writer = static_cast<int>(ranks_->size()) - 1; writer >= 0; --writer) {
    if (writer == content.tag.writer || rank_at(writer).record == Shadow::kNone) continue;
    for (int p = 0; p < rank_at(writer).regions.num_payloads(); ++p) {
      const Shadow::Run run = sent_run(writer, read.slice, p);
      if (run.count <= 0 || run.begin >= end || run.end() <= begin) continue;
      const std::int64_t slot = std::max<std::int64_t>(begin - run.begin, 0) / run.pitch_bytes;
      const std::int64_t token = records_->token(run.record, read.slice, slot);
      return RowTag{RowKind::dispatched, writer, writer, p, slot, token, now.round, now.step};
    }
  }
  return std::nullopt;
}

void RowInspector::note_found(RowEvidence& row, const Shadow::Content& content) {
  if (content.state == Shadow::Content::State::unwritten) return;
  row.found_writer = content.tag.writer;
  row.found_source = content.tag.source;
  row.found_payload = content.tag.payload;
  row.found_token = content.tag.token;
  row.found_slot = content.tag.slot;
  row.found_round = content.tag.round;
  row.found_step = content.tag.step;
}

void RowInspector::explain(const RowRead& read, std::int64_t slot, const WrongRow& wrong, Finding& found) const {
  A2ASIM_INVARIANT(slot >= 0 && slot < read.run.count, "a wrong row is one of those that were read");
  found.kind = wrong.kind;
  found.severity = wrong.severity;
  found.peer = read.source;
  found.token = token(read, slot);
  RowEvidence row;
  row.slice = read.slice;
  row.source = read.source;
  row.payload = read.run.payload;
  row.token = found.token;
  row.slot = slot;
  row.expected_offset = read.run.begin + slot * read.run.pitch_bytes;
  row.written_offset = read.written_at < 0 ? -1 : read.written_at + slot * read.run.pitch_bytes;
  row.expected_round = records_->sent(read.run.record).round;
  row.race = wrong.content.race;
  note_found(row, wrong.content);
  if (const auto lost = lost_row(read, row.expected_offset, wrong.content)) {
    row.lost_writer = lost->writer;
    row.lost_token = lost->token;
    row.lost_slot = lost->slot;
    row.lost_payload = lost->payload;
  }
  found.row = row;
}

}  // namespace a2asim
