// The answer of a check or a replay in one word.
#pragma once

#include <cstdint>
#include <string_view>

namespace a2asim {

// In order of precedence where several apply: rejected, disagrees, over_capacity, corrupt.
//   agrees         none of the others
//   disagrees      some batch makes ranks compute different sizes
//   over_capacity  an explicit setting admits a batch above the cap
//   rejected       the engine itself refuses to start, or asserts on the first forward
//   corrupt        of a replay: the sizes agree, and rows, expert ids or outputs are wrong all the same
//   out_of_scope   no all-to-all geometry is in use
enum class Verdict : std::uint8_t { agrees, disagrees, over_capacity, rejected, out_of_scope, corrupt };
std::string_view name(Verdict verdict);  // "agrees", ..

}  // namespace a2asim
