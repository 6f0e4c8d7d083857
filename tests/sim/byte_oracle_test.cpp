// What the shadow says of rows against an oracle that remembers of every byte who wrote it: misplaced, stale, unwritten
// and torn rows of ranks whose R differ, some with more rows than R.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "model/alltoall/routing.h"
#include "tests/sim/sim_world.h"

namespace a2asim {

using namespace test;

namespace {

// A row as it was written: equal bytes of two rows count as different.
struct Row {
  RowKind kind = RowKind::dispatched;
  int writer = -1, source = -1, payload = -1;
  std::int64_t slot = -1, round = -1;
  std::int64_t begin_of_padding = -1;  // of padding: it is one piece for each source
  bool operator==(const Row&) const = default;
};
struct Byte {
  Row row;
  std::int64_t at = 0, of = 0;  // its place in the row, and the row's bytes
  bool raced = false;
  bool is_written() const { return row.round >= 0; }
};

using Counts = std::map<FindingKind, std::int64_t>;

class ByteOracle {
 public:
  explicit ByteOracle(const std::vector<AllToAllConfig>& configs) : config_(configs[0]) {
    for (const AllToAllConfig& config : configs)
      slices_.emplace_back(static_cast<std::size_t>(config.workspace_bytes()));
  }

  void dispatch(const World& world, const std::vector<std::int64_t>& runtime_max) {
    ++round_;
    sent_.assign(slices_.size(), std::vector<std::int64_t>(slices_.size(), 0));
    tokens_.emplace_back(slices_.size(), std::vector<std::vector<std::int64_t>>(slices_.size()));
    sizes_ = runtime_max;
    for (int rank = 0; rank < config_.ep_size; ++rank) {
      const TokenBatch& batch = world.batches[static_cast<std::size_t>(rank)];
      for (std::int64_t token = 0; token < batch.tokens(); ++token)
        for (const int to : targets(batch, token)) {
          tokens_.back()[static_cast<std::size_t>(rank)][static_cast<std::size_t>(to)].push_back(token);
          write_row(rank, to, sent(rank, to)++);
        }
    }
  }

  // Of what every rank reads of what it received.
  void read_received(Counts& counts) {
    for (int rank = 0; rank < config_.ep_size; ++rank) {
      const RegionView own = view(rank);
      for (int source = 0; source < config_.ep_size; ++source)
        for (int p = 0; p < own.num_payloads(); ++p)
          for (std::int64_t slot = 0; slot < read(rank, source); ++slot)
            count(rank, own.row(p, source, slot), own.bytes_per_token(p),
                  {RowKind::dispatched, source, source, p, slot, round_}, counts);
    }
  }

  void sanitize() {
    for (int rank = 0; rank < config_.ep_size; ++rank) {
      const RegionView own = view(rank);
      const int ids = config_.expert_id_payload;
      for (int source = 0; source < config_.ep_size; ++source) {
        const std::int64_t begin = own.row(ids, source, read(rank, source));
        const std::int64_t bytes = own.row(ids, source, size(rank)) - begin;
        write(rank, begin, bytes, {RowKind::padding, rank, -1, ids, -1, round_, begin});
      }
    }
  }

  void experts() {
    for (int rank = 0; rank < config_.ep_size; ++rank)
      for (int source = 0; source < config_.ep_size; ++source)
        for (std::int64_t slot = 0; slot < read(rank, source); ++slot)
          write(rank, view(rank).combine_row(source, slot), config_.combine_bytes_per_token(),
                {RowKind::combined, rank, source, -1, slot, round_});
  }

  // False: some row would lie behind its slice.
  bool read_returned(Counts& counts) {
    for (int rank = 0; rank < config_.ep_size; ++rank)
      for (int from = 0; from < config_.ep_size; ++from)
        for (std::int64_t slot = 0; slot < sent(rank, from); ++slot) {
          const std::int64_t begin = view(rank).combine_row(rank, slot), bytes = config_.combine_bytes_per_token();
          if (begin + bytes > std::ssize(slices_[static_cast<std::size_t>(from)])) return false;
          count(from, begin, bytes, {RowKind::combined, from, rank, -1, slot, round_}, counts);
        }
    return true;
  }

  // What a finding says of its row: where it was looked for, where it was put, and what is there.
  void check_evidence(const Finding& found) {
    const RowEvidence& row = *found.row;
    const bool is_result = row.payload < 0;
    const RegionView reader = view(found.rank), writer = view(is_result ? row.slice : row.source);
    const auto place = [&](const RegionView& own) {
      return is_result ? own.combine_row(row.source, row.slot) : own.row(row.payload, row.source, row.slot);
    };
    REQUIRE((is_result ? row.source : row.slice) == found.rank);
    REQUIRE(found.operation == (is_result ? Operation::combine : Operation::experts));
    REQUIRE(found.peer == row.source);
    REQUIRE(found.token == row.token);
    REQUIRE(found.step == round_);  // as the caller's context says
    REQUIRE(found.layer == round_ + 10);
    REQUIRE(found.phase == Phase::verify);
    REQUIRE(row.token == token_of(row.source, row.slice, row.slot, round_));
    REQUIRE(row.expected_offset == place(reader));
    REQUIRE(row.written_offset == place(writer));
    REQUIRE(row.expected_round == 2 * round_ - 1);  // a combine is a round, too
    const std::int64_t bytes = is_result ? config_.combine_bytes_per_token() : reader.bytes_per_token(row.payload);
    const auto read = bytes_at(row.slice, row.expected_offset, bytes);
    const auto first = std::ranges::find_if(read, &Byte::is_written);
    const Row there = first == read.end() ? Row{} : first->row;
    REQUIRE(row.found_writer == there.writer);
    REQUIRE(row.found_source == there.source);
    REQUIRE(row.found_payload == there.payload);
    REQUIRE(row.found_slot == there.slot);
    REQUIRE(row.found_step == there.round);
    REQUIRE(row.found_round == (there.round < 0 ? -1 : 2 * there.round - 1));
    REQUIRE(row.found_token == (there.slot < 0 ? -1 : token_of(there.source, row.slice, there.slot, there.round)));
    REQUIRE(row.race == std::ranges::any_of(read, &Byte::raced));
    REQUIRE(row.lost_writer == (row.race && there.round == round_ ? loser(row, bytes) : -1));
  }

  Traffic traffic() {
    Traffic sum;
    for (int from = 0; from < config_.ep_size; ++from) {
      sum.rows_reserved += config_.ep_size * size(from);
      for (int to = 0; to < config_.ep_size; ++to) sum.rows_sent += sent(from, to);
    }
    sum.dispatch_bytes = sum.rows_sent * (2 * config_.hidden_size + 8 * config_.top_k);
    sum.combine_bytes = sum.rows_sent * 2 * config_.hidden_size;
    return sum;
  }

  std::int64_t across = 0;  // reads that met two rows of one writer and payload, and nothing else

 private:
  std::int64_t size(int rank) const { return sizes_[static_cast<std::size_t>(rank)]; }
  RegionView view(int rank) const { return config_.regions(size(rank)); }
  std::int64_t& sent(int from, int to) { return sent_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]; }
  std::int64_t read(int rank, int source) { return std::min(sent(source, rank), size(rank)); }

  std::set<int> targets(const TokenBatch& batch, std::int64_t token) const {
    std::set<int> out;
    for (std::int64_t k = 0; k < config_.top_k; ++k)
      out.insert(target_rank(batch.expert_ids()[static_cast<std::size_t>(token * config_.top_k + k)],
                             config_.num_experts, config_.ep_size));
    return out;
  }

  std::span<const Byte> bytes_at(int slice, std::int64_t begin, std::int64_t bytes) const {
    return std::span<const Byte>(slices_[static_cast<std::size_t>(slice)])
        .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
  }
  std::int64_t token_of(int source, int slice, std::int64_t slot, std::int64_t round) const {
    return tokens_[static_cast<std::size_t>(round - 1)][static_cast<std::size_t>(source)]
                  [static_cast<std::size_t>(slice)][static_cast<std::size_t>(slot)];
  }
  // The highest other rank that put a row of this round there.
  int loser(const RowEvidence& row, std::int64_t bytes) {
    for (int rank = config_.ep_size - 1; rank >= 0; --rank)
      for (int p = 0; rank != row.found_writer && p < view(rank).num_payloads(); ++p)
        for (std::int64_t slot = 0; slot < sent(rank, row.slice); ++slot) {
          const std::int64_t begin = view(rank).row(p, rank, slot);
          if (begin < row.expected_offset + bytes && row.expected_offset < begin + view(rank).bytes_per_token(p))
            return rank;
        }
    return -1;
  }

  // Of one dispatch, and what is raced stays so until the round is over.
  void write(int slice, std::int64_t begin, std::int64_t bytes, const Row& row) {
    std::vector<Byte>& all = slices_[static_cast<std::size_t>(slice)];
    if (begin + bytes > std::ssize(all)) return;
    for (std::int64_t i = 0; i < bytes; ++i) {
      Byte& byte = all[static_cast<std::size_t>(begin + i)];
      const bool both_sent = byte.row.kind == RowKind::dispatched && row.kind == RowKind::dispatched;
      const bool races = byte.is_written() && byte.row.round == row.round && (both_sent || byte.raced);
      byte = {row, row.kind == RowKind::padding ? 0 : i, row.kind == RowKind::padding ? 0 : bytes, races};
    }
  }
  void write_row(int rank, int to, std::int64_t slot) {
    const RegionView own = view(rank);
    for (int p = 0; p < own.num_payloads(); ++p)
      write(to, own.row(p, rank, slot), own.bytes_per_token(p), {RowKind::dispatched, rank, rank, p, slot, round_});
  }

  void count(int slice, std::int64_t begin, std::int64_t bytes, const Row& wanted, Counts& counts) {
    const std::span<const Byte> read = std::span<const Byte>(slices_[static_cast<std::size_t>(slice)])
                                           .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
    const auto written = std::ranges::find_if(read, &Byte::is_written);
    if (written == read.end()) {
      ++counts[FindingKind::unwritten];
      return;
    }
    bool whole = true, raced = false, one_run = true;
    for (std::int64_t i = 0; i < bytes; ++i) {
      const Byte& byte = read[static_cast<std::size_t>(i)];
      Row other = byte.row;
      other.slot = written->row.slot;
      one_run = one_run && other == written->row;
      whole = whole && byte.row == read[0].row && (byte.of == 0 || (byte.at == i && byte.of == bytes));
      raced = raced || byte.raced;
    }
    if (!whole && one_run && written->of == bytes) ++across;
    const Row& found = read[0].row;
    if (!whole || (found == wanted && raced))
      ++counts[FindingKind::torn];
    else if (found != wanted)
      ++counts[found.round < wanted.round ? FindingKind::stale : FindingKind::misplaced];
  }

  AllToAllConfig config_;
  std::vector<std::vector<Byte>> slices_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::vector<std::int64_t>> sent_;                              // [from][to]
  std::vector<std::vector<std::vector<std::vector<std::int64_t>>>> tokens_;  // [round][from][to][slot]
  std::int64_t round_ = 0;
};

Counts seen(const World& world) {
  Counts counts;
  for (const FindingKind kind : {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten, FindingKind::torn})
    if (count(world, kind) > 0) counts[kind] = count(world, kind);
  return counts;
}

void check_rows(const World& world, ByteOracle& oracle) {
  for (const Finding& found : world.sim->findings()) {
    if (!found.row) continue;
    CAPTURE(describe(found));
    oracle.check_evidence(found);
  }
}

void check_traffic(const Traffic& moved, const Traffic& wanted) {
  REQUIRE(moved.rows_sent == wanted.rows_sent);
  REQUIRE(moved.rows_reserved == wanted.rows_reserved);
  REQUIRE(moved.dispatch_bytes == wanted.dispatch_bytes);
  REQUIRE(moved.combine_bytes == wanted.combine_bytes);
}

// R within the cap, so that no rank is refused; a few ranks have more rows than R.
std::vector<std::int64_t> draw_sizes(Random& random, int ep_size, std::int64_t cap) {
  const std::int64_t common = random.between(1, cap);
  std::vector<std::int64_t> sizes;
  for (int r = 0; r < ep_size; ++r) sizes.push_back(random.chance(1, 3) ? random.between(1, cap) : common);
  return sizes;
}

}  // namespace

TEST_CASE("sim: what rows hold, against an oracle of every byte") {
  Random random(19);
  Counts reached;
  std::int64_t across = 0;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const int ep_size = static_cast<int>(random.between(2, 4));
    const std::int64_t cap = random.between(2, 7);
    const std::int64_t hidden = random.between(1, 6);
    const int top_k = static_cast<int>(random.between(1, 2));
    World world(std::vector(static_cast<std::size_t>(ep_size), config_of(ep_size, cap, hidden, top_k)),
                {Fidelity::provenance, std::byte{0xFF}, 1 << 20});
    ByteOracle oracle(world.configs);
    for (int round = 0; round < 3; ++round) {
      CAPTURE(round);
      const std::vector<std::int64_t> sizes = draw_sizes(random, ep_size, cap);
      std::vector<std::int64_t> tokens;
      for (const std::int64_t size : sizes)
        tokens.push_back(random.between(0, size) + (random.chance(1, 8) ? random.between(1, 2) : 0));
      world.draw(tokens);
      world.sim->clear_findings();
      world.sim->reset_traffic();
      world.sim->set_context({round + 1, round + 11, Phase::verify});
      REQUIRE(world.sim->dispatch(world.inputs(sizes)).has_value());
      REQUIRE(world.sim->sanitize(-1).has_value());
      REQUIRE(world.sim->experts(kPayloads).has_value());
      Counts received, returned;
      oracle.dispatch(world, sizes);
      oracle.sanitize();
      oracle.read_received(received);
      REQUIRE(seen(world) == received);
      check_rows(world, oracle);
      oracle.experts();
      world.sim->clear_findings();
      const bool compares = oracle.read_returned(returned);
      REQUIRE(world.sim->combine(sizes, world.outputs).has_value());
      check_traffic(world.sim->traffic(), oracle.traffic());
      if (compares) {
        REQUIRE(seen(world) == returned);
        check_rows(world, oracle);
      }
      for (const Counts& counts : {received, returned})
        for (const auto& [kind, rows] : counts) reached[kind] += rows;
    }
    across += oracle.across;
  }
  for (const FindingKind kind : {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten, FindingKind::torn})
    CHECK_MESSAGE(reached[kind] > 50, name(kind), " ", reached[kind]);
  CHECK(across > 20);
}

}  // namespace a2asim
