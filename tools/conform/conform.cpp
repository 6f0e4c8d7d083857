#include "tools/conform/conform.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace a2asim {
namespace {

using ReadJson = nlohmann::json;

constexpr std::int64_t kSmall = 12;  // numbers of the first half of the questions; the others draw from larger ones
constexpr std::int64_t kLarge = 600;

std::vector<ReadJson> draw(const EngineQuestions& questions, QuestionKind kind, const ConformOptions& options) {
  Random random(options.seed * kQuestionKinds.size() + static_cast<std::uint64_t>(kind));
  std::vector<ReadJson> drawn;
  std::set<std::string> seen;
  // Some kinds have few questions: what was drawn before is not asked again.
  for (std::int64_t tried = 0; tried < 4 * options.questions && std::ssize(drawn) < options.questions; ++tried) {
    ReadJson question = questions.draw(kind, random, std::ssize(drawn) * 2 < options.questions ? kSmall : kLarge);
    if (seen.insert(question.dump()).second) drawn.push_back(std::move(question));
  }
  return drawn;
}

Result<ReadJson> answer_of(const EngineQuestions& questions, const Version& version, QuestionKind kind,
                           const ReadJson& question) {
  try {
    return questions.answer(version, kind, question);
  } catch (const ReadJson::exception& error) {
    return fail(ErrorKind::bad_input,
                fmt::format("a drawn question of the kind {} lacks a field: {}", name(kind), error.what()));
  }
}

Result<void> compare(const EngineQuestions& questions, const std::vector<const Version*>& versions, ConformKind& kind) {
  for (const Version* version : versions) {
    std::int64_t differing = 0;
    for (std::size_t at = 0; at < kind.questions.size(); ++at) {
      const Result<ReadJson> own = answer_of(questions, *version, kind.kind, kind.questions[at]);
      if (!own) return tl::unexpected(own.error());
      if (!questions.equal(kind.kind, kind.answers[at], *own)) ++differing;
    }
    kind.differing.push_back(differing);
  }
  return {};
}

std::optional<ConformDifference> smallest(const EngineQuestions& questions, const Version& version,
                                          const ConformKind& kind) {
  std::optional<ConformDifference> found;
  std::pair<std::size_t, std::string> best;
  for (std::size_t at = 0; at < kind.questions.size(); ++at) {
    const ReadJson own = questions.answer(version, kind.kind, kind.questions[at]);
    if (questions.equal(kind.kind, kind.answers[at], own)) continue;
    std::string text = kind.questions[at].dump();
    std::pair size{text.size(), text};
    if (found && best <= size) continue;
    best = std::move(size);
    found = ConformDifference{kind.kind, kind.questions[at], kind.answers[at], own};
  }
  return found;
}

}  // namespace

bool ConformReport::is_complete() const {
  return std::ranges::none_of(kinds, [](const ConformKind& kind) { return kind.not_loaded.has_value(); });
}

std::int64_t ConformReport::differing(std::size_t version) const {
  std::int64_t sum = 0;
  for (const ConformKind& kind : kinds)
    if (!kind.not_loaded) sum += kind.differing[version];
  return sum;
}

std::size_t ConformReport::equal_kinds(std::size_t version) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      kinds, [&](const ConformKind& kind) { return !kind.not_loaded && kind.differing[version] == 0; }));
}

std::size_t ConformReport::loaded_kinds() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(kinds, [](const ConformKind& kind) { return !kind.not_loaded.has_value(); }));
}

Result<ConformReport> conform(EngineProcess& outside, const Engine& engine, const ConformOptions& options) {
  const EngineQuestions& questions = engine_questions();
  ConformReport report{
      .source = outside.shown(), .seed = options.seed, .versions = engine.versions(), .kinds = {}, .differences = {}};
  for (std::size_t at = 0; at < kQuestionKinds.size(); ++at) {
    ConformKind kind{.kind = static_cast<QuestionKind>(at), .not_loaded = std::nullopt};
    if (outside.answers(kind.kind)) {
      kind.questions = draw(questions, kind.kind, options);
      Result<std::vector<ReadJson>> answers = outside.ask_all(kind.kind, kind.questions);
      if (!answers) return tl::unexpected(answers.error());
      kind.answers = std::move(*answers);
    }
    if (!outside.answers(kind.kind)) {
      const auto why = outside.unfit().find(std::string(name(kind.kind)));
      kind.questions.clear();
      kind.not_loaded = why == outside.unfit().end() ? "it does not answer this kind" : why->second;
    } else if (auto compared = compare(questions, report.versions, kind); !compared) {
      return tl::unexpected(compared.error());
    }
    report.kinds.push_back(std::move(kind));
  }
  // Of versions that are as near, the oldest: what came later changed nothing here.
  std::vector<std::size_t> order(report.versions.size());
  std::iota(order.begin(), order.end(), 0U);
  report.nearest = *std::ranges::min_element(order, {}, [&](std::size_t at) { return report.differing(at); });
  report.against = report.nearest;
  if (options.against != nullptr)
    report.against =
        static_cast<std::size_t>(std::ranges::find(report.versions, options.against) - report.versions.begin());
  for (const ConformKind& kind : report.kinds)
    if (auto found = kind.not_loaded ? std::nullopt : smallest(questions, *report.versions[report.against], kind))
      report.differences.push_back(std::move(*found));
  return report;
}

Result<VersionChoice> version_beside(EngineProcess& checkout, const VersionChoice& named) {
  constexpr std::int64_t kFew = 150;
  const std::string engine(engine_questions().engine);
  if (named.is_given() && named.engine != engine)
    return fail(ErrorKind::bad_input,
                fmt::format("{} is code of {}: leave out --{}", source_option(), engine, named.engine));
  if (named.is_given()) return named;
  // Without the predicates versions cannot be told apart.
  if (!checkout.answers(QuestionKind::gather)) return VersionChoice{engine, "newest"};
  const Result<ConformReport> report = conform(checkout, *engines().front(), {.questions = kFew});
  if (!report) return tl::unexpected(report.error());
  return VersionChoice{engine, std::string(report->versions[report->nearest]->name)};
}

}  // namespace a2asim
