// Values of options as Python's float(), and as SGLang's numbers with suffixes, take them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/engines/sglang/start/server_args.h"

using namespace a2asim;

namespace {

Result<ParsedArgs> with_value(const std::string& option, const std::string& value) {
  return parse_server_args(option_lists().back(), std::vector<std::string>{"--model", "m", option + "=" + value},
                           ParseMode::strict);
}

}  // namespace

TEST_CASE("values: a real number is what Python's float() takes") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<std::string, double>> good = {
      {"0.5", 0.5},   {".5", 0.5},      {"5.", 5},      {"+2", 2},      {"-2.5", -2.5}, {"1e-1", 0.1},
      {"1E2", 100},   {"1_0.5", 10.5},  {"1_2_3", 123}, {" 7 ", 7},     {"inf", inf},   {"-Infinity", -inf},
      {"1e999", inf}, {"-1e999", -inf}, {"1e-999", 0},  {"0.1_5", 0.15}};
  for (const auto& [text, value] : good) {
    CAPTURE(text);
    const auto parsed = with_value("--schedule-conservativeness", text);
    REQUIRE(parsed.has_value());
    CHECK(parsed->args.schedule_conservativeness == value);
  }
  REQUIRE(with_value("--schedule-conservativeness", "nan").has_value());
  CHECK(std::isnan(with_value("--schedule-conservativeness", "nan")->args.schedule_conservativeness));
  for (const std::string text :
       {"", "x", "1__0", "_1", "1_", "1_.5", "1._5", "0x10", "1e", "--1", "+-1", "1 2", "nan(1)", "1,5"}) {
    CAPTURE(text);
    const auto parsed = with_value("--schedule-conservativeness", text);
    REQUIRE(!parsed.has_value());
    CHECK(parsed.error().message ==
          "launch_server: error: argument --schedule-conservativeness: invalid float value: '" + text + "'");
  }
}

TEST_CASE("values: numbers of tokens take suffixes, decimals only of those of 1000") {
  const std::vector<std::pair<std::string, std::int64_t>> good = {{"16", 16},
                                                                  {"16k", 16'000},
                                                                  {"16Ki", 16 * 1024},
                                                                  {"1.5k", 1500},
                                                                  {"2M", 2'000'000},
                                                                  {"2Mi", 2 << 20},
                                                                  {"1.25M", 1'250'000},
                                                                  {"1G", 1'000'000'000},
                                                                  {"3T", 3'000'000'000'000},
                                                                  {"1Ti", std::int64_t{1} << 40},
                                                                  {"1Gi", 1 << 30},
                                                                  {"0.0015k", 1},
                                                                  {"9223372036854775.8k", 9'223'372'036'854'775'800},
                                                                  {" 8k ", 8000},
                                                                  {"-1", -1}};
  for (const auto& [text, value] : good) {
    CAPTURE(text);
    const auto parsed = with_value("--max-total-tokens", text);
    CAPTURE((parsed ? "" : parsed.error().message));
    REQUIRE(parsed.has_value());
    CHECK(parsed->args.max_total_tokens == value);
  }
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"1.5", "invalid human_readable_int value: '1.5'"},
      {"1.5Ki", "Decimals are not allowed with IEC suffixes like 'Ki'"},
      {"16K", "invalid human_readable_int value: '16K'"},
      {"2m", "invalid human_readable_int value: '2m'"},
      {"k", "invalid human_readable_int value: 'k'"},
      {".5k", "invalid human_readable_int value: '.5k'"},
      {"1.k", "invalid human_readable_int value: '1.k'"},
      {"-1k", "invalid human_readable_int value: '-1k'"},
      {"1kk", "invalid human_readable_int value: '1kk'"},
      {"9223372036854775808", "9223372036854775808 is beyond what 64 bits hold"},
      {"9223372036854775k8", "invalid human_readable_int value: '9223372036854775k8'"},
      {"9223372036854776k", "9223372036854776k is beyond what 64 bits hold"},
      {"9223372036854775.9k", "9223372036854775.9k is beyond what 64 bits hold"}};
  for (const auto& [text, message] : bad) {
    CAPTURE(text);
    const auto parsed = with_value("--max-total-tokens", text);
    REQUIRE(!parsed.has_value());
    CHECK(parsed.error().message == "launch_server: error: argument --max-total-tokens: " + message);
  }
}
