#include "tools/program/engine_line.h"

#include <fmt/format.h>

#include "model/base/json_reader.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using ReadJson = nlohmann::json;

constexpr int kProtocol = 1;
constexpr std::chrono::seconds kGreetingPatience(120);  // it loads what it answers with
constexpr std::size_t kQuestionsPerLine = 256;
constexpr std::size_t kBytesPerLine = std::size_t{1} << 15;  // answers are longer than questions

tl::unexpected<Error> wrong(const std::string& line, std::string_view what) {
  return fail(ErrorKind::runtime_error, fmt::format("answered {}: '{}'", what, one_line(line, 120)));
}

constexpr JsonLimits kRuleLimits{.bytes = std::size_t{1} << 20, .depth = 16, .keys = 64};
constexpr JsonLimits kEngineLimits{.bytes = std::size_t{1} << 20, .depth = 16};  // many answers to a line

Result<ReadJson> object_of(const std::string& line, const JsonLimits& limits) {
  Result<ReadJson> read = read_json(line, limits);
  if (!read || !read->is_object()) return wrong(line, "with a line that is no JSON object");
  return read;
}

Result<ReadJson> with_id(const std::string& line, std::int64_t id, const JsonLimits& limits) {
  Result<ReadJson> read = object_of(line, limits);
  if (!read) return read;
  const auto given = read->find("id");
  if (given == read->end() || !given->is_number_integer() || *given != id)
    return wrong(line, fmt::format("without the \"id\" {} of the question", id));
  return read;
}

ReadJson size_answer(std::int64_t size) { return {{"out", {{"runtime_max_tokens_per_rank", size}}}}; }
ReadJson assertion_answer(const std::string& text) { return {{"error", "AssertionError: " + one_line(text, 400)}}; }

std::string unusable_size() { return "with a size that is no whole number within 0..2147483647"; }

// The function sees what a version's own rule would.
Result<ReadJson> call(const SizingRule& function, const ReadJson& question) {
  std::vector<std::int64_t> list;
  RankView view;
  if (const ReadJson& counts = question.at("dp_global"); !counts.is_null()) view.dp_global = counts.get_to(list);
  const ReadJson& predicate = question.at("require_mlp_tp_gather");
  view.require_mlp_tp_gather = predicate.is_null()     ? GatherPredicate::raises
                               : predicate.get<bool>() ? GatherPredicate::yes
                                                       : GatherPredicate::no;
  question.at("ep_size").get_to(view.ep_size);
  question.at("ep_rank").get_to(view.ep_rank);
  question.at("rows").get_to(view.rows);
  question.at("capture").get_to(view.capture);
  question.at("extend").get_to(view.extend);
  question.at("enable_dp_attention").get_to(view.enable_dp_attention);
  question.at("attn_tp_size").get_to(view.attn_tp_size);
  question.at("max_num_tokens").get_to(view.max_num_tokens);
  const Result<SizingDecision> said = function(view);
  if (!said && said.error().kind != ErrorKind::assertion_error) return tl::unexpected(said.error());
  if (!said) return assertion_answer(said.error().message);
  const std::optional<std::int64_t> size = count_in(said->runtime_max_tokens_per_rank);
  if (!size) return fail(ErrorKind::runtime_error, "answered " + unusable_size());
  return size_answer(*size);
}

}  // namespace

Result<ReadJson> read_rule_answer(const std::string& line, std::int64_t id) {
  const Result<ReadJson> answer = with_id(line, id, kRuleLimits);
  if (!answer) return answer;
  const auto r = answer->find("runtime_max_tokens_per_rank");
  const auto error = answer->find("error");
  if ((r == answer->end()) == (error == answer->end()))
    return wrong(line, "without one of \"runtime_max_tokens_per_rank\" and \"error\"");
  if (error != answer->end()) {
    if (!error->is_string()) return wrong(line, "with an \"error\" that is no text");
    return assertion_answer(error->get<std::string>());
  }
  const std::optional<std::int64_t> size = count_in(*r);
  if (!size) return wrong(line, unusable_size());
  return size_answer(*size);
}

Result<std::vector<ReadJson>> read_engine_answers(const std::string& line, std::int64_t id, std::size_t count) {
  const Result<ReadJson> read = with_id(line, id, kEngineLimits);
  if (!read) return tl::unexpected(read.error());
  for (const char* no : {"refused", "unfit"})
    if (const ReadJson why = read->value(no, ReadJson()); why.is_string())
      return fail(ErrorKind::runtime_error, "cannot answer: " + one_line(why.get<std::string>(), 400));
  const ReadJson answers = read->value("answers", ReadJson());
  if (!answers.is_array() || answers.size() != count)
    return wrong(line, fmt::format("without a list of {} \"answers\"", count));
  for (const ReadJson& answer : answers) {
    const bool is_object = answer.is_object();
    if (is_object && answer.value("unfit", ReadJson()).is_string()) continue;
    const bool has_error = is_object && answer.contains("error") && answer.at("error").is_string();
    if (!is_object || answer.contains("out") == has_error)
      return wrong(answer.dump(), "without one of \"out\" and \"error\"");
  }
  return answers.get<std::vector<ReadJson>>();
}

Result<EngineGreeting> read_engine_greeting(const std::string& line) {
  const Result<ReadJson> read = object_of(line, kEngineLimits);
  if (!read) return tl::unexpected(read.error());
  if (const ReadJson refused = read->value("refused", ReadJson()); refused.is_string())
    return fail(ErrorKind::bad_input, one_line(refused.get<std::string>(), 400));
  if (read->value("protocol", ReadJson()) != kProtocol)
    return wrong(line, fmt::format("without \"protocol\": {}", kProtocol));
  const ReadJson kinds = read->value("kinds", ReadJson());
  if (!kinds.is_array() && !kinds.is_object()) return wrong(line, "without \"kinds\"");
  EngineGreeting out;
  for (const auto& [key, value] : kinds.items()) {
    const std::string kind = kinds.is_object() ? key : value.is_string() ? value.get<std::string>() : "";
    const std::optional<QuestionKind> found = find_question_kind(kind);
    if (!found) return wrong(line, fmt::format("that it knows the kind '{}', which nobody asks", one_line(kind, 40)));
    out.kinds.push_back(*found);
    if (kinds.is_object() && value.is_array())
      for (const ReadJson& one : value)
        if (one.is_string()) out.runs[kind].push_back(one_line(one.get<std::string>(), 200));
  }
  const ReadJson unfit = read->value("unfit", ReadJson::object());
  for (const auto& [kind, why] : unfit.items())
    if (find_question_kind(kind) && why.is_string()) out.unfit[kind] = one_line(why.get<std::string>(), 400);
  return out;
}

Result<EngineLine> EngineLine::start(const EngineCommand& command) {
  EngineLine line(command);
  line.greeting_.kinds = {QuestionKind::sizing};
  if (command.function) return line;
  Result<ChildProcess> child = ChildProcess::start(command.words);
  if (!child)
    return fail(ErrorKind::bad_input,
                fmt::format("cannot start '{}': {}", one_line(command.words.front(), 200), child.error().message));
  line.child_.emplace(std::move(*child));
  if (!command.speaks_protocol) return line;
  const Result<std::string> first = line.child_->ask(ReadJson{{"protocol", kProtocol}}.dump(), kGreetingPatience);
  Result<EngineGreeting> greeted = first ? read_engine_greeting(*first) : tl::unexpected(first.error());
  if (!greeted) return fail(ErrorKind::bad_input, greeted.error().message);
  line.greeting_ = std::move(*greeted);
  return line;
}

Result<ReadJson> EngineLine::ask_rule(const ReadJson& question) {
  if (!child_) return call(function_, question);
  const std::int64_t id = next_id_++;
  nlohmann::ordered_json line = {{"id", id}};
  for (const auto& [field, value] : question.items()) line[field] = value;
  // What raises is no predicate; a rule is told that it does not hold.
  if (line["require_mlp_tp_gather"].is_null()) line["require_mlp_tp_gather"] = false;
  const Result<std::string> reply = child_->ask(line.dump(), patience_);
  if (!reply) return tl::unexpected(reply.error());
  return read_rule_answer(*reply, id);
}

// One line with as many of the questions as fit; `end` is set to the first that is left.
Result<std::vector<ReadJson>> EngineLine::ask_lines(QuestionKind kind, const std::vector<const ReadJson*>& questions,
                                                    std::size_t begin, std::size_t& end) {
  ReadJson fields = ReadJson::array();
  for (const auto& item : questions[begin]->items()) fields.push_back(item.key());
  std::string rows;
  for (end = begin; end < questions.size() && end - begin < kQuestionsPerLine && rows.size() < kBytesPerLine; ++end) {
    if (questions[end]->size() != fields.size()) break;
    ReadJson row = ReadJson::array();
    for (const ReadJson& field : fields) {
      const auto value = questions[end]->find(field.get_ref<const std::string&>());
      if (value == questions[end]->end()) break;
      row.push_back(*value);
    }
    if (row.size() != fields.size()) break;
    rows += (end == begin ? "" : ",") + row.dump();
  }
  const std::int64_t id = next_id_++;
  const Result<std::string> reply = child_->ask(
      fmt::format(R"({{"id":{},"kind":"{}","fields":{},"questions":[{}]}})", id, name(kind), fields.dump(), rows),
      patience_);
  if (!reply) return tl::unexpected(reply.error());
  return read_engine_answers(*reply, id, end - begin);
}

Result<std::vector<ReadJson>> EngineLine::ask(QuestionKind kind, const std::vector<const ReadJson*>& questions,
                                              const ReadJson** asked) {
  std::vector<ReadJson> answers;
  while (answers.size() < questions.size()) {
    *asked = questions[answers.size()];
    std::size_t end = answers.size() + 1;
    if (speaks_protocol_) {
      Result<std::vector<ReadJson>> some = ask_lines(kind, questions, answers.size(), end);
      if (!some) return some;
      answers.insert(answers.end(), std::make_move_iterator(some->begin()), std::make_move_iterator(some->end()));
    } else {
      Result<ReadJson> one = ask_rule(**asked);
      if (!one) return tl::unexpected(one.error());
      answers.push_back(std::move(*one));
    }
  }
  return answers;
}

}  // namespace a2asim
