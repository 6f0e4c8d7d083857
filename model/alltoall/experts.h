// The closed-form experts of alltoall.h, shared by the simulator and the CUDA kernels: the same bits on both.
//
// Expert e multiplies a row by scale(e) = (1 + e % 4) / 4. One received row gives, element by element in float32,
//   acc = +0.0;  for each own expert in top-k order: acc = acc + (weight * scale(e)) * x
// with every operation rounded on its own (no fused multiply-add), and is rounded once to combine_type.
#pragma once

#include <cstdint>

#include "model/alltoall/host_device.h"

namespace a2asim {

// What a rank does with one expert id of a received row.
enum class ExpertIdClass : std::uint8_t {
  own,           // computed here
  elsewhere,     // valid, another rank's: valid rows keep all their global ids
  padding,       // the invalid id that sanitize wrote, or -1 (SGLang's dummy tokens)
  out_of_range,  // garbage: contributes nothing here; an illegal memory access on hardware
};

// first, count: this rank's experts (first_expert and num_local_experts of routing.h).
A2ASIM_HOST_DEVICE constexpr ExpertIdClass classify_expert_id(std::int32_t id, std::int64_t first, std::int64_t count,
                                                              std::int64_t num_experts, std::int32_t invalid_id) {
  if (id == invalid_id || id == -1) return ExpertIdClass::padding;
  if (id < 0 || id >= num_experts) return ExpertIdClass::out_of_range;
  return id >= first && id < first + count ? ExpertIdClass::own : ExpertIdClass::elsewhere;
}

// Exact in every float type.
A2ASIM_HOST_DEVICE constexpr float closed_form_scale(std::int32_t expert) {
  return static_cast<float>(1 + expert % 4) * 0.25F;
}

// weight * scale(e), rounded to float32.
A2ASIM_HOST_DEVICE inline float closed_form_factor(float weight, std::int32_t expert) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(weight, closed_form_scale(expert));
#else
  return weight * closed_form_scale(expert);
#endif
}

// acc + factor * x as two roundings. The host is compiled without contraction (-ffp-contract=off).
A2ASIM_HOST_DEVICE inline float closed_form_accumulate(float acc, float factor, float x) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(acc, __fmul_rn(factor, x));
#else
  const float product = factor * x;
  return acc + product;
#endif
}

}  // namespace a2asim
