// What a reader expected against what the shadow says is there.
#include <algorithm>

#include "sim/sim_alltoall.h"

namespace a2asim {
namespace {

struct Judgement {
  FindingKind kind;
  Severity severity;
};

// Nothing if the row is the expected one.
std::optional<Judgement> judge(const Shadow::Content& content, RowKind kind, int writer, int source, int payload,
                               std::int64_t slot, std::int64_t round) {
  using State = Shadow::Content::State;
  const RowTag& tag = content.tag;
  if (content.state == State::unwritten) return Judgement{FindingKind::unwritten, Severity::error};
  if (content.state == State::torn) return Judgement{FindingKind::torn, Severity::error};
  const bool expected = tag.kind == kind && tag.writer == writer && tag.source == source && tag.payload == payload &&
                        tag.slot == slot && tag.round == round;
  // The right row, but another rank wrote there too: on hardware either may win, or both in part.
  if (expected && content.race) return Judgement{FindingKind::torn, Severity::warning};
  if (expected) return std::nullopt;
  return Judgement{tag.round < round ? FindingKind::stale : FindingKind::misplaced, Severity::error};
}

}  // namespace

void SimAllToAll::check_rows(const RowCheck& check, std::size_t& hint) {
  if (check.run.record != Shadow::kNone && shadow_of(check.slice).holds(check.run, hint)) return;
  for (std::int64_t i = 0; i < check.run.count; ++i) inspect_row(check, i);
}

void SimAllToAll::inspect_row(const RowCheck& check, std::int64_t index) {
  const Shadow& shadow = shadow_of(check.slice);
  const std::int64_t begin = check.run.begin + index * check.run.pitch_bytes;
  const bool is_combine = check.operation == Operation::combine;
  const Shadow::Content content = shadow.read(begin, begin + check.run.pitch_bytes);
  const auto judgement =
      judge(content, is_combine ? RowKind::combined : RowKind::dispatched, is_combine ? check.slice : check.source,
            check.source, check.run.payload, index, check.round);
  if (!judgement) return;
  const std::int64_t token = shadow.token(check.tokens_of, index);
  std::vector<std::uint8_t>& tainted = rank_at(check.source).tainted;
  if (token >= 0 && token < static_cast<std::int64_t>(tainted.size())) tainted[static_cast<std::size_t>(token)] = 1;
  if (!log_.count(judgement->kind)) return;

  Finding found = finding(judgement->kind, judgement->severity, check.operation, check.reader);
  found.root = root_;
  found.peer = check.source;
  found.token = token;
  RowEvidence row;
  row.slice = check.slice;
  row.source = check.source;
  row.payload = check.run.payload;
  row.token = token;
  row.slot = index;
  row.expected_offset = begin;
  row.written_offset = check.written_at < 0 ? -1 : check.written_at + index * check.run.pitch_bytes;
  row.expected_round = check.round;
  row.race = content.race;
  if (content.state != Shadow::Content::State::unwritten) {
    row.found_writer = content.tag.writer;
    row.found_source = content.tag.source;
    row.found_payload = content.tag.payload;
    row.found_token = content.tag.token;
    row.found_round = content.tag.round;
    row.found_step = content.tag.step;
  }
  found.row = row;
  log_.keep(std::move(found));
}

}  // namespace a2asim
