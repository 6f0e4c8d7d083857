// The two-sided baseline as a plug-in: counts by ncclAllGather, rows and results by ncclSend and ncclRecv, one rank a
// GPU. Rows are packed, and results added, on the host: it shows what two sides need to agree on, not how fast it can
// be.
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/backend_plugin.h"
#include "model/alltoall/number_types.h"
#include "model/alltoall/routing.h"

namespace {

void check(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}
void check(ncclResult_t code, const char* what) {
  if (code != ncclSuccess) throw std::runtime_error(std::string(what) + ": " + ncclGetErrorString(code));
}

// What a GPU sends to, or has from, each peer. Regions of one peer lie behind those of another, of `most` rows each.
struct Buffers {
  std::byte* rows = nullptr;
  std::byte* results = nullptr;
};

class Group {
 public:
  explicit Group(const a2asim_group_v1& group) : ranks_(group.ep_size), rank_(group.ranks[0]) {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "looking for GPUs");
    if (devices < ranks_ || group.num_local != ranks_)
      throw std::runtime_error("SKIPPED: NCCL takes one rank a GPU: " + std::to_string(ranks_) + " ranks, " +
                               std::to_string(devices) + " GPUs");
    if (rank_.combine_type == A2ASIM_OPAQUE) throw std::runtime_error("SKIPPED: opaque bytes cannot be added");
    for (int p = 0; p < rank_.num_payloads; ++p) row_bytes_ += rank_.payload_bytes_per_token[p];
    a2asim::with_number_type(static_cast<a2asim::DataType>(rank_.combine_type), [&](auto type) {
      result_bytes_ = rank_.hidden_size * number(sizeof(typename decltype(type)::Storage));
    });
    comms_.resize(size(ranks_)), out_.resize(size(ranks_)), in_.resize(size(ranks_)), places_.resize(size(ranks_));
    counts_.assign(size(ranks_ * ranks_), 0);
    check(ncclCommInitAll(comms_.data(), ranks_, nullptr), "ncclCommInitAll");
    for (int r = 0; r < ranks_; ++r) {
      check(cudaSetDevice(r), "cudaSetDevice");
      for (Buffers* side : {&out_[size(r)], &in_[size(r)]}) {
        check(cudaMalloc(&side->rows, size(region(row_bytes_) * ranks_)), "memory for rows");
        check(cudaMalloc(&side->results, size(region(result_bytes_) * ranks_)), "memory for results");
      }
      check(cudaMalloc(&device_counts_.emplace_back(), 8 * size(ranks_ * (ranks_ + 1))), "memory for counts");
    }
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    for (const ncclComm_t comm : comms_) ncclCommDestroy(comm);
    for (int r = 0; r < ranks_; ++r) {
      cudaSetDevice(r);
      for (const Buffers* side : {&out_[size(r)], &in_[size(r)]}) cudaFree(side->rows), cudaFree(side->results);
      cudaFree(device_counts_[size(r)]);
    }
  }

  void dispatch(const a2asim_input_v1* inputs) {
    for (int r = 0; r < ranks_; ++r) pack(r, inputs[r]);
    agree_on_counts();
    exchange([](const Buffers& b) { return b.rows; }, row_bytes_, false);
  }

  // Payload p of a row lies behind those before it, so that a row is one piece on its way; views want each by itself.
  void received(int rank, a2asim_view_v1* view) {
    check(cudaSetDevice(rank), "cudaSetDevice");
    for (int s = 0; s < ranks_; ++s) {
      view->counters[s] = view->num_rows[s] = counts_[size(s * ranks_ + rank)];
      view->results[s] = in_[size(rank)].results + region(result_bytes_) * s;
      const std::byte* from = in_[size(rank)].rows + region(row_bytes_) * s;
      for (int p = 0; p < rank_.num_payloads; ++p) {
        view->rows[p * ranks_ + s] = from;
        from += rank_.max_num_tokens * rank_.payload_bytes_per_token[p];
      }
    }
  }

  void combine(void* const* outputs) {
    exchange([](const Buffers& b) { return b.results; }, result_bytes_, true);
    std::vector<std::byte> results(size(region(result_bytes_) * ranks_));
    for (int r = 0; r < ranks_; ++r) {
      check(cudaSetDevice(r), "cudaSetDevice");
      check(cudaMemcpy(results.data(), out_[size(r)].results, results.size(), cudaMemcpyDefault), "reading results");
      for (std::size_t t = 0; t < places_[size(r)].size(); ++t)
        add(results, places_[size(r)][t], static_cast<std::byte*>(outputs[r]) + result_bytes_ * number(t));
    }
  }

  std::string error;

 private:
  struct Place {
    int to = 0;
    std::int64_t slot = 0;
  };
  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
  static std::int64_t number(std::size_t value) { return static_cast<std::int64_t>(value); }
  std::int64_t region(std::int64_t bytes_of_row) const { return rank_.max_num_tokens * bytes_of_row; }

  // Regions of the payloads lie one behind the other: all of payload 0 to a peer, then all of payload 1.
  void pack(int source, const a2asim_input_v1& input) {
    if (input.num_tokens > rank_.max_num_tokens) throw std::runtime_error("more tokens than max_num_tokens");
    std::vector<std::byte> rows(size(region(row_bytes_) * ranks_));
    std::vector<std::int64_t> next(size(ranks_), 0);
    auto& places = places_[size(source)];
    places.assign(size(input.num_tokens), {});
    for (std::int64_t t = 0; t < input.num_tokens; ++t) {
      for (int k = 0; k < rank_.top_k; ++k) {
        const int to = a2asim::target_rank(input.expert_ids[t * rank_.top_k + k], rank_.num_experts, ranks_);
        auto& sent = places[size(t)];
        if (std::ranges::find(sent, to, &Place::to) != sent.end()) continue;
        const std::int64_t slot = next[size(to)]++;
        sent.push_back({to, slot});
        std::byte* at = rows.data() + region(row_bytes_) * to;
        for (int p = 0; p < rank_.num_payloads; ++p) {
          const std::int64_t bytes = rank_.payload_bytes_per_token[p];
          std::memcpy(at + slot * bytes, static_cast<const std::byte*>(input.payloads[p]) + t * bytes, size(bytes));
          at += rank_.max_num_tokens * bytes;
        }
      }
    }
    check(cudaSetDevice(source), "cudaSetDevice");
    check(cudaMemcpy(out_[size(source)].rows, rows.data(), rows.size(), cudaMemcpyDefault), "sending rows");
    check(cudaMemcpy(device_counts_[size(source)], next.data(), 8 * next.size(), cudaMemcpyDefault), "sending counts");
  }

  // Each rank learns what every other will send, as two-sided calls need it; all ranks must have learnt the same.
  void agree_on_counts() {
    check(ncclGroupStart(), "ncclGroupStart");
    for (int r = 0; r < ranks_; ++r)
      check(ncclAllGather(device_counts_[size(r)], device_counts_[size(r)] + ranks_, size(ranks_), ncclInt64,
                          comms_[size(r)], nullptr),
            "ncclAllGather");
    check(ncclGroupEnd(), "ncclGroupEnd");
    std::vector<std::int64_t> learnt(counts_.size());
    for (int r = 0; r < ranks_; ++r) {
      check(cudaSetDevice(r), "cudaSetDevice");
      check(cudaMemcpy(learnt.data(), device_counts_[size(r)] + ranks_, 8 * learnt.size(), cudaMemcpyDefault),
            "counts");
      if (r > 0 && learnt != counts_) throw std::runtime_error("ranks learnt different counts");
      counts_ = learnt;
    }
  }

  // Payload by payload, since each has a region of its own; back: results, from where dispatch brought the rows.
  template <class Region>
  void exchange(const Region& region_of, std::int64_t bytes_of_row, bool back) {
    std::vector<std::int64_t> parts(rank_.payload_bytes_per_token, rank_.payload_bytes_per_token + rank_.num_payloads);
    if (back) parts = {bytes_of_row};
    check(ncclGroupStart(), "ncclGroupStart");
    for (int r = 0; r < ranks_; ++r) {
      const Buffers &from = back ? in_[size(r)] : out_[size(r)], &to = back ? out_[size(r)] : in_[size(r)];
      for (int peer = 0; peer < ranks_; ++peer) {
        const std::int64_t sent = counts_[size(back ? peer * ranks_ + r : r * ranks_ + peer)];
        const std::int64_t received = counts_[size(back ? r * ranks_ + peer : peer * ranks_ + r)];
        std::int64_t at = region(bytes_of_row) * peer;
        for (const std::int64_t part : parts) {
          const ncclComm_t comm = comms_[size(r)];
          if (sent > 0)
            check(ncclSend(region_of(from) + at, size(sent * part), ncclInt8, peer, comm, nullptr), "ncclSend");
          if (received > 0)
            check(ncclRecv(region_of(to) + at, size(received * part), ncclInt8, peer, comm, nullptr), "ncclRecv");
          at += rank_.max_num_tokens * part;
        }
      }
    }
    check(ncclGroupEnd(), "ncclGroupEnd");
    for (int r = 0; r < ranks_; ++r) {
      check(cudaSetDevice(r), "cudaSetDevice");
      check(cudaStreamSynchronize(nullptr), "waiting for NCCL");
    }
  }

  void add(const std::vector<std::byte>& results, const std::vector<Place>& places, std::byte* output) const {
    a2asim::with_number_type(static_cast<a2asim::DataType>(rank_.combine_type), [&](auto type) {
      using Storage = typename decltype(type)::Storage;
      for (std::int64_t i = 0; i < rank_.hidden_size; ++i) {
        float sum = 0;
        for (const Place& place : places) {
          Storage bits;
          const auto row = region(result_bytes_) * place.to + result_bytes_ * place.slot;
          std::memcpy(&bits, results.data() + row + i * number(sizeof bits), sizeof bits);
          sum += type.load(bits);
        }
        const Storage bits = type.store(sum);
        std::memcpy(output + i * number(sizeof bits), &bits, sizeof bits);
      }
    });
  }

  int ranks_;
  a2asim_rank_v1 rank_;  // all ranks alike
  std::int64_t row_bytes_ = 0, result_bytes_ = 0;
  std::vector<ncclComm_t> comms_;
  std::vector<Buffers> out_, in_;
  std::vector<std::int64_t*> device_counts_;             // own [ep_size], then everybody's [ep_size, ep_size]
  std::vector<std::int64_t> counts_;                     // [source, destination]
  std::vector<std::vector<std::vector<Place>>> places_;  // [source][token]
};

std::string create_error;

// Calls body; what it throws becomes the object's error.
template <class Body>
int guarded(void* object, const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& failure) {
    (object == nullptr ? create_error : static_cast<Group*>(object)->error) = failure.what();
  }
  return 1;
}

Group& group_of(void* object) { return *static_cast<Group*>(object); }

}  // namespace

extern "C" {
const a2asim_backend_v1 a2asim_backend_v1_table = {
    .version = A2ASIM_BACKEND_VERSION,
    .struct_bytes = sizeof(a2asim_backend_v1),
    .name = "nccl",
    .capabilities = A2ASIM_CAN_SLOT_ORDER | A2ASIM_CAN_ZERO_TOKENS | A2ASIM_CAN_CHANGING_R | A2ASIM_CAN_UNEQUAL_R |
                    A2ASIM_CAN_SEVERAL_RANKS,
    .workspace_bytes = [](const a2asim_group_v1*, std::int32_t) { return std::int64_t{0}; },
    .create = [](const a2asim_group_v1* group,
                 void** object) { return guarded(nullptr, [&] { *object = new Group(*group); }); },
    .destroy = [](void* object) { delete static_cast<Group*>(object); },
    .error =
        [](void* object, a2asim_error_v1* error) {
          const std::string& text = object == nullptr ? create_error : group_of(object).error;
          std::strncpy(error->text, text.c_str(), static_cast<std::size_t>(error->text_bytes - 1));
        },
    .dispatch = [](void* object, const a2asim_input_v1* inputs,
                   void*) { return guarded(object, [&] { group_of(object).dispatch(inputs); }); },
    .received = [](void* object, std::int32_t local,
                   a2asim_view_v1* view) { return guarded(object, [&] { group_of(object).received(local, view); }); },
    .copy =
        [](void* object, void* to, const void* from, std::int64_t bytes) {
          return guarded(object, [&] {
            check(cudaMemcpy(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault), "copying");
          });
        },
    .combine = [](void* object, const std::int64_t*, void* const* outputs,
                  void*) { return guarded(object, [&] { group_of(object).combine(outputs); }); },
    .slots = nullptr,
    .set_rank_mask = nullptr,
    .sanitize = nullptr,
    .experts = nullptr,
    .read_workspace = nullptr,
    .poison = nullptr,
    .capture = nullptr,
    .replay = nullptr,
    .check = nullptr,
};
}
