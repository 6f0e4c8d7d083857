#include "sim/alltoall/shadow.h"

#include <algorithm>

#include "model/base/check_invariant.h"

namespace a2asim {

SentRecords::Id SentRecords::open(const Sent& sent) {
  if (free_.empty()) {
    free_.push_back(static_cast<Id>(records_.size()));
    records_.emplace_back().to.resize(ep_size_);
  }
  const Id id = free_.back();
  free_.pop_back();
  Record& record = at(id);
  record.sent = sent;
  A2ASIM_INVARIANT(record.held == 0, "a record that is handed out is free");
  record.held = ep_size_;
  for (Destination& destination : record.to) destination.references = 1;
  return id;
}

void SentRecords::close(Id id) {
  A2ASIM_INVARIANT(id >= 0 && id < std::ssize(records_), "a record that is closed was opened");
  for (std::size_t d = 0; d < ep_size_; ++d) release(id, static_cast<int>(d));
}

void SentRecords::set_tokens(Id id, int destination, std::span<const std::int32_t> by_slot) {
  A2ASIM_INVARIANT(destination >= 0 && destination < static_cast<int>(ep_size_), "tokens go to a rank");
  if (by_slot.empty()) return;
  std::vector<std::int32_t>& tokens = at(id).to[static_cast<std::size_t>(destination)].tokens;
  if (!spare_.empty()) {
    tokens = std::move(spare_.back());
    spare_.pop_back();
  }
  tokens.assign(by_slot.begin(), by_slot.end());
}

void SentRecords::release(Id id, int destination) {
  Record& record = at(id);
  Destination& to = record.to[static_cast<std::size_t>(destination)];
  A2ASIM_INVARIANT(to.references > 0, "a shadow record was released twice");
  if (--to.references > 0) return;
  if (!to.tokens.empty()) {
    spare_.push_back(std::move(to.tokens));
    to.tokens.clear();
  }
  if (--record.held == 0) free_.push_back(id);
}

std::int64_t SentRecords::token(Id id, int destination, std::int64_t slot) const {
  const std::span<const std::int32_t> by_slot = tokens(id, destination);
  return slot >= 0 && slot < std::ssize(by_slot) ? by_slot[static_cast<std::size_t>(slot)] : -1;
}

void Shadow::clear() {
  for (const Piece& piece : pieces_) records_->release(piece.record, slice_);
  pieces_.clear();
}

// Two rows of one round: rows of one rank race too, because each token has a block of its own.
bool Shadow::races(const Piece& older, const Run& newer) const {
  return older.kind == RowKind::dispatched && newer.kind == RowKind::dispatched &&
         records_->sent(older.record).round == records_->sent(newer.record).round;
}

// Takes over one reference; neighbours of one run that touch become one piece again.
void Shadow::push(const Piece& piece) {
  if (!scratch_.empty()) {
    Piece& last = scratch_.back();
    if (last.end == piece.begin && last.is_same_run(piece) && last.race == piece.race) {
      last.end = piece.end;
      records_->release(piece.record, slice_);
      return;
    }
  }
  scratch_.push_back(piece);
}

// Puts `run` over the old pieces from `next` on, which begin at or after its begin or straddle it.
void Shadow::overlay(const Run& run, std::size_t& next) {
  A2ASIM_INVARIANT(run.record != kNone && run.pitch_bytes > 0, "bytes are written by somebody, in rows");
  const std::int64_t slot0 = run.begin - run.first_slot * run.pitch_bytes;
  const auto add = [&](std::int64_t begin, std::int64_t end, bool race) {
    if (begin >= end) return;
    records_->hold(run.record, slice_);
    push({begin, end, slot0, run.pitch_bytes, run.record, static_cast<std::int16_t>(run.payload), run.kind, race});
  };
  const std::int64_t round = records_->sent(run.record).round;
  std::int64_t done = run.begin;
  while (next < pieces_.size() && pieces_[next].begin < run.end()) {
    Piece& old = pieces_[next];
    const std::int64_t end = std::min(old.end, run.end());
    if (races(old, run) || (old.race && records_->sent(old.record).round == round)) {
      add(done, old.begin, false);
      add(std::max(done, old.begin), end, true);
      done = end;
    }
    if (old.end > run.end()) {
      old.begin = run.end();
      break;
    }
    records_->release(old.record, slice_);
    ++next;
  }
  add(done, run.end(), false);
}

std::size_t Shadow::first_ending_after(std::int64_t at_bytes) const {
  const auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), at_bytes,
                                      [](std::int64_t at, const Piece& p) { return at < p.end; });
  return static_cast<std::size_t>(piece - pieces_.begin());
}

// Only the pieces between the first and the last run are made anew.
void Shadow::write(std::span<const Run> runs) {
  const auto is_empty = [](const Run& run) { return run.count <= 0; };
  const auto first_run = std::find_if_not(runs.begin(), runs.end(), is_empty);
  if (first_run == runs.end()) return;
  scratch_.clear();
  std::int64_t written_to = first_run->begin;
  std::size_t first = first_ending_after(first_run->begin);
  if (first > 0) --first;  // a run may go on where the last one ended
  std::size_t next = first;
  for (const Run& run : runs) {
    if (is_empty(run)) continue;
    A2ASIM_INVARIANT(run.begin >= written_to, "runs are sorted and disjoint");
    written_to = run.end();
    while (next < pieces_.size() && pieces_[next].end <= run.begin) scratch_.push_back(pieces_[next++]);
    if (next < pieces_.size() && pieces_[next].begin < run.begin) {
      Piece& old = pieces_[next];
      Piece left = old;
      left.end = run.begin;
      old.begin = run.begin;
      records_->hold(left.record, slice_);
      scratch_.push_back(left);
    }
    overlay(run, next);
  }
  const auto begin = pieces_.begin() + static_cast<std::ptrdiff_t>(first);
  const std::size_t room = next - first;
  const std::size_t in_place = std::min(room, scratch_.size());
  const auto rest = scratch_.begin() + static_cast<std::ptrdiff_t>(in_place);
  const auto at = std::copy(scratch_.begin(), rest, begin);
  if (in_place < room) {
    pieces_.erase(at, begin + static_cast<std::ptrdiff_t>(room));
  } else {
    pieces_.insert(at, rest, scratch_.end());
  }
}

bool Shadow::holds(const Run& run, std::size_t& hint) const {
  if (run.count <= 0) return true;
  constexpr std::size_t kStepsAhead = 8;
  std::size_t i = hint;
  for (std::size_t step = 0; step < kStepsAhead && i < pieces_.size() && pieces_[i].end <= run.begin; ++step) ++i;
  if (i >= pieces_.size() || pieces_[i].end <= run.begin || pieces_[i].begin > run.begin) {
    i = first_ending_after(run.begin);
  }
  hint = i;
  if (i >= pieces_.size()) return false;
  const Piece& piece = pieces_[i];
  return piece.begin <= run.begin && piece.end >= run.end() && piece.record == run.record && piece.kind == run.kind &&
         piece.payload == run.payload && !piece.race && piece.pitch_bytes == run.pitch_bytes &&
         piece.slot0 == run.begin - run.first_slot * run.pitch_bytes;
}

RowTag Shadow::tag(const Piece& piece, std::int64_t at_bytes) const {
  A2ASIM_INVARIANT(piece.begin <= at_bytes && at_bytes < piece.end, "a tag is of a byte of its piece");
  const SentRecords::Sent& sent = records_->sent(piece.record);
  RowTag tag{piece.kind,  piece.kind == RowKind::dispatched ? sent.source : slice_,
             sent.source, piece.payload,
             -1,          -1,
             sent.round,  sent.step};
  if (piece.kind == RowKind::padding) {
    tag.source = -1;  // nobody's token
  } else {
    tag.slot = (at_bytes - piece.slot0) / piece.pitch_bytes;
    tag.token = records_->token(piece.record, slice_, tag.slot);
  }
  return tag;
}

Shadow::Content Shadow::read(std::int64_t begin, std::int64_t end) const {
  A2ASIM_INVARIANT(begin < end, "a row has bytes");
  Content content;
  std::int64_t covered = begin;
  const Piece* first = nullptr;
  bool one_row = true;
  for (std::size_t i = first_ending_after(begin); i < pieces_.size() && pieces_[i].begin < end; ++i) {
    const Piece& piece = pieces_[i];
    if (first == nullptr) {
      first = &piece;
      content.tag = tag(piece, std::max(begin, piece.begin));
    }
    one_row = one_row && piece.begin <= covered && piece.is_same_run(*first);
    content.race = content.race || piece.race;
    covered = piece.end;
  }
  if (first == nullptr) return content;
  const bool is_padding = content.tag.kind == RowKind::padding;
  const bool aligned =
      is_padding || (end - begin == first->pitch_bytes && (begin - first->slot0) % first->pitch_bytes == 0);
  content.state = one_row && covered >= end && aligned ? Content::State::whole : Content::State::torn;
  return content;
}

}  // namespace a2asim
