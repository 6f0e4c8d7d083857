#include "model/base/result.h"

namespace a2asim {

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::assertion_error:
      return "AssertionError";
    case ErrorKind::value_error:
      return "ValueError";
    case ErrorKind::type_error:
      return "TypeError";
    case ErrorKind::runtime_error:
      return "RuntimeError";
    case ErrorKind::zero_division_error:
      return "ZeroDivisionError";
    case ErrorKind::attribute_error:
      return "AttributeError";
    case ErrorKind::index_error:
      return "IndexError";
    case ErrorKind::parse_error:
      return "parse";
    case ErrorKind::bad_input:
      return "bad input";
  }
  return "unknown";
}

void append(Error& error, const Error& more) {
  error.message += "; " + more.message;
  error.facts.insert(error.facts.end(), more.facts.begin(), more.facts.end());
}

}  // namespace a2asim
