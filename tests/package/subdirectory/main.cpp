#include "model/base/result.h"
#include "model/alltoall/workspace.h"

int main() {
  const auto kind = a2asim::name(a2asim::ErrorKind::value_error);  // a function of the library, not of its headers
  return kind == "ValueError" && a2asim::pad128(129) == 256 ? 0 : 1;
}
