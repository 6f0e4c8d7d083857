// What experts make of the rows that a rank received, on the host: for dispatchers that have none of their own, and for
// the oracle beside them. Rows come by source and slot.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/alltoall/reference.h"

namespace a2asim::conformance {

// The closed-form experts of alltoall.h; a network, if there is one, instead of their scales.
std::vector<std::byte> closed_form_results(const AllToAllConfig& config, int rank, const Received& received,
                                           const ExpertPayloads& payloads, const ExpertNetwork* network = nullptr);

// Small numbers that follow from the bytes of a row alone, so that they do not depend on its slot: every sum of them is
// exact in every type. For shapes without weights.
std::vector<std::byte> numbers_of_rows(const AllToAllConfig& config, std::span<const std::byte> rows,
                                       std::int64_t row_bytes);

}  // namespace a2asim::conformance
