#include "sim/shadow.h"

#include <algorithm>

#include "model/check_invariant.h"

namespace a2asim {

Shadow::RecordId Shadow::open(const Origin& origin) {
  if (free_.empty()) {
    free_.push_back(static_cast<RecordId>(records_.size()));
    records_.emplace_back();
  }
  const RecordId id = free_.back();
  free_.pop_back();
  Record& record = at(id);
  record.origin = origin;
  record.tokens_of = kNone;
  record.references = 1;
  return id;
}

Shadow::RecordId Shadow::open(const Origin& origin, RecordId tokens_of) {
  const RecordId id = open(origin);
  at(id).tokens_of = tokens_of;
  ++at(tokens_of).references;
  return id;
}

void Shadow::release(RecordId id) {
  if (id == kNone) return;
  Record& record = at(id);
  A2ASIM_INVARIANT(record.references > 0, "a shadow record was released twice");
  if (--record.references > 0) return;
  free_.push_back(id);
  release(record.tokens_of);
}

std::int32_t* Shadow::tokens(RecordId id, std::int64_t count) {
  Record& record = at(id);
  if (record.tokens.size() < static_cast<std::size_t>(count)) record.tokens.resize(static_cast<std::size_t>(count));
  return record.tokens.data();
}

std::int64_t Shadow::token(RecordId id, std::int64_t slot) const {
  const Record& record = at(id);
  if (record.origin.kind == RowKind::padding || slot < 0) return -1;
  const Record& list = record.tokens_of == kNone ? record : at(record.tokens_of);
  return slot < static_cast<std::int64_t>(list.tokens.size()) ? list.tokens[static_cast<std::size_t>(slot)] : -1;
}

void Shadow::clear() {
  for (const Piece& piece : pieces_) release(piece.record);
  pieces_.clear();
}

bool Shadow::races(RecordId older, RecordId newer) const {
  const Origin& a = at(older).origin;
  const Origin& b = at(newer).origin;
  return a.kind == RowKind::dispatched && b.kind == RowKind::dispatched && a.round == b.round && a.writer != b.writer;
}

// Takes over one reference; neighbours of one run that touch become one piece again.
void Shadow::push(Piece piece) {
  if (!scratch_.empty()) {
    Piece& last = scratch_.back();
    if (last.end == piece.begin && last.record == piece.record && last.payload == piece.payload &&
        last.slot0 == piece.slot0 && last.race == piece.race) {
      last.end = piece.end;
      release(piece.record);
      return;
    }
  }
  scratch_.push_back(piece);
}

// Puts `run` over the old pieces from `next` on, which begin at or after its begin or straddle it.
void Shadow::overlay(const Run& run, std::size_t& next) {
  const std::int64_t slot0 = run.begin - run.first_slot * run.pitch_bytes;
  const auto add = [&](std::int64_t begin, std::int64_t end, bool race) {
    if (begin >= end) return;
    ++at(run.record).references;
    push({begin, end, slot0, run.pitch_bytes, run.record, static_cast<std::int16_t>(run.payload), race});
  };
  std::int64_t done = run.begin;
  while (next < pieces_.size() && pieces_[next].begin < run.end()) {
    Piece& old = pieces_[next];
    const std::int64_t end = std::min(old.end, run.end());
    const bool race =
        races(old.record, run.record) || (old.race && at(old.record).origin.round == at(run.record).origin.round);
    if (race) {
      add(done, old.begin, false);
      add(std::max(done, old.begin), end, true);
      done = end;
    }
    if (old.end > run.end()) {
      old.begin = run.end();
      break;
    }
    release(old.record);
    ++next;
  }
  add(done, run.end(), false);
}

void Shadow::write(std::span<const Run> runs) {
  scratch_.clear();
  std::size_t next = 0;
  for (const Run& run : runs) {
    if (run.count <= 0) continue;
    while (next < pieces_.size() && pieces_[next].end <= run.begin) scratch_.push_back(pieces_[next++]);
    if (next < pieces_.size() && pieces_[next].begin < run.begin) {
      Piece& old = pieces_[next];
      Piece left = old;
      left.end = run.begin;
      old.begin = run.begin;
      ++at(left.record).references;
      scratch_.push_back(left);
    }
    overlay(run, next);
  }
  scratch_.insert(scratch_.end(), pieces_.begin() + static_cast<std::ptrdiff_t>(next), pieces_.end());
  pieces_.swap(scratch_);
}

bool Shadow::holds(const Run& run, std::size_t& hint) const {
  if (run.count <= 0) return true;
  const auto ends_after = [](std::int64_t begin, const Piece& piece) { return begin < piece.end; };
  constexpr std::size_t kStepsAhead = 8;
  std::size_t i = hint;
  for (std::size_t step = 0; step < kStepsAhead && i < pieces_.size() && pieces_[i].end <= run.begin; ++step) ++i;
  if (i >= pieces_.size() || pieces_[i].end <= run.begin || pieces_[i].begin > run.begin) {
    i = static_cast<std::size_t>(std::upper_bound(pieces_.begin(), pieces_.end(), run.begin, ends_after) -
                                 pieces_.begin());
  }
  hint = i;
  if (i >= pieces_.size()) return false;
  const Piece& piece = pieces_[i];
  return piece.begin <= run.begin && piece.end >= run.end() && piece.record == run.record &&
         piece.payload == run.payload && !piece.race && piece.pitch_bytes == run.pitch_bytes &&
         piece.slot0 == run.begin - run.first_slot * run.pitch_bytes;
}

RowTag Shadow::tag(const Piece& piece, std::int64_t at_bytes) const {
  const Origin& origin = at(piece.record).origin;
  RowTag tag{origin.kind, origin.writer, origin.source, piece.payload, -1, -1, origin.round, origin.step};
  if (origin.kind != RowKind::padding) {
    tag.slot = (at_bytes - piece.slot0) / piece.pitch_bytes;
    tag.token = token(piece.record, tag.slot);
  }
  return tag;
}

Shadow::Content Shadow::read(std::int64_t begin, std::int64_t end) const {
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](std::int64_t at, const Piece& p) { return at < p.end; });
  Content content;
  std::int64_t covered = begin;
  const Piece* first = nullptr;
  bool one_row = true;
  for (; piece != pieces_.end() && piece->begin < end; ++piece) {
    if (first == nullptr) {
      first = &*piece;
      content.tag = tag(*first, std::max(begin, first->begin));
    }
    one_row = one_row && piece->begin <= covered && piece->record == first->record &&
              piece->payload == first->payload && piece->slot0 == first->slot0;
    content.race = content.race || piece->race;
    covered = piece->end;
  }
  if (first == nullptr) return content;
  const bool is_padding = content.tag.kind == RowKind::padding;
  const bool aligned =
      is_padding || (end - begin == first->pitch_bytes && (begin - first->slot0) % first->pitch_bytes == 0);
  content.state = one_row && covered >= end && aligned ? Content::State::whole : Content::State::torn;
  return content;
}

}  // namespace a2asim
