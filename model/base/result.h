// The one way a function of this project reports that it cannot answer.
//
// A rule of SGLang or FlashInfer that raises is modelled as an Error of the same kind, so that golden rows with an
// "error" can be compared and a verdict can say what a person would have read in the log.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>  // std::expected is C++23; gcc 12 has none
#include <vector>

namespace a2asim {

// What was raised. The Python kinds carry the name that a traceback shows.
enum class ErrorKind {
  assertion_error,      // AssertionError
  value_error,          // ValueError
  type_error,           // TypeError
  runtime_error,        // RuntimeError, and FlashInfer's "Check failed: .." (TVM_FFI_ICHECK / TLLM_CHECK)
  zero_division_error,  // ZeroDivisionError
  attribute_error,      // AttributeError
  index_error,          // IndexError
  parse_error,          // argparse exits with code 2
  bad_input,            // our own: what a person gave cannot be used
};

// "AssertionError", "ValueError", ..; "parse" and "bad input" for the last two.
std::string_view name(ErrorKind kind);

// What an error says as numbers, for who compares it; the room that raises it knows them (model/alltoall/error.h).
using ErrorFact = std::array<std::int64_t, 11>;

struct Error {
  ErrorKind kind = ErrorKind::bad_input;
  std::string message;                // one line; for bad_input: what, where, and how to fix it
  std::vector<ErrorFact> facts = {};  // often none: the words are all there is
  bool operator==(const Error&) const = default;
};

// Both are to be said: the words one after the other, all facts.
void append(Error& error, const Error& more);

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}

}  // namespace a2asim
