#include "tools/program/rule_process.h"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "model/base/digest.h"
#include "model/base/json_reader.h"
#include "model/launch/shell_expand.h"
#include "model/launch/shell_syntax.h"
#include "tools/program/child_process.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;
using Answer = RuleAnswer;
using Ask = std::function<Result<Answer>(const RankView&)>;  // the outer error: what is wrong with the answer

constexpr std::size_t kAskedTwice = 256;  // of the first views: all
constexpr std::size_t kSample = 16;       // of the others: one in so many, by their content
constexpr std::size_t kAskedAgainAtTheEnd = 64;
constexpr JsonLimits kAnswerLimits{.bytes = std::size_t{1} << 20, .depth = 16, .keys = 64};
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();  // as in the kernels

// All that view_as_json shows, as bytes: the key under which an answer is remembered.
std::string key_of(const RankView& view) {
  const std::int64_t flags = (view.capture ? 1 : 0) + (view.extend ? 2 : 0) + (view.enable_dp_attention ? 4 : 0) +
                             (view.require_mlp_tp_gather == GatherPredicate::yes ? 8 : 0) + (view.dp_global ? 16 : 0);
  const std::int64_t fixed[] = {flags, view.ep_size, view.ep_rank, view.rows, view.attn_tp_size, view.max_num_tokens};
  const std::size_t entries = view.dp_global ? view.dp_global->size() : 0;
  std::string key(sizeof fixed + entries * sizeof(std::int64_t), '\0');
  std::memcpy(key.data(), fixed, sizeof fixed);
  if (entries > 0) std::memcpy(key.data() + sizeof fixed, view.dp_global->data(), entries * sizeof(std::int64_t));
  return key;
}

bool in_sample(std::string_view key) {
  Digest digest;
  digest.add(key);
  return digest.value() % kSample == 0;
}

std::string in_words(const Answer& answer) {
  return answer ? std::to_string(*answer) : "the error '" + one_line(answer.error().message, 80) + "'";
}

std::string unusable_size() {
  return fmt::format("with a size that is no whole number within 0..{}", kMostTokens);
}

}  // namespace

Result<RuleAnswer> read_rule_answer(const std::string& line, std::int64_t id) {
  const auto wrong = [&line](std::string_view what) {
    return fail(ErrorKind::runtime_error, fmt::format("answered {}: '{}'", what, one_line(line, 120)));
  };
  const Result<nlohmann::json> read = read_json(line, kAnswerLimits);
  if (!read || !read->is_object()) return wrong("with a line that is no JSON object");
  const nlohmann::json& answer = *read;
  const auto id_given = answer.find("id");
  if (id_given == answer.end() || !id_given->is_number_integer() || *id_given != id)
    return wrong(fmt::format("without the \"id\" {} of the question", id));
  const auto r = answer.find("runtime_max_tokens_per_rank");
  const auto error = answer.find("error");
  if ((r == answer.end()) == (error == answer.end()))
    return wrong("without one of \"runtime_max_tokens_per_rank\" and \"error\"");
  if (error != answer.end()) {
    if (!error->is_string()) return wrong("with an \"error\" that is no text");
    return Answer(fail(ErrorKind::assertion_error, one_line(error->get<std::string>(), 400)));
  }
  const bool usable = r->is_number_integer() && (r->is_number_unsigned() || r->get<std::int64_t>() >= 0) &&
                      r->get<std::uint64_t>() <= static_cast<std::uint64_t>(kMostTokens);
  if (!usable) return wrong(unusable_size());
  return Answer(r->get<std::int64_t>());
}

namespace {

Ask asker(std::shared_ptr<ChildProcess> child, std::chrono::milliseconds patience) {
  return [child, patience, next = std::int64_t{0}](const RankView& view) mutable -> Result<Answer> {
    const std::int64_t id = next++;
    Json line = {{"id", id}};
    line.update(view_as_json(view));
    const Result<std::string> reply = child->ask(line.dump(), patience);
    return reply ? read_rule_answer(*reply, id) : tl::unexpected(reply.error());
  };
}

Ask asker(SizingRule function) {
  return [function = std::move(function)](const RankView& view) -> Result<Answer> {
    const Result<SizingDecision> said = function(view);
    if (!said && said.error().kind != ErrorKind::assertion_error) return tl::unexpected(said.error());
    if (!said) return Answer(fail(ErrorKind::assertion_error, one_line(said.error().message, 400)));
    const std::int64_t size = said->runtime_max_tokens_per_rank;
    if (size < 0 || size > kMostTokens) return fail(ErrorKind::runtime_error, "answered " + unusable_size());
    return Answer(size);
  };
}

}  // namespace

Json view_as_json(const RankView& view) {
  Json list;
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

class RuleProcess::Impl {
 public:
  Impl(std::string name, Ask ask, std::shared_ptr<ChildProcess> child)
      : name_(std::move(name)), ask_(std::move(ask)), child_(std::move(child)) {}

  Result<SizingDecision> size(const RankView& view) {
    const std::lock_guard lock(mutex_);
    if (failure_) return fail(ErrorKind::bad_input, *failure_);
    const auto [place, is_new] = answers_.try_emplace(key_of(view));
    if (is_new) {
      place->second = ask(view);
      if (first_.size() < kAskedAgainAtTheEnd) first_.emplace_back(view, place->second);
      if (answers_.size() <= kAskedTwice || in_sample(place->first)) ask_again(view, place->second);
    }
    if (failure_) return fail(ErrorKind::bad_input, *failure_);
    const Answer& answer = place->second;
    if (!answer) return tl::unexpected(answer.error());
    return SizingDecision{
        .runtime_max_tokens_per_rank = *answer, .dispatched_rows = view.rows, .branch = SizingBranch::external};
  }

  const std::string& name() const { return name_; }

  bool failed() const {
    const std::lock_guard lock(mutex_);
    return failure_.has_value();
  }

  Result<void> finish() {
    const std::lock_guard lock(mutex_);
    for (const Asked& asked : first_) ask_again(asked.view, asked.answer);
    if (failure_) return fail(ErrorKind::bad_input, *failure_);
    return {};
  }

 private:
  struct Asked {
    Asked(const RankView& asked, const Answer& answered) : view(asked), answer(answered) {
      if (!asked.dp_global) return;
      list.assign(asked.dp_global->begin(), asked.dp_global->end());
      view.dp_global = list;
    }
    std::vector<std::int64_t> list;  // a view does not own its list; moving a vector keeps its elements where they are
    RankView view;
    Answer answer;
  };

  void fail_with(const std::string& what, const RankView& view) {
    failure_ = fmt::format("{} {}; asked was {}", name_, what, cut(one_line(view_as_json(view).dump(), 500), 500));
    if (child_) child_->stop(std::chrono::milliseconds(0));
  }

  Answer ask(const RankView& view) {
    if (failure_) return fail(ErrorKind::bad_input, *failure_);
    const Result<Answer> answer = ask_(view);
    if (answer) return *answer;
    fail_with(answer.error().message, view);
    return fail(ErrorKind::bad_input, *failure_);
  }

  void ask_again(const RankView& view, const Answer& before) {
    if (failure_) return;
    const Answer again = ask(view);
    if (failure_ || again == before) return;
    fail_with(fmt::format("answered {} and then {} to one view: a rule may look at nothing but the view",
                          in_words(before), in_words(again)),
              view);
  }

  const std::string name_;
  Ask ask_;
  const std::shared_ptr<ChildProcess> child_;  // of a program
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Answer> answers_;  // looked up, never walked
  std::vector<Asked> first_;
  std::optional<std::string> failure_;
};

RuleProcess::RuleProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RuleProcess::~RuleProcess() = default;

Result<std::unique_ptr<RuleProcess>> RuleProcess::start(const std::string& command,
                                                        std::chrono::milliseconds patience) {
  const std::string name = fmt::format("--rule-cmd '{}'", one_line(command, 200));
  const auto unusable = [&name](std::string_view why) {
    return fail(ErrorKind::bad_input, fmt::format("{}: {}", name, why));
  };
  const Result<ShellScript> script = parse_shell(command);
  if (!script) return unusable(script.error().message);
  ShellVariables variables;
  ShellExpander expander(variables);
  std::vector<std::string> words;
  const std::vector<ShellNode>& commands = script->root.children;
  if (commands.size() == 1 && commands.front().kind == ShellKind::simple)
    for (const std::string& raw : commands.front().words)
      for (ShellValue& word : expander.fields(raw)) words.push_back(std::move(word.text));
  if (words.empty()) return unusable("give one program and its arguments, as in \"python3 my_rule.py\"");
  Result<ChildProcess> child = ChildProcess::start(words);
  if (!child)
    return unusable(
        fmt::format("cannot start '{}': {}", one_line(words.front(), 200), child.error().message));
  const auto shared = std::make_shared<ChildProcess>(std::move(*child));
  return std::unique_ptr<RuleProcess>(new RuleProcess(std::make_unique<Impl>(name, asker(shared, patience), shared)));
}

std::unique_ptr<RuleProcess> RuleProcess::of(std::string name, SizingRule function) {
  name = fmt::format("the rule '{}'", one_line(name, 200));
  return std::unique_ptr<RuleProcess>(
      new RuleProcess(std::make_unique<Impl>(std::move(name), asker(std::move(function)), nullptr)));
}

SizingRule RuleProcess::rule() {
  return [impl = impl_.get()](const RankView& view) { return impl->size(view); };
}

std::string RuleProcess::name() const { return impl_->name(); }
bool RuleProcess::failed() const { return impl_->failed(); }
Result<void> RuleProcess::finish() { return impl_->finish(); }

Result<std::unique_ptr<RuleProcess>> start_rule(const std::optional<std::string>& command, const Caller& caller) {
  if (command && caller.rule)
    return fail(ErrorKind::bad_input, "--rule-cmd and a rule of the caller: give one of them");
  if (caller.rule) return RuleProcess::of(caller.rule_name, caller.rule);
  if (!command) return nullptr;
  return RuleProcess::start(*command);
}

Result<void> finish_rule(const std::unique_ptr<RuleProcess>& process) {
  if (!process) return {};
  return process->finish();
}

}  // namespace a2asim
