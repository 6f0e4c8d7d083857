// What one data-parallel rank has to do in one scheduler iteration, in SGLang's terms.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/result.h"

namespace a2asim {

// SGLang's ForwardMode (model_executor/forward_batch_info.py), as far as the all-to-all sees it.
enum class ForwardMode : std::uint8_t {
  extend,
  decode,
  mixed,
  idle,
  target_verify,
  draft_extend,
  draft_extend_v2,
  prebuilt,
};

std::string_view name(ForwardMode mode);               // SGLang's spelling: "EXTEND", "DECODE", ..
Result<ForwardMode> parse_forward_mode(std::string_view text);  // either case

// ForwardMode.is_extend(): a rank in such a mode makes the whole step an extend step.
constexpr bool is_extend(ForwardMode mode) {
  return mode == ForwardMode::extend || mode == ForwardMode::mixed || mode == ForwardMode::draft_extend ||
         mode == ForwardMode::draft_extend_v2 || mode == ForwardMode::target_verify;
}

}  // namespace a2asim
