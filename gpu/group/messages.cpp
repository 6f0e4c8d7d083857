#include "gpu/group/messages.h"

#include <algorithm>
#include <cstring>

#include "model/base/check_invariant.h"

namespace a2asim::gpu {

std::string greeting_of(const Hello& hello, std::string_view token) {
  const Frame frame{kMagic, kHello, 0, sizeof hello + token.size()};
  A2ASIM_INVARIANT(token.size() <= kMostTokenBytes, "a token is short");
  std::string text(reinterpret_cast<const char*>(&frame), sizeof frame);
  text.append(reinterpret_cast<const char*>(&hello), sizeof hello);
  return text.append(token);
}

Greeting read_greeting(std::string_view said, std::string_view token, Hello& hello) {
  A2ASIM_INVARIANT(said.size() <= greeting_bytes(token), "no more is taken from a stranger");
  if (said.size() < sizeof(Frame)) return Greeting::incomplete;
  Frame frame;
  std::memcpy(&frame, said.data(), sizeof frame);
  if (frame.magic != kMagic || frame.kind != kHello || frame.call != 0 || frame.bytes != sizeof hello + token.size())
    return Greeting::foreign;
  if (said.size() < greeting_bytes(token)) return Greeting::incomplete;
  std::memcpy(&hello, said.data() + sizeof frame, sizeof hello);
  return said.substr(sizeof frame + sizeof hello) == token ? Greeting::introduced : Greeting::foreign;
}

std::string pack(const std::vector<std::string>& pieces) {
  std::string body;
  for (const std::string& piece : pieces) {
    const std::uint64_t size = piece.size();
    body.append(reinterpret_cast<const char*>(&size), sizeof size);
    body += piece;
  }
  return body;
}

std::vector<std::string> unpack(const std::string& body) {
  std::vector<std::string> pieces;
  std::size_t at = 0;
  std::uint64_t size = 0;
  while (at + sizeof size <= body.size()) {
    std::memcpy(&size, body.data() + at, sizeof size);
    at += sizeof size;
    if (size > body.size() - at) return {};
    pieces.push_back(body.substr(at, size));
    at += size;
  }
  return pieces;
}

// The kind, the number of facts, the facts, the message.
std::string pack_error(const Error& error) {
  const std::uint64_t head[] = {static_cast<std::uint64_t>(error.kind), error.facts.size()};
  return std::string(reinterpret_cast<const char*>(head), sizeof head) +
         std::string(reinterpret_cast<const char*>(error.facts.data()), error.facts.size() * sizeof(ErrorFact)) +
         error.message;
}

Error unpack_error(const std::string& text) {
  std::uint64_t head[2] = {};
  if (text.size() < sizeof head) return {ErrorKind::runtime_error, "a process sent an error that cannot be read"};
  std::memcpy(head, text.data(), sizeof head);
  const std::uint64_t most = (text.size() - sizeof head) / sizeof(ErrorFact);
  Error error{static_cast<ErrorKind>(head[0]), "", std::vector<ErrorFact>(std::min(head[1], most))};
  const std::size_t bytes = error.facts.size() * sizeof(ErrorFact);
  text.copy(reinterpret_cast<char*>(error.facts.data()), bytes, sizeof head);
  error.message = text.substr(sizeof head + bytes);
  return error;
}

}  // namespace a2asim::gpu
