#include "model/engines/trtllm/rules/raised.h"

namespace a2asim::trtllm {

Error as_error(const Raised& raised) {
  for (const ErrorKind kind : {ErrorKind::value_error, ErrorKind::assertion_error, ErrorKind::runtime_error})
    if (raised.type == name(kind)) return {kind, raised.message};
  return {ErrorKind::runtime_error, raised.text()};
}

}  // namespace a2asim::trtllm
