#include <cstdio>

#include "model/result.h"
#include "model/workspace.h"

int main() {
  const auto kind = a2asim::name(a2asim::ErrorKind::value_error);  // a function of the library, not of its headers
  std::printf("%.*s %lld\n", static_cast<int>(kind.size()), kind.data(), static_cast<long long>(a2asim::pad128(129)));
  return kind == "ValueError" && a2asim::pad128(129) == 256 ? 0 : 1;
}
