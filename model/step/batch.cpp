#include "model/step/batch.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace a2asim {
namespace {

constexpr std::array<std::pair<ForwardMode, std::string_view>, 8> kNames = {{
    {ForwardMode::extend, "EXTEND"},
    {ForwardMode::decode, "DECODE"},
    {ForwardMode::mixed, "MIXED"},
    {ForwardMode::idle, "IDLE"},
    {ForwardMode::target_verify, "TARGET_VERIFY"},
    {ForwardMode::draft_extend, "DRAFT_EXTEND"},
    {ForwardMode::draft_extend_v2, "DRAFT_EXTEND_V2"},
    {ForwardMode::prebuilt, "PREBUILT"},
}};

constexpr char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return upper(x) == upper(y); });
}

}  // namespace

std::string_view name(ForwardMode mode) { return kNames[static_cast<std::size_t>(mode)].second; }

Result<ForwardMode> parse_forward_mode(std::string_view text) {
  for (const auto& [mode, spelling] : kNames)
    if (equal_ignoring_case(text, spelling)) return mode;
  std::string message = "forward mode \"" + std::string(text) + "\" is unknown; use one of";
  for (const auto& [mode, spelling] : kNames) message += " " + std::string(spelling);
  return fail(ErrorKind::bad_input, std::move(message));
}

std::int64_t logprob_tokens(std::span<const std::int64_t> extend_lens,
                            std::span<const std::int64_t> logprob_start_lens) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < std::min(extend_lens.size(), logprob_start_lens.size()); ++i)
    sum += std::max<std::int64_t>(extend_lens[i] - logprob_start_lens[i], 1);
  return sum;
}

}  // namespace a2asim
