#include "model/step/verdict.h"

namespace a2asim {

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::agrees: return "agrees";
    case Verdict::disagrees: return "disagrees";
    case Verdict::over_capacity: return "over_capacity";
    case Verdict::rejected: return "rejected";
    case Verdict::out_of_scope: return "out_of_scope";
    case Verdict::corrupt:
      return "corrupt";
  }
  return "?";
}

}  // namespace a2asim
