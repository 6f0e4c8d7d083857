// What a read of rows finds against what the writers of the running round sent: the expected row, or one that is
// misplaced, stale, unwritten or torn. SimAllToAll moves the bytes; this judges the rows.
//
//   const RowRead read = inspector.received_rows(rank, source, payload);    // by the reader's own R
//   if (const auto wrong = inspector.wrong_row(read, slot)) inspector.explain(read, slot, *wrong, finding);
#pragma once

#include <optional>
#include <vector>

#include "model/alltoall/workspace.h"
#include "model/step/finding.h"
#include "sim/alltoall/shadow.h"

namespace a2asim {

// What the inspector has to know of a rank: how it divides slices in this round, and what it counted.
struct RowsOfRank {
  RegionView regions;                           // by its own R of the running dispatch
  std::int64_t runtime_max = 0;                 // that R
  Shadow::RecordId record = Shadow::kNone;      // of its dispatch; kNone: takes no part
  const std::int32_t* send_counters = nullptr;  // [ep_size], in its slice
  const std::int32_t* recv_counters = nullptr;  // the same
};

// A read of `run` in `slice` by `reader`, expecting the rows of `source`; written_at: the writer's own address, or -1.
struct RowRead {
  Operation operation = Operation::experts;
  int reader = -1, slice = -1, source = -1;
  Shadow::Run run;
  std::int64_t written_at = -1;
};

struct WrongRow {
  FindingKind kind = FindingKind::unwritten;
  Severity severity = Severity::error;
  Shadow::Content content;
};

// One row as its reader sees it: for pictures.
struct RowView {
  std::int64_t token = -1;                // of the source; -1: no row is expected in this slot
  std::int64_t at = -1, written_at = -1;  // bytes: where the reader looks, where the writer put it (-1: unknown)
  Shadow::Content found;                  // what is there
  std::optional<FindingKind> wrong;       // nothing: it is the expected row, or none is expected
  std::optional<RowTag> lost;             // of a race: what another rank wrote there too
};

class RowInspector {
 public:
  // By rank; all outlive it.
  RowInspector(const std::vector<RowsOfRank>& ranks, const std::vector<Shadow>& shadows, const SentRecords& records)
      : ranks_(&ranks), shadows_(&shadows), records_(&records) {}

  // Where `writer` puts all its rows of one payload for one slice: by the writer's own geometry.
  Shadow::Run sent_run(int writer, int slice, int payload) const {
    const RowsOfRank& own = rank_at(writer);
    return {own.regions.row(payload, writer, 0),
            own.regions.bytes_per_token(payload),
            own.send_counters[slice],
            0,
            own.record,
            payload};
  }
  // The rows that `rank` reads of what `source` should have put into its slice.
  RowRead received_rows(int rank, int source, int payload) const;
  // The expert outputs that `rank` reads back from the slice of `from`.
  RowRead returned_rows(int rank, int from, std::int64_t combine_runtime_max) const;

  std::int64_t token(const RowRead& read, std::int64_t slot) const {
    return records_->token(read.run.record, read.slice, slot);
  }
  std::optional<WrongRow> wrong_row(const RowRead& read, std::int64_t slot) const;
  // Fills kind, severity, token and evidence.
  void explain(const RowRead& read, std::int64_t slot, const WrongRow& wrong, Finding& found) const;
  RowView view(const RowRead& read, std::int64_t slot) const;
  static void note_found(RowEvidence& row, const Shadow::Content& content);

 private:
  const RowsOfRank& rank_at(int rank) const { return (*ranks_)[static_cast<std::size_t>(rank)]; }
  const Shadow& shadow_of(int slice) const { return (*shadows_)[static_cast<std::size_t>(slice)]; }
  std::optional<RowTag> lost_row(const RowRead& read, std::int64_t begin, const Shadow::Content& content) const;

  const std::vector<RowsOfRank>* ranks_;
  const std::vector<Shadow>* shadows_;
  const SentRecords* records_;
};

}  // namespace a2asim
