// A set of ranks. At most 64, FlashInfer's limit, so that it is one machine word and never allocates.
//
//   RankMask waiting = RankMask::all(ep_size) - refused;
//   for (const int rank : waiting) ..          // ascending
//   if (!waiting.empty()) first = waiting.first();
//
// bits() is for what leaves C++ (a kernel's argument, a digest); nothing converts by itself.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "model/base/check_invariant.h"

namespace a2asim {

class RankMask {
 public:
  static constexpr int kMost = 64;

  constexpr RankMask() = default;
  explicit constexpr RankMask(std::uint64_t bits) : bits_(bits) {}  // bit r: rank r
  static constexpr RankMask of(int rank) { return RankMask(bit(rank)); }
  static constexpr RankMask all(int ranks) {
    A2ASIM_INVARIANT(ranks >= 0 && ranks <= kMost, "a rank mask holds 0 to 64 ranks");
    return RankMask(ranks == kMost ? ~std::uint64_t{0} : (std::uint64_t{1} << ranks) - 1);
  }
  static constexpr RankMask everybody() { return all(kMost); }

  constexpr std::uint64_t bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr int count() const { return std::popcount(bits_); }
  constexpr bool contains(int rank) const { return (bits_ & bit(rank)) != 0; }
  constexpr int first() const {
    A2ASIM_INVARIANT(bits_ != 0, "the first rank of a set that has one");
    return std::countr_zero(bits_);
  }
  constexpr void add(int rank) { bits_ |= bit(rank); }
  constexpr void remove(int rank) { bits_ &= ~bit(rank); }

  constexpr RankMask operator|(RankMask other) const { return RankMask(bits_ | other.bits_); }
  constexpr RankMask operator&(RankMask other) const { return RankMask(bits_ & other.bits_); }
  constexpr RankMask operator-(RankMask other) const { return RankMask(bits_ & ~other.bits_); }
  constexpr RankMask& operator|=(RankMask other) { return *this = *this | other; }
  constexpr RankMask& operator&=(RankMask other) { return *this = *this & other; }
  constexpr RankMask& operator-=(RankMask other) { return *this = *this - other; }
  constexpr bool operator==(const RankMask&) const = default;

  class Iterator {
   public:
    using value_type = int;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::forward_iterator_tag;
    using reference = int;
    using pointer = void;

    constexpr Iterator() = default;
    explicit constexpr Iterator(std::uint64_t left) : left_(left) {}
    constexpr int operator*() const { return std::countr_zero(left_); }
    constexpr Iterator& operator++() {
      left_ &= left_ - 1;
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator was = *this;
      ++*this;
      return was;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    std::uint64_t left_ = 0;
  };
  constexpr Iterator begin() const { return Iterator(bits_); }
  constexpr Iterator end() const { return Iterator(0); }

 private:
  static constexpr std::uint64_t bit(int rank) {
    A2ASIM_INVARIANT(rank >= 0 && rank < kMost, "a rank of a mask is 0 to 63");
    return std::uint64_t{1} << rank;
  }

  std::uint64_t bits_ = 0;
};

}  // namespace a2asim
