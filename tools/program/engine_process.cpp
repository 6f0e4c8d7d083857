#include "tools/program/engine_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "model/base/digest.h"
#include "model/launch/launch_text.h"
#include "model/launch/shell_expand.h"
#include "model/launch/shell_syntax.h"
#include "model/step/engine_questions.h"
#include "tools/program/engine_line.h"
#include "tools/program/shared_folder.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using ReadJson = nlohmann::json;
using Answer = Result<ReadJson>;  // "out", or what the code raised

constexpr std::size_t kAskedTwice = 256;  // of the first questions: all
constexpr std::size_t kSample = 16;       // of the others: one in so many, by their content
constexpr std::size_t kAskedAgainAtTheEnd = 64;

bool in_sample(std::string_view key) {
  Digest digest;
  digest.add(key);
  return digest.value() % kSample == 0;
}

bool is_unfit(const ReadJson& answer) { return answer.contains("unfit"); }
std::string why_unfit(const ReadJson& answer) { return one_line(answer.at("unfit").get<std::string>(), 400); }

std::string in_words(const ReadJson& answer) {
  if (is_unfit(answer)) return "nothing";
  if (answer.contains("error")) return "the error '" + one_line(answer.at("error").get<std::string>(), 80) + "'";
  const ReadJson& out = answer.at("out");
  if (out.is_object() && out.size() == 1) return cut(one_line(out.begin()->dump(), 200), 200);
  return cut(one_line(out.dump(), 200), 200);
}

Answer answer_of(const ReadJson& answer) {
  if (answer.contains("out")) return answer.at("out");
  return tl::unexpected(raised_error(answer.at("error").get<std::string>()));
}

Result<std::vector<std::string>> words_of(const std::string& command) {
  const Result<ShellScript> script = parse_shell(command);
  if (!script) return tl::unexpected(script.error());
  ShellVariables variables;
  ShellExpander expander(variables);
  std::vector<std::string> words;
  const std::vector<ShellNode>& commands = script->root.children;
  if (commands.size() == 1 && commands.front().kind == ShellKind::simple)
    for (const std::string& raw : commands.front().words)
      for (ShellValue& word : expander.fields(raw)) words.push_back(std::move(word.text));
  if (words.empty())
    return fail(ErrorKind::bad_input, "give one program and its arguments, as in \"python3 my_rule.py\"");
  return words;
}

}  // namespace

struct NewQuestion {
  QuestionKind kind;
  std::string key;  // with the kind
  ReadJson question;
};

class EngineProcess::Impl {
 public:
  Impl(EngineCommand command, EngineLine line) : command_(std::move(command)), line_(std::move(line)) {}

  bool answers(QuestionKind kind) const {
    const std::vector<QuestionKind>& kinds = line_.greeting().kinds;
    return std::ranges::find(kinds, kind) != kinds.end();
  }

  // Nothing: it was never asked.
  const Answer* find(const std::string& key) const {
    const std::lock_guard lock(answers_mutex_);
    const auto found = answers_.find(key);
    return found == answers_.end() ? nullptr : &found->second;
  }

  // Asks on `line`, or on the first one, and remembers the answers.
  void ask(const std::vector<NewQuestion>& questions, EngineLine* line) {
    for (std::size_t begin = 0; begin < questions.size();) {
      std::size_t end = begin;
      while (end < questions.size() && questions[end].kind == questions[begin].kind) ++end;
      ask_kind({&questions[begin], end - begin}, line);
      begin = end;
    }
  }

  std::optional<std::string> failure() const {
    const std::lock_guard lock(answers_mutex_);
    return failure_;
  }

  Error fail_with(const std::string& what, const ReadJson* question) {
    const std::lock_guard lock(answers_mutex_);
    if (!failure_)
      failure_ = fmt::format("{} {}{}", command_.shown, what,
                             question == nullptr ? "" : "; asked was " + cut(one_line(question->dump(), 500), 500));
    return Error{ErrorKind::bad_input, *failure_};
  }

  Result<void> finish() {
    std::vector<First> first;
    {
      const std::lock_guard lock(answers_mutex_);
      first = first_;
    }
    for (const First& one : first) {
      if (failure()) break;
      const auto again = ask_line(one.kind, {&one.question}, nullptr);
      if (again) compare(one.answer, again->front(), one.question);
    }
    if (const auto what = failure()) return fail(ErrorKind::bad_input, *what);
    return {};
  }

  // The first ones twice. Where the program cannot answer one of them, it does not answer the kind any more.
  Result<std::vector<ReadJson>> ask_all(QuestionKind kind, const std::vector<ReadJson>& questions) {
    std::vector<const ReadJson*> asked;
    for (const ReadJson& question : questions) asked.push_back(&question);
    const std::size_t twice = std::min(questions.size(), kAskedTwice);
    for (std::size_t at = 0; at < twice; ++at) asked.push_back(&questions[at]);
    Result<std::vector<ReadJson>> answers = ask_line(kind, asked, nullptr, true);
    if (!answers) return answers;
    if (const auto no = std::ranges::find_if(*answers, is_unfit); no != answers->end()) {
      line_.give_up(kind, why_unfit(*no));
      return std::vector<ReadJson>();
    }
    for (std::size_t at = 0; at < twice; ++at)
      compare((*answers)[at], (*answers)[questions.size() + at], questions[at]);
    if (const auto what = failure()) return fail(ErrorKind::bad_input, *what);
    answers->resize(questions.size());
    return answers;
  }

  Result<std::vector<ReadJson>> ask_line(QuestionKind kind, const std::vector<const ReadJson*>& questions,
                                         EngineLine* line, bool may_be_unfit = false) {
    const ReadJson* asked = nullptr;
    Result<std::vector<ReadJson>> answers;
    if (line != nullptr) {
      answers = line->ask(kind, questions, &asked);
    } else {
      const std::lock_guard lock(line_mutex_);
      answers = line_.ask(kind, questions, &asked);
      if (!answers) line_.stop();
    }
    if (!answers) return tl::unexpected(fail_with(answers.error().message, asked));
    const auto no = std::ranges::find_if(*answers, is_unfit);
    if (!may_be_unfit && no != answers->end())
      return tl::unexpected(fail_with("cannot answer: " + why_unfit(*no),
                                      questions[static_cast<std::size_t>(no - answers->begin())]));
    return answers;
  }

  const EngineCommand command_;
  const EngineGreeting& greeting() const { return line_.greeting(); }

 private:
  struct First {
    QuestionKind kind;
    ReadJson question;
    ReadJson answer;
  };

  void compare(const ReadJson& before, const ReadJson& again, const ReadJson& question) {
    if (before == again) return;
    fail_with(fmt::format("answered {} and then {} to one {}", in_words(before), in_words(again),
                          command_.speaks_protocol ? "question: an answer may depend on nothing but the question"
                                                   : "view: a rule may look at nothing but the view"),
              &question);
  }

  void ask_kind(std::span<const NewQuestion> questions, EngineLine* line) {
    std::vector<const ReadJson*> asked;
    std::vector<std::size_t> twice;
    {
      const std::lock_guard lock(answers_mutex_);
      if (failure_) return;
      for (std::size_t at = 0; at < questions.size(); ++at)
        if (answers_.size() + at < kAskedTwice || in_sample(questions[at].key)) twice.push_back(at);
    }
    for (const NewQuestion& one : questions) asked.push_back(&one.question);
    for (const std::size_t at : twice) asked.push_back(&questions[at].question);
    const auto answers = ask_line(questions.front().kind, asked, line);
    if (!answers) return;
    for (std::size_t at = 0; at < twice.size(); ++at)
      compare((*answers)[twice[at]], (*answers)[questions.size() + at], questions[twice[at]].question);
    const std::lock_guard lock(answers_mutex_);
    for (std::size_t at = 0; at < questions.size(); ++at) {
      const ReadJson& answer = (*answers)[at];
      if (!answers_.try_emplace(questions[at].key, answer_of(answer)).second) continue;
      if (first_.size() < kAskedAgainAtTheEnd) first_.push_back({questions[at].kind, questions[at].question, answer});
    }
  }

  mutable std::mutex answers_mutex_;
  std::unordered_map<std::string, Answer> answers_;  // looked up, never walked; entries stay where they are
  std::vector<First> first_;
  std::optional<std::string> failure_;
  std::mutex line_mutex_;
  EngineLine line_;
};

// Of one thread: a program of its own, which starts with the first question.
class EngineProcess::Gathering final : public ExternalEngine {
 public:
  explicit Gathering(Impl& whole) : whole_(whole) {}

  bool answers(QuestionKind kind) const override { return whole_.answers(kind); }
  Result<const ReadJson*> ask(QuestionKind kind, std::string_view key,
                              const std::function<ReadJson()>& make_question) override {
    std::string whole_key(1, static_cast<char>(kind));
    whole_key += key;
    if (const auto seen = seen_.find(whole_key); seen != seen_.end()) return pointer_to(seen->second);
    if (const Answer* answer = whole_.find(whole_key)) {
      seen_.emplace(std::move(whole_key), answer);
      return pointer_to(answer);
    }
    if (const auto what = whole_.failure()) return fail(ErrorKind::bad_input, *what);
    if (waiting_.insert({whole_key, questions_.size()}).second)
      questions_.push_back({kind, std::move(whole_key), make_question()});
    return fail(ErrorKind::bad_input, "not asked yet");
  }
  Error refuse(QuestionKind kind, const std::string& why) override {
    return whole_.fail_with(fmt::format("gave no usable answer of the kind {}: {}", name(kind), why), nullptr);
  }
  std::unique_ptr<ExternalEngine> gathering() override { return std::make_unique<Gathering>(whole_); }

  bool ask_gathered() override {
    if (questions_.empty() || whole_.failure()) return false;
    std::ranges::stable_sort(questions_, {}, &NewQuestion::kind);
    if (!line_ && whole_.command_.speaks_protocol) {
      Result<EngineLine> line = EngineLine::start(whole_.command_);
      if (line)
        line_ = std::make_unique<EngineLine>(std::move(*line));
      else
        whole_.fail_with(line.error().message, nullptr);
    }
    whole_.ask(questions_, line_.get());
    questions_.clear();
    waiting_.clear();
    return !whole_.failure();
  }

 private:
  static Result<const ReadJson*> pointer_to(const Answer* answer) {
    if (!*answer) return tl::unexpected(answer->error());
    return &**answer;
  }

  Impl& whole_;
  std::unique_ptr<EngineLine> line_;
  std::unordered_map<std::string, const Answer*> seen_;  // without a lock
  std::unordered_map<std::string, std::size_t> waiting_;
  std::vector<NewQuestion> questions_;
};

EngineProcess::EngineProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EngineProcess::~EngineProcess() = default;

Result<std::unique_ptr<EngineProcess>> EngineProcess::start(EngineCommand command) {
  Result<EngineLine> line = EngineLine::start(command);
  if (!line) return fail(ErrorKind::bad_input, fmt::format("{}: {}", command.shown, line.error().message));
  return std::unique_ptr<EngineProcess>(
      new EngineProcess(std::make_unique<Impl>(std::move(command), std::move(*line))));
}

std::unique_ptr<EngineProcess> EngineProcess::of(const std::string& name, SizingRule function) {
  EngineCommand command{
      .shown = fmt::format("the rule '{}'", one_line(name, 200)), .words = {}, .function = std::move(function)};
  EngineLine line = *EngineLine::start(command);
  return std::unique_ptr<EngineProcess>(new EngineProcess(std::make_unique<Impl>(std::move(command), std::move(line))));
}

namespace {

Result<EngineCommand> command_of(std::string_view option, const std::string& text) {
  EngineCommand command{.shown = fmt::format("{} '{}'", option, one_line(text, 200)), .words = {}};
  Result<std::vector<std::string>> words = words_of(text);
  if (!words) return fail(ErrorKind::bad_input, fmt::format("{}: {}", command.shown, words.error().message));
  command.words = std::move(*words);
  return command;
}

}  // namespace

Result<std::unique_ptr<EngineProcess>> EngineProcess::start_rule(const std::string& text,
                                                                 std::chrono::milliseconds patience) {
  Result<EngineCommand> command = command_of("--rule-cmd", text);
  if (!command) return tl::unexpected(command.error());
  command->patience = patience;
  return start(std::move(*command));
}

Result<std::unique_ptr<EngineProcess>> EngineProcess::start_engine(const std::string& text) {
  Result<EngineCommand> command = command_of("--engine-cmd", text);
  if (!command) return tl::unexpected(command.error());
  command->speaks_protocol = true;
  command->patience = std::chrono::seconds(30);
  return start(std::move(*command));
}

Result<std::unique_ptr<EngineProcess>> EngineProcess::start_source(const std::string& folder) {
  const EngineQuestions& questions = engine_questions();
  EngineCommand command{.shown = fmt::format("{} {}", source_option(), shell_quote(one_line(folder, 200))),
                        .words = {},
                        .speaks_protocol = true,
                        .patience = std::chrono::seconds(30)};
  const Result<std::string> program = shared_folder(std::string(questions.source_program));
  if (!program) return fail(ErrorKind::bad_input, fmt::format("{}: {}", command.shown, program.error().message));
  command.words = {"python3", "-I", "-B", *program, folder};
  auto process = start(std::move(command));
  if (!process) return process;
  // What the text cannot answer shows when it runs, not when it is found.
  constexpr std::size_t kProbes = 64;
  for (const QuestionKind kind : std::vector((*process)->impl_->greeting().kinds)) {
    Random random(static_cast<std::uint64_t>(kind));
    std::vector<ReadJson> probes;
    while (probes.size() < kProbes) probes.push_back(questions.draw(kind, random, probes.size() % 2 == 0 ? 12 : 600));
    if (const auto answers = (*process)->ask_all(kind, probes); !answers) return tl::unexpected(answers.error());
  }
  return process;
}

bool EngineProcess::answers(QuestionKind kind) const { return impl_->answers(kind); }

Result<const ReadJson*> EngineProcess::ask(QuestionKind kind, std::string_view key,
                                           const std::function<ReadJson()>& make_question) {
  std::string whole_key(1, static_cast<char>(kind));
  whole_key += key;
  const Answer* answer = impl_->find(whole_key);
  if (answer == nullptr) {
    impl_->ask({{kind, whole_key, make_question()}}, nullptr);
    answer = impl_->find(whole_key);
  }
  if (const auto what = impl_->failure()) return fail(ErrorKind::bad_input, *what);
  if (!*answer) return tl::unexpected(answer->error());
  return &**answer;
}

Error EngineProcess::refuse(QuestionKind kind, const std::string& why) {
  return impl_->fail_with(fmt::format("gave no usable answer of the kind {}: {}", name(kind), why), nullptr);
}

std::unique_ptr<ExternalEngine> EngineProcess::gathering() { return std::make_unique<Gathering>(*impl_); }

SizingRule EngineProcess::rule() { return rule_of(*this); }

Result<std::vector<ReadJson>> EngineProcess::ask_all(QuestionKind kind, const std::vector<ReadJson>& questions) {
  return impl_->ask_all(kind, questions);
}

const std::map<std::string, std::string>& EngineProcess::unfit() const { return impl_->greeting().unfit; }
const std::map<std::string, std::vector<std::string>>& EngineProcess::runs() const { return impl_->greeting().runs; }
const std::string& EngineProcess::shown() const { return impl_->command_.shown; }
bool EngineProcess::failed() const { return impl_->failure().has_value(); }
Result<void> EngineProcess::finish() { return impl_->finish(); }

std::string source_option() { return fmt::format("--{}-source", engine_questions().engine); }

void add_engine_options(CLI::App& command, std::optional<std::string>& rule_cmd, std::optional<std::string>& source) {
  command.add_option("--rule-cmd", rule_cmd, kRuleCommandAbout)->type_name("\"PROGRAM ARGS\"");
  command.add_option(source_option(), source, kSourceAbout)->type_name("DIR");
}

Result<std::unique_ptr<EngineProcess>> start_engine(const EngineOptions& options, const Caller& caller) {
  std::vector<std::string> given;
  if (options.rule_cmd) given.emplace_back("--rule-cmd");
  if (options.source) given.push_back(source_option());
  if (caller.rule) given.emplace_back("a rule of the caller");
  if (given.size() > 1)
    return fail(ErrorKind::bad_input, fmt::format("{}: give one of them", fmt::join(given, " and ")));
  if (options.source) return EngineProcess::start_source(*options.source);
  if (options.rule_cmd) return EngineProcess::start_rule(*options.rule_cmd, caller.rule_patience);
  if (caller.rule) return EngineProcess::of(caller.rule_name, caller.rule);
  return nullptr;
}

Result<void> finish_engine(const std::unique_ptr<EngineProcess>& process) {
  if (!process) return {};
  return process->finish();
}

std::string answered_by(const EngineProcess& process, std::string_view version) {
  std::vector<std::string_view> own, others;
  for (std::size_t at = 0; at < kQuestionKinds.size(); ++at)
    (process.answers(static_cast<QuestionKind>(at)) ? own : others).push_back(kQuestionKinds[at]);
  if (own == std::vector{name(QuestionKind::sizing)} && process.unfit().empty())
    return fmt::format("the size comes from {}, all else from {}", process.shown(), version);
  std::string line = fmt::format("{} answers {}", process.shown(), fmt::join(own, ", "));
  line += others.empty() ? fmt::format("; everything else comes from {}", version)
                         : fmt::format("; {} and everything else come from {}", fmt::join(others, ", "), version);
  for (const auto& [kind, why] : process.unfit()) line += fmt::format("; {} could not be loaded: {}", kind, why);
  return line;
}

nlohmann::ordered_json view_as_json(const RankView& view) {
  nlohmann::ordered_json list;
  if (view.dp_global) list = std::vector<std::int64_t>(view.dp_global->begin(), view.dp_global->end());
  return {{"ep_size", view.ep_size},
          {"ep_rank", view.ep_rank},
          {"dp_global", list},
          {"rows", view.rows},
          {"capture", view.capture},
          {"extend", view.extend},
          {"require_mlp_tp_gather", view.require_mlp_tp_gather == GatherPredicate::yes},
          {"enable_dp_attention", view.enable_dp_attention},
          {"attn_tp_size", view.attn_tp_size},
          {"max_num_tokens", view.max_num_tokens}};
}

}  // namespace a2asim
