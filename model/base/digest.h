// A 64-bit digest of a trace: FNV-1a over little-endian 64-bit words, so equal on every compiler and host.
//
// Not cryptographic: it tells whether two runs did the same. Words instead of FNV's bytes, because outputs are large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace a2asim {

class Digest {
 public:
  constexpr void add(std::uint64_t word) {
    value_ = (value_ ^ word) * kPrime;
    value_ ^= value_ >> 32;  // FNV alone carries no upper bit of a word downwards
  }
  constexpr void add(std::int64_t word) { add(static_cast<std::uint64_t>(word)); }
  constexpr void add(std::int32_t word) { add(static_cast<std::int64_t>(word)); }

  // Length first, then the bytes: "ab","c" and "a","bc" differ.
  constexpr void add(std::span<const std::byte> bytes) {
    add(static_cast<std::uint64_t>(bytes.size()));
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) add(word_at(bytes, i, 8));
    if (i < bytes.size()) add(word_at(bytes, i, bytes.size() - i));
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }

  constexpr std::uint64_t value() const { return value_; }

 private:
  static constexpr std::uint64_t kPrime = 0x100000001B3U;
  static constexpr std::uint64_t word_at(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < count; ++i) word |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
    return word;
  }

  std::uint64_t value_ = 0xCBF29CE484222325U;
};

}  // namespace a2asim
