// What a person gives: files, standard input and numbers. All errors are bad_input: one line, with the fix.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/result.h"
#include "model/launch/environment.h"
#include "tools/program/io.h"

namespace a2asim {

// Launch scripts, scenarios and config.json files are far smaller; what is larger is a wrong file.
inline constexpr std::size_t kMaxInputBytes = std::size_t{4} << 20;

// What all of them give: the message is one line, with the fix.
inline tl::unexpected<Error> unusable(std::string message) { return fail(ErrorKind::bad_input, std::move(message)); }

// The text of a file. Errors: missing, a directory, unreadable, larger than kMaxInputBytes, or no UTF-8 text. A byte
// order mark is dropped.
Result<std::string> read_text_file(const std::string& path);
// The same for standard input, up to its end.
Result<std::string> read_standard_input(Io& io);

// The value of one of our own options, decimal, within [minimum, maximum].
Result<std::int64_t> parse_count(std::string_view option, std::string_view text, std::int64_t minimum,
                                 std::int64_t maximum);
// As in a scenario: 0..2^64 - 1.
Result<std::uint64_t> parse_seed(std::string_view text);
// --threads; without it, one a core.
Result<int> parse_threads(const std::optional<std::string>& text);
// A finite number above 0; `unit` says what it counts.
Result<double> parse_positive(std::string_view option, std::string_view text, std::string_view unit, double maximum);
// --env NAME=VALUE, as often as it was given.
Result<void> add_environment(const std::vector<std::string>& settings, Environment& env);
// The index of `text` among `choices`.
Result<std::size_t> parse_choice(std::string_view option, std::string_view text,
                                 const std::vector<std::string_view>& choices);

}  // namespace a2asim
