// The inner loops of numeric fidelity: gather rows, run closed-form experts on a row, sum a token's rows.
//
// Rows are contiguous; loops are written so that compilers vectorise them, and compiled for several instruction sets
// that give the same bits. Addresses need the alignment of the element type only where it says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/alltoall/alltoall.h"

namespace a2asim {

// destination[i] = source[tokens[i]] for i < count, rows of row_bytes.
void gather_rows(std::byte* destination, const std::byte* source, const std::int32_t* tokens, std::int64_t count,
                 std::int64_t row_bytes);

// Closed-form experts (model/alltoall/experts.h) on rows of one source: every row is the sum over its own experts, in
// top-k order.
struct ExpertRows {
  const std::byte* hidden;   // [count, elements], as everything here but the output at any address
  const std::byte* ids;      // [count, top_k] int32
  const std::byte* weights;  // [count, top_k] float32
  std::byte* output;         // [count, elements], aligned
  std::int64_t count;
  std::int64_t elements;
  int top_k;
  std::uint32_t first_expert, num_local_experts;  // this rank's
  std::uint32_t num_experts;
};
// False: there is an id outside [0, num_experts); such ids compute nothing.
using ExpertRowsKernel = bool (*)(const ExpertRows& rows);
// output = the sum of top_k rows in the shape of model/alltoall/reduction.h. rows: aligned; what is absent points to
// zeros.
using CombineRowKernel = void (*)(const std::byte* const* rows, int top_k, std::int64_t elements, std::byte* output);
// Rounds float32 numbers to the type.
using RoundRowKernel = void (*)(const float* values, std::int64_t elements, std::byte* output);
// The other way; x at any address.
using LoadRowKernel = void (*)(const std::byte* x, std::int64_t elements, float* values);

// nullptr for opaque bytes.
struct RowKernels {
  ExpertRowsKernel experts = nullptr;
  CombineRowKernel combine = nullptr;
  RoundRowKernel round = nullptr;
  LoadRowKernel load = nullptr;
};
RowKernels row_kernels(DataType type, int top_k);  // for the widest instruction set of this processor

// For tests: the kernels of one instruction set, which runs here.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };
bool runs_here(InstructionSet set);
RowKernels row_kernels(DataType type, int top_k, InstructionSet set);

}  // namespace a2asim
