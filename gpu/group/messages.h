// The bytes that processes of a run send each other. What comes may be of anybody: lengths are checked before they
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/group/launch_environment.h"
#include "model/base/result.h"

namespace a2asim::gpu {

inline constexpr std::uint64_t kMagic = 0x6132617369'6d3032;  // "a2asim02"
enum MessageKind : std::uint64_t { kHello, kWelcome, kData, kFailure };

// In front of every message.
struct Frame {
  std::uint64_t magic = kMagic;
  std::uint64_t kind = 0;
  std::uint64_t call = 0;
  std::uint64_t bytes = 0;  // of what follows
};

// How a process introduces itself; the token follows.
struct Hello {
  std::int32_t rank = 0, size = 0;
};
inline constexpr std::size_t kMostGreetingBytes = sizeof(Frame) + sizeof(Hello) + kMostTokenBytes;
inline std::size_t greeting_bytes(std::string_view token) { return sizeof(Frame) + sizeof(Hello) + token.size(); }
std::string greeting_of(const Hello& hello, std::string_view token);

// What somebody has said so far, at most greeting_bytes(token). introduced: it knows the token, and `hello` is filled.
enum class Greeting : std::uint8_t { incomplete, foreign, introduced };
Greeting read_greeting(std::string_view said, std::string_view token, Hello& hello);

// Length-prefixed pieces in one body; nothing where a length is not true.
std::string pack(const std::vector<std::string>& pieces);
std::vector<std::string> unpack(const std::string& body);

std::string pack_error(const Error& error);
Error unpack_error(const std::string& text);

}  // namespace a2asim::gpu
