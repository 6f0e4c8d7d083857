#include "tools/from_log/from_log_lines.h"

#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "model/base/python_int.h"

namespace a2asim {
namespace {

constexpr std::string_view kBatch = " batch";
constexpr std::int64_t kMostLogTokens = std::int64_t{1} << 20;  // kMaxScenarioTokens

bool is_word_char(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// The number at the front; nothing when there is none or it leaves int64.
std::optional<std::int64_t> number_at(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data() || value < 0) return std::nullopt;
  return value;
}

// "dddd-dd-dd dd:dd:dd", 'T' instead of the blank allowed.
constexpr std::string_view kStampShape = "0000-00-00 00:00:00";
bool is_stamp(std::string_view text) {
  if (text.size() < kStampShape.size()) return false;
  for (std::size_t i = 0; i < kStampShape.size(); ++i) {
    const bool fits =
        kStampShape[i] == '0' ? is_digit(text[i]) : text[i] == kStampShape[i] || (i == 10 && text[i] == 'T');
    if (!fits) return false;
  }
  return true;
}

std::optional<std::int64_t> milliseconds_of(std::string_view stamp) {
  const auto part = [&](std::size_t at, std::size_t digits) { return *number_at(stamp.substr(at, digits)); };
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(part(0, 4))),
                                        std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                        std::chrono::day(static_cast<unsigned>(part(8, 2)))};
  if (!day.ok() || part(11, 2) > 23 || part(14, 2) > 59 || part(17, 2) > 60) return std::nullopt;
  const std::int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  std::int64_t out = ((days * 24 + part(11, 2)) * 60 + part(14, 2)) * 60 + part(17, 2);
  out *= 1000;
  std::string_view rest = stamp.substr(kStampShape.size());
  if (rest.size() > 1 && (rest[0] == '.' || rest[0] == ',')) {
    rest.remove_prefix(1);
    for (std::int64_t digit = 100; digit > 0 && !rest.empty() && is_digit(rest[0]); digit /= 10) {
      out += digit * (rest[0] - '0');
      rest.remove_prefix(1);
    }
  }
  return out;
}

// The last stamp of the prefix counts: containers and journals write theirs in front.
std::string_view read_time(std::string_view prefix, BatchLine& line) {
  for (std::size_t at = prefix.size(); at-- > 0;) {
    if (!is_digit(prefix[at]) || !is_stamp(prefix.substr(at))) continue;
    line.time_ms = milliseconds_of(prefix.substr(at));
    return prefix.substr(at + kStampShape.size());
  }
  return prefix;
}

// " DP1", " TP0]": a word of its own, so that MOE_DP0 is no DP0. False: a tag's number leaves int64.
bool read_tags(std::string_view prefix, BatchLine& line) {
  struct Tag {
    std::string_view name;
    std::optional<std::int64_t> BatchLine::*member;
  };
  constexpr std::array<Tag, 4> tags = {{{"DP", &BatchLine::dp_rank},
                                        {"PP", &BatchLine::pp_rank},
                                        {"TP", &BatchLine::tp_rank},
                                        {"ATTN_CP", &BatchLine::attn_cp_rank}}};
  for (std::size_t at = 0; at < prefix.size();) {
    std::size_t end = at;
    while (end < prefix.size() && is_word_char(prefix[end])) ++end;
    const std::string_view word = prefix.substr(at, end - at);
    at = end + 1;
    for (const Tag& tag : tags) {
      if (!word.starts_with(tag.name)) continue;
      const std::string_view digits = word.substr(tag.name.size());
      if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
      const std::optional<std::int64_t> rank = number_at(digits);
      if (!rank) return false;
      line.*tag.member = rank;
    }
  }
  return true;
}

// The value behind "#new-token: ", wherever it stands.
std::optional<std::string_view> field(std::string_view body, std::string_view name) {
  const std::size_t at = body.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view value = body.substr(at + name.size());
  while (!value.empty() && value[0] == ' ') value.remove_prefix(1);
  return value;
}

LogEntry read_batch(std::string_view prefix, std::string_view body, BatchLine line) {
  const auto unusable = [&](std::string_view reason) { return UnusableLine{line.number, reason}; };
  const bool prefill = line.kind == BatchLine::Kind::prefill;
  if (!read_tags(read_time(prefix, line), line)) return unusable("a rank tag that is no number");
  const std::string_view behind = body.substr(body.find(kBatch) + kBatch.size());
  if (behind.starts_with(" [")) line.iteration = number_at(behind.substr(2));
  const auto count = field(body, prefill ? "#new-token:" : "#running-req:");
  if (!count) return unusable(prefill ? "a prefill batch without #new-token" : "a decode batch without #running-req");
  const std::optional<std::int64_t> value = number_at(*count);
  if (!value || *value > kMostLogTokens) return unusable("a count that is no number, or above 1048576");
  line.count = *value;
  if (prefill) {
    const std::int64_t running = number_at(field(body, "#running-req:").value_or("0")).value_or(0);
    if (running > kMostLogTokens - line.count) return unusable("a count that is no number, or above 1048576");
    line.running_req = running;
  }
  const std::string_view accepted = field(body, "accept len:").value_or(field(body, "accept length:").value_or(""));
  static_cast<void>(std::from_chars(accepted.data(), accepted.data() + accepted.size(), line.accept_len));
  const std::string_view graph = field(body, " graph:").value_or("");
  if (graph.starts_with("True")) line.cuda_graph = true;
  if (graph.starts_with("False")) line.cuda_graph = false;
  return line;
}

struct Mark {
  std::size_t at = std::string_view::npos;
  BatchLine::Kind kind = BatchLine::Kind::decode;
};

// The next "Prefill batch" or "Decode batch" that is followed as in such a message. One pass: a line may be long.
Mark next_mark(std::string_view text, std::size_t from) {
  constexpr std::array<std::pair<std::string_view, BatchLine::Kind>, 2> words = {
      {{"Prefill", BatchLine::Kind::prefill}, {"Decode", BatchLine::Kind::decode}}};
  for (std::size_t at = text.find(kBatch, from); at != std::string_view::npos; at = text.find(kBatch, at + 1)) {
    const std::string_view rest = text.substr(at + kBatch.size());
    if (!rest.starts_with(", ") && !rest.starts_with(". ") && !rest.starts_with(" [")) continue;
    for (const auto& [word, kind] : words)
      if (text.substr(from, at - from).ends_with(word)) return {at - word.size(), kind};
  }
  return {};
}

}  // namespace

std::string without_colours(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '[') {
      at += 2;
      while (at < text.size() && (text[at] < '@' || text[at] > '~')) ++at;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::vector<LogEntry> read_batches(std::string_view line, std::size_t number) {
  if (line.find(kBatch) == std::string_view::npos) return {};
  const std::string plain = without_colours(line);
  const std::string_view text = plain;
  std::vector<LogEntry> entries;
  std::size_t prefix_from = 0;
  for (Mark mark = next_mark(text, 0); mark.at != std::string_view::npos;) {
    const Mark next = next_mark(text, mark.at + 1);
    const std::string_view body = text.substr(mark.at, next.at == std::string_view::npos ? next.at : next.at - mark.at);
    BatchLine batch;
    batch.number = number;
    batch.kind = mark.kind;
    entries.push_back(read_batch(text.substr(prefix_from, mark.at - prefix_from), body, batch));
    prefix_from = mark.at;
    mark = next;
  }
  return entries;
}

}  // namespace a2asim
