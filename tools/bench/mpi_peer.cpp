// What a person would use instead of the simulator: one process a rank, dispatch and combine with MPI_Alltoallv.
//
//   mpirun -n RANKS a2asim-bench-mpi TOKENS HIDDEN SECONDS     prints {"steps_per_s": .., "pairs": ..}
//
// The same work as a2asim-bench's numeric steps: top_k 8 of 256 experts, every token to each distinct destination once,
// with its hidden row (bfloat16), ids and weights; closed-form experts on the received rows; rows back, summed per
// token. Two contents alternate. Counts are exchanged before rows, as nobody knows them. No dependence on a2asim: also
// built by smpicxx, whose ranks are threads of one process (no global state here).
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr int kExperts = 256;
constexpr int kTopK = 8;

float load(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

std::uint16_t store(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

struct Batch {
  std::vector<std::int32_t> ids;      // [tokens, kTopK]
  std::vector<float> weights;         // [tokens, kTopK]
  std::vector<std::uint16_t> hidden;  // [tokens, hidden]
};

class Peer {
 public:
  Peer(int tokens, int hidden) : tokens_(tokens), hidden_(hidden) {
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    const auto ranks = static_cast<std::size_t>(ranks_);
    for (auto* counts :
         {&send_, &receive_, &send_at_, &receive_at_, &send_bytes_, &receive_bytes_, &send_offset_, &receive_offset_})
      counts->resize(ranks);
    row_bytes_ = 2 * hidden + 8 * kTopK;
    const std::size_t most = ranks * static_cast<std::size_t>(tokens);
    sent_.resize(most * static_cast<std::size_t>(row_bytes_));
    received_.resize(sent_.size());
    computed_.resize(most * static_cast<std::size_t>(hidden));
    returned_.resize(computed_.size());
    token_rows_.resize(static_cast<std::size_t>(tokens) * kTopK);
    output_.resize(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(hidden));
    sums_.resize(static_cast<std::size_t>(hidden));
    for (Batch& batch : batches_) draw(batch);
  }

  void step() {
    route(batches_[round_ % 2]);
    exchange(sent_.data(), send_, send_at_, received_.data(), receive_, receive_at_, row_bytes_);
    experts();
    exchange(reinterpret_cast<char*>(computed_.data()), receive_, receive_at_,
             reinterpret_cast<char*>(returned_.data()), send_, send_at_, 2 * hidden_);
    sum();
    ++round_;
  }
  int rank() const { return rank_; }
  long pairs() const { return send_at_.back() + send_.back(); }

 private:
  void draw(Batch& batch) {
    std::uint64_t state = 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(rank_ + 1 + 1000 * draws_++);
    const auto next = [&state](unsigned bound) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      return static_cast<int>(((state >> 33) * bound) >> 31);
    };
    for (int t = 0; t < tokens_; ++t) {
      for (int j = 0; j < kTopK; ++j) {
        int id = next(kExperts);
        for (int k = 0; k < j; ++k) {
          if (batch.ids[static_cast<std::size_t>(t * kTopK + k)] != id) continue;
          id = next(kExperts);
          k = -1;
        }
        batch.ids.push_back(id);
        batch.weights.push_back(1.0F / static_cast<float>(1 << next(3)));
      }
      for (int h = 0; h < hidden_; ++h) batch.hidden.push_back(store(static_cast<float>(next(5) - 2)));
    }
  }

  // Packs the rows by destination.
  void route(const Batch& batch) {
    send_.assign(send_.size(), 0);
    std::vector<int>& to = token_rows_;
    for (int t = 0; t < tokens_; ++t) {
      for (int j = 0; j < kTopK; ++j) {
        const std::size_t at = static_cast<std::size_t>(t * kTopK + j);
        to[at] = batch.ids[at] * ranks_ / kExperts;
        for (int k = 0; k < j; ++k)
          if (to[static_cast<std::size_t>(t * kTopK + k)] == to[at]) to[at] = -1;
        if (to[at] >= 0) ++send_[static_cast<std::size_t>(to[at])];
      }
    }
    MPI_Alltoall(send_.data(), 1, MPI_INT, receive_.data(), 1, MPI_INT, MPI_COMM_WORLD);
    offsets(send_, send_at_);
    offsets(receive_, receive_at_);
    std::vector<int>& next = send_offset_;
    next = send_at_;
    for (int t = 0; t < tokens_; ++t) {
      for (int j = 0; j < kTopK; ++j) {
        int& place = to[static_cast<std::size_t>(t * kTopK + j)];
        if (place < 0) continue;
        place = next[static_cast<std::size_t>(place)]++;
        char* row = sent_.data() + static_cast<std::size_t>(place) * static_cast<std::size_t>(row_bytes_);
        const auto hidden = static_cast<std::size_t>(hidden_);
        std::memcpy(row, batch.hidden.data() + static_cast<std::size_t>(t) * hidden, 2 * hidden);
        std::memcpy(row + 2 * hidden, batch.ids.data() + t * kTopK, 4 * kTopK);
        std::memcpy(row + 2 * hidden + 4 * kTopK, batch.weights.data() + t * kTopK, 4 * kTopK);
      }
    }
  }

  static void offsets(const std::vector<int>& counts, std::vector<int>& at) {
    int sum = 0;
    for (std::size_t r = 0; r < counts.size(); ++r) {
      at[r] = sum;
      sum += counts[r];
    }
  }

  void exchange(const char* from, const std::vector<int>& out, const std::vector<int>& out_at, char* to,
                const std::vector<int>& in, const std::vector<int>& in_at, int row_bytes) {
    for (std::size_t r = 0; r < out.size(); ++r) {
      send_bytes_[r] = out[r] * row_bytes;
      send_offset_[r] = out_at[r] * row_bytes;
      receive_bytes_[r] = in[r] * row_bytes;
      receive_offset_[r] = in_at[r] * row_bytes;
    }
    MPI_Alltoallv(from, send_bytes_.data(), send_offset_.data(), MPI_BYTE, to, receive_bytes_.data(),
                  receive_offset_.data(), MPI_BYTE, MPI_COMM_WORLD);
  }

  void experts() {
    const int rows = receive_at_.back() + receive_.back();
    const int first = rank_ * kExperts / ranks_, end = (rank_ + 1) * kExperts / ranks_;
    for (int i = 0; i < rows; ++i) {
      const char* row = received_.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(row_bytes_);
      const auto* x = reinterpret_cast<const std::uint16_t*>(row);
      const auto* ids = reinterpret_cast<const std::int32_t*>(x + hidden_);
      const auto* weights = reinterpret_cast<const float*>(ids + kTopK);
      float factor = 0.0F;
      for (int j = 0; j < kTopK; ++j)
        if (ids[j] >= first && ids[j] < end) factor += weights[j] * static_cast<float>(1 + ids[j] % 4) * 0.25F;
      std::uint16_t* out = computed_.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(hidden_);
      for (int h = 0; h < hidden_; ++h) out[h] = store(factor * load(x[h]));
    }
  }

  void sum() {
    for (int t = 0; t < tokens_; ++t) {
      sums_.assign(sums_.size(), 0.0F);
      for (int j = 0; j < kTopK; ++j) {
        const int place = token_rows_[static_cast<std::size_t>(t * kTopK + j)];
        if (place < 0) continue;
        const std::uint16_t* row =
            returned_.data() + static_cast<std::size_t>(place) * static_cast<std::size_t>(hidden_);
        for (int h = 0; h < hidden_; ++h) sums_[static_cast<std::size_t>(h)] += load(row[h]);
      }
      std::uint16_t* out = output_.data() + static_cast<std::size_t>(t) * static_cast<std::size_t>(hidden_);
      for (int h = 0; h < hidden_; ++h) out[h] = store(sums_[static_cast<std::size_t>(h)]);
    }
  }

  int tokens_, hidden_, ranks_ = 0, rank_ = 0, row_bytes_ = 0, draws_ = 0;
  std::size_t round_ = 0;
  Batch batches_[2];
  std::vector<int> send_, receive_, send_at_, receive_at_;                      // rows
  std::vector<int> send_bytes_, receive_bytes_, send_offset_, receive_offset_;  // bytes
  std::vector<int> token_rows_;                                                 // [tokens, kTopK]: row sent, or -1
  std::vector<char> sent_, received_;
  std::vector<std::uint16_t> computed_, returned_, output_;
  std::vector<float> sums_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 4) {
    std::fprintf(stderr, "usage: a2asim-bench-mpi TOKENS HIDDEN SECONDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const double seconds = std::atof(argv[3]);
  {
    Peer peer(std::atoi(argv[1]), std::atoi(argv[2]));
    peer.step();
    peer.step();
    // Rank 0 decides when it is enough, for groups of steps that grow: one broadcast must not weigh.
    long steps = 0;
    int group = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    using Clock = std::chrono::steady_clock;  // MPI_Wtime is simulated time under SMPI
    const Clock::time_point start = Clock::now();
    double elapsed = 0;
    while (group > 0) {
      for (int i = 0; i < group; ++i) peer.step();
      steps += group;
      elapsed = std::chrono::duration<double>(Clock::now() - start).count();
      group = elapsed > seconds ? 0 : elapsed < seconds / 8 ? 2 * group : group;
      MPI_Bcast(&group, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    long pairs = peer.pairs(), all = 0;
    MPI_Reduce(&pairs, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (peer.rank() == 0)
      std::printf("{\"steps_per_s\": %.6g, \"steps\": %ld, \"pairs\": %ld}\n", static_cast<double>(steps) / elapsed,
                  steps, all);
  }
  MPI_Finalize();
  return 0;
}
