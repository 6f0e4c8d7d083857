// Lesson 1: what a fixed-geometry all-to-all is.
#include <algorithm>

#include "model/alltoall/routing.h"
#include "model/engines/sglang/generation.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::int64_t kShownTokens = 4;

Experiment run_agreed(const Lab& lab) {
  return run(lab, lab_scenario(lab_parallel(), {decode_step(lab.tokens)}), newest_generation().name);
}

LessonStep experts_on_ranks(const Lab& lab) {
  LessonStep step;
  step.title = "Experts live on ranks, and tokens must travel";
  const Experiment done = run_agreed(lab);
  const ScenarioModel model = lab_scenario(lab_parallel(), {}).model;
  std::vector<std::vector<std::string>> rows = {{"rank", "experts", "requests"}};
  for (int rank = 0; rank < done.report.ep_size; ++rank) {
    const std::int64_t first = first_expert(rank, model.num_experts, done.report.ep_size);
    const std::int64_t last = first + num_local_experts(rank, model.num_experts, done.report.ep_size) - 1;
    rows.push_back({std::to_string(rank), fmt::format("{}..{}", first, last),
                    std::to_string(lab.tokens[static_cast<std::size_t>(rank)])});
  }
  step.say(
      "A mixture-of-experts layer has {} experts here, spread over {} expert-parallel ranks. Each rank also has "
      "requests of its own; one step of decoding computes one token for each.",
      model.num_experts, done.report.ep_size);
  step.show(table(rows, {2}));
  step.say(
      "The router of the model picks {} experts for every token. Where they live decides which ranks need a copy "
      "of the token{}:",
      model.top_k,
      std::ssize(done.tokens) > kShownTokens
          ? fmt::format(" (the first {} of {} tokens)", kShownTokens, done.tokens.size())
          : "");
  std::vector<std::vector<std::string>> routed = {{"token", "experts", "goes to ranks"}};
  for (const RoutedToken& token : done.tokens) {
    if (std::ssize(routed) > kShownTokens) break;
    std::vector<std::int64_t> experts(token.experts.begin(), token.experts.end()), targets;
    for (const std::int64_t expert : experts) {
      const int target = target_rank(expert, model.num_experts, done.report.ep_size);
      if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
    }
    routed.push_back({fmt::format("{}.{}", token.rank, token.token), listed(experts), listed(targets)});
  }
  step.show(table(routed, {}));
  if (!done.tokens.empty())
    step.say("({0}.{1} means: token {1} of rank {0}.)", done.tokens[0].rank, done.tokens[0].token);
  step.say(
      "Bringing tokens to their experts is the dispatch, bringing results back is the combine; together they are the "
      "all-to-all.");
  step.facts = {{"num_experts", model.num_experts},
                {"top_k", model.top_k},
                {"ep_size", done.report.ep_size},
                {"tokens", lab.tokens}};
  return step;
}

LessonStep one_sided(const Lab& lab) {
  LessonStep step;
  step.title = "Nobody asks, everybody writes";
  const Experiment done = run_agreed(lab);
  step.say(
      "The dispatch is one-sided: a sender writes its rows straight into the memory of the receiver. Rows of this "
      "step, by sender and receiver:");
  std::vector<std::vector<std::string>> rows = {{"to rank"}};
  for (int source = 0; source < done.report.ep_size; ++source) rows[0].push_back(fmt::format("from {}", source));
  std::int64_t sum = 0;
  if (done.ran()) {
    for (const ReceiveBuffer& buffer : done.buffers[0]) {
      rows.push_back({std::to_string(buffer.rank)});
      for (const std::int64_t count : buffer.received) {
        rows.back().push_back(std::to_string(count));
        sum += count;
      }
    }
  }
  step.show(table(rows, {1, 2, 3, 4}));
  step.say(
      "That makes {} rows. The numbers depend on the router, and no rank knows them beforehand. So every receiver "
      "keeps room for the worst case, at places that a sender can work out alone.",
      sum);
  step.facts = {{"rows_sent", sum}};
  return step;
}

LessonStep the_buffer(const Lab& lab) {
  LessonStep step;
  step.title = "The receive buffer: [ep_size, R]";
  const Experiment done = run_agreed(lab);
  step.say(
      "A receive buffer has R slots for every source. R is called runtime_max_tokens_per_rank: no rank may send "
      "more than R rows. In this step {}, so a buffer has {} x R slots.",
      sizes_in_words(done), done.report.ep_size);
  const auto rank = static_cast<std::size_t>(lab.busiest());
  if (done.ran()) {
    const ReceiveBuffer& buffer = done.buffers[0][rank];
    step.show(picture_of(buffer));
    step.say("A dot is a slot that nobody filled. Slots that hold another token than they should: {}.", buffer.wrong());
    step.facts["wrong_slots"] = buffer.wrong();
  }
  step.facts["runtime_max_tokens_per_rank"] = as_json(done.sizes());
  return step;
}

LessonStep the_address(const Lab& lab) {
  LessonStep step;
  step.title = "Where a row lies follows from R";
  const Experiment done = run_agreed(lab);
  const std::int64_t size = done.sizes()[0].value_or(0);
  const int source = done.report.ep_size - 1;
  const std::int64_t row = receive_row(source, 0, size), other = receive_row(source, 0, size + 1);
  step.say("Slot k of source s is row s * R + k. With R = {} the place of the first row of rank {} is row {}.", size,
           source, row);
  step.say(
      "A rank that believes in R = {} looks for it in row {}: further on by {}. The formula needs "
      "only s, k and R, and R is never exchanged. Each rank computes it on its own.",
      size + 1, other, other - row);
  step.facts = {{"runtime_max_tokens_per_rank", size}, {"source", source}, {"row", row}, {"other_row", other}};
  return step;
}

LessonStep the_way_back(const Lab& lab) {
  LessonStep step;
  step.title = "Combine uses the same geometry";
  const Experiment done = run_agreed(lab);
  const Traffic& traffic = done.report.traffic;
  step.say(
      "The experts leave their results in a second buffer [ep_size, R, hidden], and every source reads its own "
      "rows back. In this step {} moved with the dispatch and {} with the combine.",
      bytes_in_words(traffic.dispatch_bytes), bytes_in_words(traffic.combine_bytes));
  step.say(
      "The simulated cluster compared every output with a dense computation of the same layer. Wrong outputs: {} of {} "
      "(verdict `{}`).",
      done.report.bad_tokens, std::ssize(done.tokens), name(done.report.verdict));
  step.facts = {{"dispatch_bytes", traffic.dispatch_bytes},
                {"combine_bytes", traffic.combine_bytes},
                {"bad_tokens", done.report.bad_tokens},
                {"verdict", name(done.report.verdict)}};
  return step;
}

LessonStep the_price(const Lab& lab) {
  LessonStep step;
  step.title = "The price of a fixed shape";
  const Experiment done = run_agreed(lab);
  const Traffic& traffic = done.report.traffic;
  step.say("Experts run over all slots, filled or not. In use over all ranks:");
  step.show({bar(traffic.rows_sent, traffic.rows_reserved)});
  step.say(
      "The memory is taken once, at the start, for the largest R that may ever come: the cap max_num_tokens, here "
      "{}. That makes {} on each rank.",
      done.report.max_num_tokens, bytes_in_words(done.report.workspace_bytes_per_rank));
  step.say(
      "So R must be large enough for the fullest rank, no larger than the cap, and above all equal on all ranks. "
      "Lesson 2 shows how ranks get to know enough to agree.");
  step.facts = {{"rows_sent", traffic.rows_sent},
                {"rows_reserved", traffic.rows_reserved},
                {"max_num_tokens", done.report.max_num_tokens},
                {"workspace_bytes_per_rank", done.report.workspace_bytes_per_rank}};
  return step;
}

Question which_row(const Lab& lab) {
  const std::int64_t size = run_agreed(lab).sizes()[0].value_or(0) + 2;
  constexpr int kSource = 2;
  constexpr std::int64_t kSlot = 1;
  const std::int64_t row = receive_row(kSource, kSlot, size);
  return {fmt::format("Let R be {}. In which row of a receive buffer, counted from 0, lies slot {} of source rank {}?",
                      size, kSlot, kSource),
          NumbersAnswer{{row}}, fmt::format("{} * {} + {} = {}", kSource, size, kSlot, row)};
}

}  // namespace

Lesson lesson_geometry() {
  return {"What a fixed-geometry all-to-all is",
          "receive buffers [ep_size, R], one-sided writes, and why R must be equal everywhere",
          {experts_on_ranks, one_sided, the_buffer, the_address, the_way_back, the_price},
          which_row};
}

}  // namespace a2asim
