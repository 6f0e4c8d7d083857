// Where a generator takes its choices from. One generator body serves the random run and the exhaustive walk: it asks
// for numbers, and does not know who answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/base/check_invariant.h"
#include "model/base/random.h"

namespace a2asim::props {

class ChoiceSource {
 public:
  virtual ~ChoiceSource() = default;
  ChoiceSource(const ChoiceSource&) = delete;
  ChoiceSource& operator=(const ChoiceSource&) = delete;

  // In [low, high], both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    A2ASIM_INVARIANT(low <= high, "a choice among nothing");
    return low + static_cast<std::int64_t>(choose(static_cast<std::uint32_t>(high - low + 1)));
  }
  template <class List>
  typename List::value_type one_of(const List& list) {
    return *(list.begin() + between(0, static_cast<std::int64_t>(list.size()) - 1));
  }
  bool coin() { return between(0, 1) == 1; }

 protected:
  ChoiceSource() = default;
  virtual std::uint32_t choose(std::uint32_t count) = 0;  // in [0, count)
};

class RandomChoice final : public ChoiceSource {
 public:
  explicit RandomChoice(std::uint64_t seed) : random_(seed) {}

 private:
  std::uint32_t choose(std::uint32_t count) override { return random_.below(count); }
  Random random_;
};

// Walks every sequence of answers, the last one fastest, so that what is chosen first changes seldom:
//   ExhaustiveChoice choices;
//   do { body(choices); } while (choices.next());
// How many choices there are, and among how many, may depend on the answers before.
class ExhaustiveChoice final : public ChoiceSource {
 public:
  bool next() {
    A2ASIM_INVARIANT(position_ == taken_.size(), "a generator asks the same after the same answers");
    position_ = 0;
    while (!taken_.empty()) {
      if (++taken_.back().value < taken_.back().count) return true;
      taken_.pop_back();
    }
    return false;
  }

 private:
  struct Taken {
    std::uint32_t value, count;
  };
  std::uint32_t choose(std::uint32_t count) override {
    if (position_ == taken_.size()) taken_.push_back({0, count});
    const Taken& taken = taken_[position_++];
    A2ASIM_INVARIANT(taken.count == count, "a generator asks the same after the same answers");
    return taken.value;
  }

  std::vector<Taken> taken_;
  std::size_t position_ = 0;
};

}  // namespace a2asim::props
