// What `a2asim conform --record` wrote: questions of every kind, each row with its kind and the version to compare
// with.
#include "model/engines/sglang/questions/questions.h"
#include "tests/golden/generation_of_row.h"
#include "tests/golden/table.h"

namespace a2asim::golden {

json answer_recorded(Fields& in, const json& row) {
  const auto kind = find_question_kind(in.get<std::string>("kind"));
  if (!kind) throw std::invalid_argument("unknown kind of question");
  const Generation& version = generation_of_row(in.get<std::string>("generation"));
  json question = row.at("in");
  for (const auto& [field, value] : question.items())
    in.ignore({field.c_str()});  // the kind's own reader asks for them
  question.erase("kind");
  question.erase("generation");
  json ours = answer_question(version, *kind, question);
  ours["kind"] = name(*kind);
  return ours;
}

std::optional<std::string> mismatch_recorded(const json& ours, const json& row) {
  json own = ours, theirs = row;
  const QuestionKind kind = *find_question_kind(own.at("kind").get<std::string>());
  own.erase("kind");
  theirs.erase("in");
  if (kQuestions.equal(kind, theirs, own)) return std::nullopt;
  return "ours " + own.dump();
}

}  // namespace a2asim::golden
