#include "sim/alltoall/judge.h"

#include <fmt/format.h>

#include <cmath>

#include "model/base/check_invariant.h"

namespace a2asim {

Result<std::int64_t> judge_output(DataType type, std::span<const std::byte> output, const ReferenceResult& reference,
                                  std::int64_t hidden_size, Tolerance tolerance_kind, const Finding& where,
                                  FindingLog& log) {
  const auto values = decode(type, output);
  if (!values) return tl::unexpected(values.error());
  const auto hidden = static_cast<std::size_t>(hidden_size);
  A2ASIM_INVARIANT(reference.output.size() == reference.magnitude.size(), "every output of the oracle has a magnitude");
  if (hidden_size < 1 || values->size() != reference.output.size() || values->size() % hidden != 0) {
    return fail(ErrorKind::bad_input, fmt::format("judge: {} output elements against {} of the oracle, rows of {}",
                                                  values->size(), reference.output.size(), hidden_size));
  }
  std::int64_t bad_tokens = 0;
  for (std::size_t row = 0; row < values->size(); row += hidden) {
    // NaN anywhere in a row outranks a wrong number.
    std::size_t wrong = hidden, nan = hidden;
    for (std::size_t i = hidden; i-- > 0;) {
      const double value = (*values)[row + i], wanted = reference.output[row + i];
      if (std::isnan(value)) {
        nan = i;
      } else if (!(std::abs(value - wanted) <= tolerance(tolerance_kind, type, wanted, reference.magnitude[row + i]))) {
        wrong = i;
      }
    }
    if (wrong == hidden && nan == hidden) continue;
    ++bad_tokens;
    Finding found = where;
    found.kind = nan < hidden ? FindingKind::nan_output : FindingKind::wrong_output;
    found.severity = Severity::error;
    found.operation = Operation::combine;
    found.token = static_cast<std::int64_t>(row / hidden);
    found.value = static_cast<std::int64_t>(nan < hidden ? nan : wrong);
    log.add(std::move(found));
  }
  return bad_tokens;
}

}  // namespace a2asim
