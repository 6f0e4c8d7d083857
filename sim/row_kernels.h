// The inner loops of numeric fidelity: gather rows, run closed-form experts on a row, sum a token's rows.
//
// Rows are contiguous; loops are written so that compilers vectorise them, and compiled for several instruction sets that
// give the same bits. Addresses need the alignment of the element
// type only where it says so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/alltoall.h"

namespace a2asim {

// destination[i] = source[tokens[i]] for i < count, rows of row_bytes.
void gather_rows(std::byte* destination, const std::byte* source, const std::int32_t* tokens, std::int64_t count,
                 std::int64_t row_bytes);

// output = sum over i < count of factors[i] * x, by model/experts.h; output aligned, x at any address.
using ExpertRowKernel = void (*)(const std::byte* x, const float* factors, int count, std::int64_t elements,
                                 std::byte* output);
// output = the sum of top_k rows in the shape of model/reduction.h. rows: aligned; what is absent points to zeros.
using CombineRowKernel = void (*)(const std::byte* const* rows, int top_k, std::int64_t elements, std::byte* output);
// Rounds float32 numbers to the type.
using RoundRowKernel = void (*)(const float* values, std::int64_t elements, std::byte* output);
// The other way; x at any address.
using LoadRowKernel = void (*)(const std::byte* x, std::int64_t elements, float* values);

// nullptr for opaque bytes. For the widest instruction set of this processor.
ExpertRowKernel expert_row_kernel(DataType type);
CombineRowKernel combine_row_kernel(DataType type, int top_k);
RoundRowKernel round_row_kernel(DataType type);
LoadRowKernel load_row_kernel(DataType type);

// --- For tests: the kernels of one instruction set.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };
struct RowKernels {
  ExpertRowKernel expert = nullptr;
  CombineRowKernel combine = nullptr;
  RoundRowKernel round = nullptr;
  LoadRowKernel load = nullptr;
};
bool runs_here(InstructionSet set);
RowKernels row_kernels(DataType type, int top_k, InstructionSet set);  // of one that runs here

}  // namespace a2asim
