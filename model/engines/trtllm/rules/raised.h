// What a function of TensorRT-LLM raises, by the name that its traceback shows. There are more kinds of it than the
// program tells apart elsewhere.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "model/base/result.h"

namespace a2asim::trtllm {

struct Raised {
  std::string_view type;  // "ValueError"
  std::string message;
  std::string text() const { return std::string(type) + ": " + message; }
};

template <class T>
using Outcome = tl::expected<T, Raised>;

inline tl::unexpected<Raised> raise(std::string_view type, std::string message) {
  return tl::unexpected<Raised>(Raised{type, std::move(message)});
}

Error as_error(const Raised& raised);

}  // namespace a2asim::trtllm
