// Switches of the faults that tools/mutate.py puts into a copy of the sources, where every file includes this first.
// A2ASIM_MUTANT: the number of the fault that is on. A2ASIM_REACHED: a file with a byte for each fault, set when it is
// asked for; so programs that a test starts count, too.
#pragma once
#include <stdio.h>  // and not fcntl.h, whose open() would meet names of ours
#include <stdlib.h>
#include <sys/mman.h>

namespace a2asim_mutate {
inline unsigned char* reached() {
  static unsigned char nobody[4096];
  const char* path = getenv("A2ASIM_REACHED");
  FILE* const file = path != nullptr ? fopen(path, "r+e") : nullptr;
  if (file == nullptr) return nobody;
  void* const map = mmap(nullptr, sizeof nobody, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  fclose(file);
  return map == MAP_FAILED ? nobody : static_cast<unsigned char*>(map);
}
inline bool on(int fault) {  // reads the environment at the first call, which may come before main
  static unsigned char* const bytes = reached();
  static const int active = getenv("A2ASIM_MUTANT") != nullptr ? atoi(getenv("A2ASIM_MUTANT")) : 0;
  bytes[fault] = 1;
  return active == fault;
}
constexpr bool on_unless_constant(int fault) { return !__builtin_is_constant_evaluated() && on(fault); }
template <class T>
constexpr T nothing(T) { return T(); }
constexpr const char* nothing(const char*) { return ""; }
}  // namespace a2asim_mutate
