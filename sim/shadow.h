// The shadow of one rank's slice: for every byte range, who wrote it last, in which round, for which token.
//
// A rank's dispatch writes, per destination and payload, the rows of consecutive slots: one run of bytes. So the shadow
// is a sorted list of disjoint pieces of runs instead of a tag per row: a round of agreeing ranks costs a merge of two
// short lists and its check one comparison a run, while rows of different R may overlap as they like. What the runs of
// one (writer, source, round) have in common, the tokens by slot, is a record with a count of the pieces that use it.
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

class Shadow {
 public:
  using RecordId = std::int32_t;
  static constexpr RecordId kNone = -1;

  struct Origin {
    RowKind kind = RowKind::dispatched;
    int writer = -1;
    int source = -1;
    std::int64_t round = -1;
    int step = -1;
  };
  // Rows of `count` consecutive slots from slot 0 on, `pitch_bytes` apart. Padding: one piece of any length.
  struct Run {
    std::int64_t begin = 0;
    std::int64_t pitch_bytes = 1;
    std::int64_t count = 0;
    std::int64_t first_slot = 0;
    RecordId record = kNone;
    int payload = -1;
    std::int64_t end() const { return begin + pitch_bytes * count; }
  };
  // What a read of one row finds.
  struct Content {
    enum class State : std::uint8_t { unwritten, whole, torn } state = State::unwritten;
    RowTag tag;         // of the row, or of the first written bytes of a torn one
    bool race = false;  // some byte was written by two ranks in one round
  };

  // A record holds the caller's reference until release(). Memory of finished records is used again.
  RecordId open(const Origin& origin);
  // Combined rows carry the tokens that their source sent: shares another record's list.
  RecordId open(const Origin& origin, RecordId tokens_of);
  void release(RecordId record);
  // Tokens by slot, at least `count`: written by the caller after open().
  std::int32_t* tokens(RecordId record, std::int64_t count);
  std::int64_t token(RecordId record, std::int64_t slot) const;

  // Sorted by begin, disjoint; later calls win.
  void write(std::span<const Run> runs);
  void clear();

  // The bytes of this run are exactly the rows of this run's record, uncontested. `hint` remembers the place between
  // calls with growing offsets; start with 0.
  bool holds(const Run& run, std::size_t& hint) const;
  Content read(std::int64_t begin, std::int64_t end) const;

  std::size_t pieces() const { return pieces_.size(); }  // for tests of memory growth

 private:
  struct Piece {
    std::int64_t begin, end;
    std::int64_t slot0;  // where slot 0 of the run lies (or would lie)
    std::int64_t pitch_bytes;
    RecordId record;
    std::int16_t payload;
    bool race;
  };
  struct Record {
    Origin origin;
    RecordId tokens_of = kNone;
    std::int32_t references = 0;
    std::vector<std::int32_t> tokens;
  };

  Record& at(RecordId record) { return records_[static_cast<std::size_t>(record)]; }
  const Record& at(RecordId record) const { return records_[static_cast<std::size_t>(record)]; }
  bool races(RecordId older, RecordId newer) const;
  void push(Piece piece);
  void overlay(const Run& run, std::size_t& next);
  RowTag tag(const Piece& piece, std::int64_t at_bytes) const;

  std::vector<Piece> pieces_;   // sorted, disjoint
  std::vector<Piece> scratch_;  // the next pieces_, kept to reuse its memory
  std::vector<Record> records_;
  std::vector<RecordId> free_;
};

}  // namespace a2asim
