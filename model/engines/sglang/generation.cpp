#include "model/engines/sglang/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cctype>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

constexpr RequestBoundRules kPoolNotDivided{.clamps_explicit_limit = false, .pool_is_not_divided = true};
constexpr RequestBoundRules kClamped{.clamps_explicit_limit = true, .pool_is_not_divided = false};
constexpr RequestBoundRules kPlain{};

constexpr CapacityRules cap_rules(FlashInferVersion flashinfer, MaxNumTokensRule rule, bool larger_type = false) {
  return {.flashinfer = flashinfer, .max_num_tokens = rule, .sized_for_larger_type = larger_type};
}

// What changes from row to row is what the PR changed; semantics of each function are beside its declaration.
std::vector<Generation> make_generations() {
  using enum FlashInferVersion;
  using enum SanitizeRule;
  const auto world_jan = compute_dp_attention_world_info_pr14668;
  const auto world = compute_dp_attention_world_info_pr27945;
  std::vector<Generation> rows = {
      {"pr14668", 14668, "2026-01-24", "2c2c4e446b",
       "first FlashInfer dispatcher: R = max of the list, else the local rows; cap = 1024 x ep_size; dummy token",
       "v0.5.9 to v0.5.11", nullptr, world_jan, kGatherRulesPr14668, kMlpSyncPr14668, kDpPaddingPr14668,
       kGraphRulesPr14668, sizing_pr14668, cap_rules(v0_6_1, max_num_tokens_pr14668), none, kPoolNotDivided},
      {"pr24850", 24850, "2026-05-10", "8e2142c15a", "padding slots are sanitised (they held live expert ids: NaN)",
       "v0.5.12, v0.5.12.post1", nullptr, world, kGatherRulesPr27945, kMlpSyncPr27945, kDpPaddingPr24850,
       kGraphRulesPr24850, sizing_pr14668, cap_rules(v0_6_8_post1, max_num_tokens_pr14668), minus_one, kClamped},
      {"pr25685", 25685, "2026-05-18", "878e6b8886",
       "R = max of the list only when it has more than one entry (sequence parallelism was over-sized)", "", nullptr,
       world, kGatherRulesPr27945, kMlpSyncPr27945, kDpPaddingPr24850, kGraphRulesPr24850, sizing_pr25685,
       cap_rules(v0_6_11_post1, max_num_tokens_pr14668), minus_one, kClamped},
      {"pr25907", 25907, "2026-05-20", "8fa56a0ab1",
       "cap no longer multiplied by ep_size, default 4096; with #22669: flashinfer_cutedsl, R >= 1 with a dummy token", "",
       nullptr, world, kGatherRulesPr27945, kMlpSyncPr27945, kDpPaddingPr24850, kGraphRulesPr24850, sizing_pr25907,
       cap_rules(v0_6_11_post1, max_num_tokens_pr25907), num_experts, kClamped},
      {"pr26643", 26643, "2026-06-02", "b603f08c0c",
       "default cap = max(chunked_prefill_size, 4096); graph capture hands its token list to the dispatcher",
       "v0.5.13, v0.5.13.post1", nullptr, world, kGatherRulesPr27945, kMlpSyncPr27945, kDpPaddingPr26643,
       kGraphRulesPr26643, sizing_pr25907, cap_rules(v0_6_11_post1, max_num_tokens_pr26643), num_experts, kClamped},
      {"pr27945", 27945, "2026-06-12", "f23f48df98",
       "without the gather predicate R = the static cap: cures the collapse (NaN), at the price of waste", "", nullptr,
       world, kGatherRulesPr27945, kMlpSyncPr27945, kDpPaddingPr27945, kGraphRulesPr26643, sizing_pr27945,
       cap_rules(v0_6_12, max_num_tokens_pr26643), num_experts, kPlain},
      {"pr29461", 29461, "2026-06-28", "828411e6f1",
       "the static cap is not baked into graphs any more: the local bucket is, and ranks disagree at replay (#30242)", "",
       nullptr, world, kGatherRulesPr27945, kMlpSyncPr27945, kDpPaddingPr27945, kGraphRulesPr26643, sizing_pr29461,
       cap_rules(v0_6_12, max_num_tokens_pr26643), num_experts, kPlain},
      {"pr22394", 22394, "2026-06-29", "b8c25bfaa7",
       "dummy token removed (zero local tokens are legal); flashinfer_trtllm_routed allowed", "v0.5.15", nullptr, world,
       kGatherRulesPr27945, kMlpSyncPr27945, kDpPaddingPr27945, kGraphRulesPr26643, sizing_pr22394,
       cap_rules(v0_6_12, max_num_tokens_pr26643), minus_one_if_routed, kPlain},
      {"pr30450", 30450, "2026-07-08", "ca8f15cd70",
       "the gather predicate is true for FlashInfer: no collapse; two assertions. Fixes #30242",
       "v0.5.16, v0.5.17, v0.5.18", nullptr, world, kGatherRulesPr30450, kMlpSyncPr27945, kDpPaddingPr27945,
       kGraphRulesPr30450, sizing_pr30450, cap_rules(v0_6_12, max_num_tokens_pr26643), minus_one_if_routed, kPlain},
      {"main20260823", 0, "2026-08-23", "cce0a1244b",
       "main branch of that day: FlashInfer v0.6.17 (top_k 12, 14, 18; uneven experts); request counts choose the bucket",
       "", nullptr, world, kGatherRulesMain20260823, kMlpSyncMain20260823, kDpPaddingMain20260823,
       kGraphRulesMain20260823, sizing_pr30450, cap_rules(v0_6_17, max_num_tokens_pr26643), minus_one_if_routed, kPlain},
      {"pr35758", 35758, "2026-08-28", "",
       "R = ceil(max / attn_tp_size), asserted against the cap; prefill leaves the all-to-all for an all-gatherv", "v0.5.19",
       nullptr, world, kGatherRulesMain20260823, kMlpSyncMain20260823, kDpPaddingMain20260823, kGraphRulesMain20260823,
       sizing_pr35758, cap_rules(v0_6_17, max_num_tokens_pr26643, true), minus_one_if_native, kPlain},
  };
  for (Generation& row : rows) {
    row.start = find_start_rules(row.name);
    A2ASIM_INVARIANT(row.start != nullptr, "every generation has start-up rules");
  }
  return rows;
}

struct Release {
  std::string_view name;
  std::string_view generation;  // empty: not known
  std::string_view note;
};

constexpr std::string_view kUnsure30450 =
    "v0.5.15 was cut by 2026-07-07: pr22394 is assumed; if #30450 was picked onto its branch, use --sglang pr30450";

// From the tags' histories; a release holds the newest generation in its history.
constexpr std::array<Release, 15> kReleases = {{
    {"v0.5.9", "pr14668", ""},
    {"v0.5.10rc0", "pr14668", ""},
    {"v0.5.10", "pr14668", ""},
    {"v0.5.10.post1", "pr14668", ""},
    {"v0.5.11", "pr14668", ""},
    {"v0.5.12", "pr24850", ""},
    {"v0.5.12.post1", "pr24850", ""},
    {"v0.5.13", "pr26643", ""},
    {"v0.5.13.post1", "pr26643", ""},
    {"v0.5.14", "", ""},
    {"v0.5.15", "pr22394", kUnsure30450},
    {"v0.5.16", "pr30450", ""},
    {"v0.5.17", "pr30450", ""},
    {"v0.5.18", "pr30450", ""},
    {"v0.5.19", "pr35758", ""},
}};

constexpr std::string_view kBeforeDispatcher =
    "before #14668 (2026-01-24) SGLang had no FlashInfer dispatcher; everything else is taken from pr14668";
constexpr std::string_view kAfterLastKnown =
    "#39818 (merged 2026-10-04) sends prefill through the all-to-all again; its rule is not modelled, pr35758 is used";

const Generation* by_name(std::string_view name) {
  for (const Generation& generation : generations())
    if (generation.name == name) return &generation;
  return nullptr;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  if (!all_digits(text.substr(0, 4)) || !all_digits(text.substr(5, 2)) || !all_digits(text.substr(8))) return false;
  const int month = (text[5] - '0') * 10 + text[6] - '0';
  const int day = (text[8] - '0') * 10 + text[9] - '0';
  const int year = (text[0] - '0') * 1000 + (text[1] - '0') * 100 + (text[2] - '0') * 10 + text[3] - '0';
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  constexpr std::array<int, 12> days = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month >= 1 && month <= 12 && day >= 1 &&
         day <= days[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

Result<GenerationMatch> by_date(std::string_view date) {
  const Generation* match = nullptr;
  for (const Generation& generation : generations())
    if (generation.date <= date) match = &generation;  // ISO dates compare as text; rows are in order of date
  if (match == nullptr) return GenerationMatch{&generations().front(), false, std::string(kBeforeDispatcher)};
  return GenerationMatch{match, true, date >= "2026-10-04" ? std::string(kAfterLastKnown) : ""};
}

// Sorts "v0.5.8" before "v0.5.9" and "v0.5.20" after it; only major, minor, patch.
std::array<int, 3> version_numbers(std::string_view text) {
  std::array<int, 3> numbers{};
  std::size_t at = 0;
  for (int& number : numbers) {
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error != std::errc{}) break;
    at = static_cast<std::size_t>(end - text.data());
    if (at >= text.size() || text[at] != '.') break;
    ++at;
  }
  return numbers;
}

Result<GenerationMatch> by_release(std::string_view text) {
  const std::string name = "v" + std::string(text);
  for (const Release& release : kReleases) {
    if (release.name != name || release.generation.empty()) continue;
    return GenerationMatch{by_name(release.generation), true, std::string(release.note)};
  }
  if (version_numbers(text) <= std::array<int, 3>{0, 5, 8})
    return GenerationMatch{&generations().front(), false, std::string(kBeforeDispatcher)};
  return fail(ErrorKind::bad_input,
              fmt::format("{}: the generation of this release is not known here; name a PR or a date instead "
                          "('a2asim generations' lists them)",
                          name));
}

}  // namespace

std::span<const Generation> generations() {
  static const std::vector<Generation> rows = make_generations();
  return rows;
}

Result<GenerationMatch> find_generation(std::string_view text) {
  std::string word;
  for (const char c : text) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "newest") return GenerationMatch{&newest_generation(), true, ""};
  if (const Generation* generation = by_name(word)) return GenerationMatch{generation, true, ""};
  const std::string_view number = word.starts_with('#') ? std::string_view(word).substr(1) : std::string_view(word);
  if (all_digits(number))
    if (const Generation* generation = by_name("pr" + std::string(number)))
      return GenerationMatch{generation, true, ""};
  if (is_date(word)) return by_date(word);
  const std::string_view release = word.starts_with('v') ? std::string_view(word).substr(1) : std::string_view(word);
  const auto is_version_char = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.'; };
  if (!release.empty() && std::isdigit(static_cast<unsigned char>(release.front())) != 0 &&
      release.find('.') != std::string_view::npos && std::all_of(release.begin(), release.end(), is_version_char))
    return by_release(release);
  return fail(ErrorKind::bad_input,
              fmt::format("'{}' is no generation known here; use a PR (pr30450), a date (2026-06-20) or a release "
                          "(v0.5.13): 'a2asim generations' lists them",
                          text.substr(0, 60)));
}

}  // namespace a2asim
