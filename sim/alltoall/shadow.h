// The shadow of one rank's slice: for every byte range, who wrote it last, in which round, for which token.
//
// A rank's dispatch writes, per destination and payload, the rows of consecutive slots: one run of bytes. So the shadow
// is a sorted list of disjoint pieces of runs instead of a tag per row: a round of agreeing ranks costs a merge of two
// short lists and its check one comparison a run, while rows of different R may overlap as they like. What all runs of
// one dispatch have in common is one record for the shadows of all slices; the tokens that it sent to a slice live as
// long as a byte there that came of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace a2asim {

enum class RowKind : std::uint8_t {
  dispatched,  // payload rows that a source sent
  padding,     // expert ids that sanitize invalidated
  combined,    // expert output rows
};

// Who wrote a row. Slots and tokens are -1 in padding.
struct RowTag {
  RowKind kind = RowKind::dispatched;
  int writer = -1;
  int source = -1;  // whose token it is
  int payload = -1;
  std::int64_t slot = -1;
  std::int64_t token = -1;
  std::int64_t round = -1;
  int step = -1;
};

// What every rank's dispatch of a round sent.
class SentRecords {
 public:
  using Id = std::int32_t;
  static constexpr Id kNone = -1;
  struct Sent {
    int source = -1;
    std::int64_t round = -1;
    int step = -1;
  };

  explicit SentRecords(int ep_size) : ep_size_(static_cast<std::size_t>(ep_size)) {}

  // The caller holds every destination's tokens until close().
  Id open(const Sent& sent);
  void close(Id record);
  void set_tokens(Id record, int destination, std::span<const std::int32_t> by_slot);

  void hold(Id record, int destination) { ++at(record).to[static_cast<std::size_t>(destination)].references; }
  void release(Id record, int destination);

  const Sent& sent(Id record) const { return at(record).sent; }
  std::span<const std::int32_t> tokens(Id record, int destination) const {  // by slot
    return at(record).to[static_cast<std::size_t>(destination)].tokens;
  }
  std::int64_t token(Id record, int destination, std::int64_t slot) const;  // -1: no such slot

 private:
  struct Destination {
    std::int32_t references = 0;
    std::vector<std::int32_t> tokens;
  };
  struct Record {
    Sent sent;
    std::size_t held = 0;         // destinations with references
    std::vector<Destination> to;  // [ep_size]
  };
  Record& at(Id record) { return records_[static_cast<std::size_t>(record)]; }
  const Record& at(Id record) const { return records_[static_cast<std::size_t>(record)]; }

  std::size_t ep_size_;
  std::vector<Record> records_;
  std::vector<Id> free_;
  std::vector<std::vector<std::int32_t>> spare_;  // lists that nobody needs, for their memory
};

class Shadow {
 public:
  using RecordId = SentRecords::Id;
  static constexpr RecordId kNone = SentRecords::kNone;

  // Rows of `count` consecutive slots from slot 0 on, `pitch_bytes` apart. Padding: one piece of any length.
  // record: of the dispatch that the rows came with; of padding, this slice's own in that round.
  struct Run {
    std::int64_t begin = 0;
    std::int64_t pitch_bytes = 1;
    std::int64_t count = 0;
    std::int64_t first_slot = 0;
    RecordId record = kNone;
    int payload = -1;
    RowKind kind = RowKind::dispatched;
    std::int64_t end() const { return begin + pitch_bytes * count; }
  };
  // What a read of one row finds.
  struct Content {
    enum class State : std::uint8_t { unwritten, whole, torn } state = State::unwritten;
    RowTag tag;         // of the row, or of the first written bytes of a torn one
    bool race = false;  // some byte was written twice in one round: by two ranks, or for two rows of one
  };

  // `records` outlives the shadow and is shared by all slices.
  Shadow(int slice, SentRecords& records) : slice_(slice), records_(&records) {}

  // Sorted by begin, disjoint; later calls win.
  void write(std::span<const Run> runs);
  void clear();

  // The bytes of this run are exactly the rows of this run's record, uncontested. `hint` remembers the place between
  // calls with growing offsets; start with 0.
  bool holds(const Run& run, std::size_t& hint) const;
  Content read(std::int64_t begin, std::int64_t end) const;

 private:
  struct Piece {
    std::int64_t begin, end;
    std::int64_t slot0;  // where slot 0 of the run lies (or would lie)
    std::int64_t pitch_bytes;
    RecordId record;
    std::int16_t payload;
    RowKind kind;
    bool race;
    bool is_same_run(const Piece& other) const {
      return record == other.record && kind == other.kind && payload == other.payload && slot0 == other.slot0;
    }
  };

  bool races(const Piece& older, const Run& newer) const;
  void push(const Piece& piece);
  void overlay(const Run& run, std::size_t& next);
  RowTag tag(const Piece& piece, std::int64_t at_bytes) const;
  std::size_t first_ending_after(std::int64_t at_bytes) const;

  int slice_;
  SentRecords* records_;
  std::vector<Piece> pieces_;   // sorted, disjoint
  std::vector<Piece> scratch_;  // what replaces a part of pieces_, kept to reuse its memory
};

}  // namespace a2asim
