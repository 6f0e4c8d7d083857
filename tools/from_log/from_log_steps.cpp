#include "tools/from_log/from_log_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "sim/scenario/scenario_reader.h"
#include "tools/from_log/from_log_place.h"
#include "tools/program/input.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::size_t kShownLines = 8;  // numbers of lines in a note

std::string clock_of(std::int64_t time_ms) {
  const std::int64_t of_day = ((time_ms % 86'400'000) + 86'400'000) % 86'400'000;
  std::string out = fmt::format("{:02}:{:02}:{:02}", of_day / 3'600'000, of_day / 60'000 % 60, of_day / 1000 % 60);
  if (of_day % 1000 != 0) out += fmt::format(".{:03}", of_day % 1000);
  return out;
}

class Builder {
 public:
  Builder(const LogContents& log, const FromLogOptions& options, const Deployment& deployment, FromLog& out)
      : log_(log),
        options_(options),
        deployment_(deployment),
        out_(out),
        ranks_(static_cast<std::size_t>(deployment.topology.attn_dp_size)),
        last_decode_(ranks_, 0) {}

  Result<void> build() {
    const std::vector<BatchLine> batches = of_this_server();
    for (const UnusableLine& line : log_.unusable) leave_out(line.number, line.reason);
    const LinePlacement placement =
        place_lines(batches, {deployment_.topology, options_.window_ms, options_.replica.value_or(0)});
    for (const auto& [number, reason] : placement.not_placed) leave_out(number, reason);
    find_silent_nodes(placement);
    for (const LogStep& step : placement.steps) {
      add(step, batches);
      if (out_.scenario.steps.size() * (3 * ranks_ + 20) > kMaxScenarioFileBytes) return too_many_steps(out_);
    }
    note_everything(placement);
    if (out_.scenario.steps.empty()) {
      std::string why = "no line of it is a batch that can be placed";
      if (!out_.not_placed.empty())
        why = fmt::format("none of {} can be placed; {}: {}", counted(out_.batch_lines, "batch line"),
                          line_numbers(out_.not_placed[0].first_lines, out_.not_placed[0].count),
                          out_.not_placed[0].reason);
      return unusable(why + (dropped_ > 0 ? "; --missing drop left out the rest" : ""));
    }
    return {};
  }

  const std::vector<std::string>& comments() const { return comments_; }

 private:
  void note(std::string text) { out_.notes.push_back(std::move(text)); }

  void leave_out(std::size_t number, std::string_view reason) {
    std::vector<NotPlaced>& all = out_.not_placed;
    auto same = std::ranges::find(all, reason, &NotPlaced::reason);
    if (same == all.end()) same = all.insert(all.end(), {std::string(reason), 0, {}});
    ++same->count;
    if (same->first_lines.size() < kShownLines) same->first_lines.push_back(number);
  }

  // A log that was rotated or appended to holds batches of a server before, whose arguments nobody knows. With a launch
  // command given, the log's own arguments decide nothing.
  std::string_view why_another_server(std::size_t number) const {
    if (log_.args && !options_.launch && number < log_.args_line)
      return "before the start of the server whose arguments are used";
    if (log_.other_server_line && number > *log_.other_server_line) return "after the start of another server";
    return "";
  }

  std::vector<BatchLine> of_this_server() {
    std::vector<BatchLine> batches;
    for (const BatchLine& line : log_.batches) {
      const std::string_view reason = why_another_server(line.number);
      if (reason.empty()) {
        batches.push_back(line);
      } else {
        leave_out(line.number, reason);
      }
    }
    return batches;
  }

  // The node whose log has the lines of a data-parallel rank: nodes take the tensor-parallel ranks in equal blocks.
  std::size_t node_of(std::size_t rank) const {
    const Topology& topology = deployment_.topology;
    const std::int64_t nodes = std::clamp<std::int64_t>(out_.nodes.count, 1, topology.tp_size);
    const auto first = static_cast<std::int64_t>(rank) * (topology.tp_size / topology.attn_dp_size);
    return static_cast<std::size_t>(first * nodes / topology.tp_size);
  }

  // A rank of a node that has no line at all logs elsewhere: that is no sign of idleness.
  void find_silent_nodes(const LinePlacement& placement) {
    std::vector<bool> speaks(ranks_, out_.nodes.count <= 1);  // by node: there are at most as many as ranks
    for (const LogStep& step : placement.steps)
      for (const auto& [rank, index] : step.lines) speaks[node_of(rank)] = true;
    for (std::size_t rank = 0; rank < ranks_; ++rank) logs_elsewhere_.push_back(!speaks[node_of(rank)]);
  }

  ForwardMode decode_mode() const { return deployment_.speculates ? ForwardMode::target_verify : ForwardMode::decode; }

  // The batch of one line as a scenario says it. A chunk that is mixed with running requests holds one token of each.
  std::pair<ForwardMode, std::int64_t> batch_of(const BatchLine& line) {
    if (line.kind == BatchLine::Kind::decode) return {decode_mode(), line.count};
    if (!deployment_.mixes_prefill_and_decode || line.running_req == 0) return {ForwardMode::extend, line.count};
    ++mixed_;
    return {ForwardMode::mixed, line.count + line.running_req};
  }

  void add(const LogStep& logged, const std::vector<BatchLine>& batches) {
    std::vector<ForwardMode> modes(ranks_, ForwardMode::idle);
    std::vector<std::int64_t> tokens(ranks_, 0);
    std::vector<std::size_t> numbers;
    std::vector<bool> has_line(ranks_, false);
    for (const auto& [rank, index] : logged.lines) {
      if (batches[index].accept_len > most_accepted_.accept_len) most_accepted_ = batches[index];
      std::tie(modes[rank], tokens[rank]) = batch_of(batches[index]);
      has_line[rank] = true;
      numbers.push_back(batches[index].number);
    }
    std::vector<std::size_t> missing;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (has_line[rank]) continue;
      missing.push_back(rank);
      if (options_.missing != MissingRank::last || last_decode_[rank] == 0) continue;
      modes[rank] = decode_mode();
      tokens[rank] = last_decode_[rank];
    }
    for (const auto& [rank, index] : logged.lines)
      if (logged.kind == BatchLine::Kind::decode) last_decode_[rank] = batches[index].count;
    if (std::ranges::any_of(missing, [&](std::size_t rank) { return logs_elsewhere_[rank]; })) {
      for (const std::size_t number : numbers) leave_out(number, elsewhere());
      return;
    }
    incomplete_ += missing.empty() ? 0 : 1;
    if (!missing.empty() && options_.missing == MissingRank::drop) {
      ++dropped_;
      for (const std::size_t number : numbers) leave_out(number, "a rank of its step has no line (--missing drop)");
      return;
    }
    out_.placed += numbers.size();
    if (logged.kind == BatchLine::Kind::decode) decode_lines_ += numbers.size();
    Step step;
    step.mode = one_if_equal(modes, tokens, logged.kind);
    step.tokens = std::move(tokens);
    step.graph = graph_of(logged, batches);
    append(std::move(step), comment_of(logged, numbers, missing));
  }

  std::string elsewhere() const {
    std::vector<std::size_t> silent;
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (logs_elsewhere_[rank]) silent.push_back(rank);
    return fmt::format(
        "DP {} of its step log on another of the {} nodes: give the logs of all nodes, one behind the other",
        cut(a2asim::ranges(silent), 40), out_.nodes.count);
  }

  // A rank without tokens has no work in any mode, so that one mode can stand for all.
  std::vector<ForwardMode> one_if_equal(const std::vector<ForwardMode>& modes, const std::vector<std::int64_t>& tokens,
                                        BatchLine::Kind kind) const {
    std::optional<ForwardMode> first;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (tokens[rank] == 0) continue;
      if (first && *first != modes[rank]) return modes;
      first = modes[rank];
    }
    return {first.value_or(kind == BatchLine::Kind::decode ? decode_mode() : ForwardMode::extend)};
  }

  // Of a decode step, if its lines agree. Prefill graphs are no part of the model.
  std::optional<bool> graph_of(const LogStep& logged, const std::vector<BatchLine>& batches) {
    if (logged.kind == BatchLine::Kind::prefill) {
      for (const auto& [rank, index] : logged.lines) prefill_graphs_ += batches[index].cuda_graph == true ? 1 : 0;
      return std::nullopt;
    }
    const std::optional<bool> first = batches[logged.lines[0].second].cuda_graph;
    const bool agree =
        std::ranges::all_of(logged.lines, [&](const auto& line) { return batches[line.second].cuda_graph == first; });
    unequal_graphs_ += agree ? 0 : 1;
    return agree ? first : std::nullopt;
  }

  std::string comment_of(const LogStep& logged, const std::vector<std::size_t>& numbers,
                         const std::vector<std::size_t>& missing) const {
    std::string out = logged.iteration ? fmt::format("iteration {}", *logged.iteration)
                      : logged.time_ms ? clock_of(*logged.time_ms)
                                       : "no time";
    std::vector<std::size_t> sorted = numbers;
    std::ranges::sort(sorted);
    out += fmt::format("; {} {}", sorted.size() == 1 ? "line" : "lines", cut(a2asim::ranges(sorted), 60));
    if (!missing.empty())
      out += fmt::format("; no line of DP {}: {}", cut(a2asim::ranges(missing), 40),
                         options_.missing == MissingRank::last ? "its last decode batch, if any" : "taken as idle");
    return out;
  }

  // Neighbours that are equal but for where they come from become one step; the comment is the first one's.
  void append(Step step, std::string comment) {
    std::vector<Step>& steps = out_.scenario.steps;
    if (!steps.empty()) {
      Step& last = steps.back();
      if (last.mode == step.mode && last.tokens == step.tokens && last.graph == step.graph &&
          last.repeat < kMaxScenarioSteps) {
        ++last.repeat;
        return;
      }
    }
    steps.push_back(std::move(step));
    comments_.push_back(std::move(comment));
  }

  void note_everything(const LinePlacement& placement) {
    note(placement.by_iteration
             ? "steps: lines of one kind and one iteration number are one step, whatever their time stamps"
             : fmt::format("steps: by time stamp, at most {} ms apart, prefill and decode apart, the lines of "
                           "a rank in their order; set {} on the server to know it exactly",
                           options_.window_ms, engine_of(*deployment_.generation).log_numbering));
    note_interval();
    note_acceptance();
    if (deployment_.speculates && decode_lines_ > 0) note_speculation();
    if (incomplete_ > 0) note_missing();
    if (!placement.ambiguous.empty()) {
      const auto shown = static_cast<std::ptrdiff_t>(std::min(placement.ambiguous.size(), kShownLines));
      note(fmt::format("{} could belong to the step before as well; placed into the newest",
                       line_numbers({placement.ambiguous.begin(), placement.ambiguous.begin() + shown},
                                    placement.ambiguous.size())));
    }
    if (placement.out_of_order > 0)
      note(
          fmt::format("{} not in the order of time: sorted by time stamp",
                      placement.out_of_order == 1 ? "1 line is" : fmt::format("{} lines are", placement.out_of_order)));
    if (mixed_ > 0)
      note(
          fmt::format("enable_mixed_chunk: {} with running requests taken as mixed, #new-token + #running-req "
                      "tokens (requests for log probabilities are not mixed, which the log does not say)",
                      counted(static_cast<std::size_t>(mixed_), "prefill line")));
    if (unequal_graphs_ > 0)
      note(fmt::format("in {} the ranks log different values of `cuda graph`: left to the engine's rule",
                       counted(static_cast<std::size_t>(unequal_graphs_), "step")));
    if (prefill_graphs_ > 0)
      note(fmt::format("{} with `cuda graph: True`: prefill graphs are not modelled, these steps run eagerly",
                       counted(static_cast<std::size_t>(prefill_graphs_), "prefill line")));
    if (log_.cut_lines > 0)
      note(fmt::format("{} longer than 1 MiB: only the start was read",
                       log_.cut_lines == 1 ? "1 line is" : fmt::format("{} lines are", log_.cut_lines)));
  }

  void note_interval() {
    const DecodeLogInterval& interval = out_.decode_log_interval;
    if (interval.iterations == 1) return note("decode_log_interval is 1: every batch with work is logged");
    note(
        fmt::format("a decode batch is logged once in {} decode iterations of its rank{}: such steps are samples, and "
                    "what lies between them is not known; a prefill batch is logged every time",
                    interval.iterations, interval.is_logged ? "" : " (decode_log_interval's default)"));
  }

  // More tokens than a pass can hold cannot be accepted.
  void note_acceptance() {
    const std::int64_t width = deployment_.speculates ? deployment_.speculative.num_draft_tokens : 1;
    if (most_accepted_.accept_len <= static_cast<double>(width)) return;
    note(fmt::format(
        "CONTRADICTION: line {} logs accept len {}, and the deployment {}: token counts here are too small; "
        "give the launch command with its --speculative options",
        most_accepted_.number, most_accepted_.accept_len,
        !deployment_.speculates      ? "does not speculate"
        : deployment_.width_is_given ? fmt::format("verifies {} tokens a request", width)
                                     : fmt::format("is assumed to verify {} tokens a request", width)));
  }

  void note_speculation() {
    const std::int64_t width = deployment_.speculative.num_draft_tokens;
    note(
        fmt::format("{} speculates: {} taken as target_verify, {} for each request{}; the passes of a draft model "
                    "(draft, draft_extend) are not logged, and the scenario has none",
                    deployment_.speculative_algorithm, counted(decode_lines_, "decode line"),
                    counted(static_cast<std::size_t>(width), "token"),
                    deployment_.width_is_given ? "" : " (assumed: the number is not known)"));
  }

  void note_missing() {
    constexpr std::string_view taken_for[] = {"taken as idle (0 tokens)", "taken to run its last logged decode batch",
                                              "and such a step is left out"};
    note(
        fmt::format("{} without a line of some rank, which is idle or was not logged: {}; --missing chooses "
                    "idle, last or drop",
                    incomplete_ == 1 ? "1 step is" : fmt::format("{} steps are", incomplete_),
                    taken_for[static_cast<std::size_t>(options_.missing)]));
  }

  const LogContents& log_;
  const FromLogOptions& options_;
  const Deployment& deployment_;
  FromLog& out_;
  std::size_t ranks_;
  std::vector<std::int64_t> last_decode_;  // requests of a rank's last decode line so far
  std::vector<std::string> comments_;      // one a step of the scenario
  std::int64_t incomplete_ = 0, dropped_ = 0, mixed_ = 0, unequal_graphs_ = 0, prefill_graphs_ = 0;
  std::size_t decode_lines_ = 0;  // that were placed
  std::vector<bool> logs_elsewhere_;  // by data-parallel rank
  BatchLine most_accepted_;
};

}  // namespace

tl::unexpected<Error> too_many_steps(const FromLog& out) {
  return unusable(fmt::format("{} are more than a scenario file of 1 MiB holds: take a part with --lines FIRST:LAST",
                              counted(out.scenario.steps.size(), "different step")));
}

std::string line_numbers(const std::vector<std::size_t>& first, std::size_t count) {
  return fmt::format("{} {}{}", count == 1 ? "line" : "lines", fmt::join(first, ", "),
                     count > first.size() ? fmt::format(" and {} more", count - first.size()) : "");
}

Result<std::vector<std::string>> add_steps(const LogContents& log, const FromLogOptions& options,
                                           const Deployment& deployment, FromLog& out) {
  Builder builder(log, options, deployment, out);
  if (auto built = builder.build(); !built) return tl::unexpected(built.error());
  return builder.comments();
}

}  // namespace a2asim
