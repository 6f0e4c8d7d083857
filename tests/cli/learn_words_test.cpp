// a2asim learn: titles, and sentences with their numbers, for requests [3, 1, 0, 5].
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

struct LearnTitles {
  const char* lesson;
  std::vector<std::string> titles;
};

const std::vector<LearnTitles> kLearnTitles = {
    {"1",
     {"Experts live on ranks, and tokens must travel", "Nobody asks, everybody writes",
      "The receive buffer: [ep_size, R]", "Where a row lies follows from R", "Combine uses the same geometry",
      "The price of a fixed shape"}},
    {"2",
     {"A rank knows its own batch", "The all-gather of counts", "Votes: one rank decides for all",
      "Padding, alike on every rank", "The rule: R from the list", "A rank without requests must come along"}},
    {"3",
     {"Two flags, and the list is gone", "Every rank for itself", "Written by one R, read by another",
      "One token's way into the wrong row", "What the model answers", "Which versions have it", "Ways out"}},
    {"4",
     {"A graph is a recording", "What each version bakes", "Under the collapse each rank picks its own bucket",
      "What comes of it", "Why a benchmark does not see it", "The fix: one bucket for all"}},
    {"5",
     {"Which release has it", "First choice: upgrade", "Second choice: remove one flag", "Last resort: no CUDA graphs",
      "Before and after, in memory"}},
    {"6",
     {"The verdict comes first", "The smallest batch that shows it", "The fix", "What it means in memory",
      "When it agrees"}},
    {"8",
     {"A number that all ranks know anyway", "What it costs", "The same at production size",
      "Equal does not mean large enough", "Better refused than overrun"}},
    {"9",
     {"Attention tensor parallelism scatters the rows", "Divide, and round up",
      "Without data-parallel attention all ranks share one batch", "Speculation multiplies the rows",
      "An idle rank, with and without a dummy", "Prefill may leave the all-to-all"}},
    {"10",
     {"SGLang: each rank computes R from what its flags let it know", "vLLM: every forward begins with one exchange",
      "The graph follows the agreed number", "What is not in the table is not agreed on", "One more column cures it",
      "What no size shows"}},
};

// A text as one line, so that it does not matter where its lines end.
std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

const std::vector<std::pair<const char*, std::string>> kLearnSentences = {
    {"1", "Where they live decides which ranks need a copy of the token (the first 4 of 9 tokens):"},
    {"1", "In this step all ranks use R = 5, so a buffer has 4 x R slots. buffer of rank 3: 4 sources x 5 slots "},
    {"1", "A dot is a slot that nobody filled. Slots that hold another token than they should: 0."},
    {"1",
     "With R = 5 the place of the first row of rank 3 is row 15. A rank that believes in R = 6 looks for it in row "
     "18: further on by 3."},
    {"1", "In this step 2.4 KiB moved with the dispatch and 2.1 KiB with the combine."},
    {"1", "Wrong outputs: 0 of 9 (verdict `agrees`)."},
    {"1", "#########............................... 17 of 80 "},
    {"1", "max_num_tokens, here 64. That makes 79.4 KiB on each rank."},
    {"1", "Let R be 7. In which row of a receive buffer, counted from 0, lies slot 1 of source rank 2?"},
    {"2", "global_num_tokens = [3, 1, 0, 5], whose largest entry is 5."},
    {"2", "[3, 1, 0, 5] -> SUM_LEN -> [3, 1, 0, 5]"},
    {"2",
     "Requests [3, 1, 0, 5]: after the sync the schedulers of ranks [2] have an idle batch, so that these ranks enter "
     "the all-to-all too. 4 of 4 ranks take part, and all ranks use R = 5."},
    {"2", "The four ranks have [6, 1, 2, 4] requests and have exchanged their counts."},
    {"3", "A mark (!) stands where another token should be: 4 slots here, 8 over all ranks."},
    {"3", "The reader's R puts the row at byte 12032, the writer's R put it at byte 11776: 256 bytes apart,"},
    {"3",
     "Ranks that raised an error: 0. Of 9 tokens, NaN: 8; finite and wrong, which is worse (fluent text that means "
     "nothing): 1. wrong outputs ######################################## 9 of 9"},
    {"3",
     "pr26643 rounds every count up to a multiple of 2 before a rank computes R, and an idle rank sends a dummy row: "
     "that is why its sizes are not the requests [3, 1, 0, 5]."},
    {"3",
     "\"stops\": missing_rank: ranks 0..1, 3 wait for rank 2 forever: FlashInfer refused its call with "
     "runtime_max_tokens_per_rank 0."},
    {"4",
     "pr27945: the static cap max_num_tokens. pr29461: this rank's own rows. pr30450: max over the gathered token "
     "counts."},
    {"4", "Verdict `disagrees`; tokens that come out wrong: 9 of 9."},
    {"4",
     "Let every rank have 5 requests: the buckets are [8, 8, 8, 8], all ranks use R = 8; wrong tokens: 0 (verdict "
     "`agrees`)."},
    {"5",
     "With --disable-cuda-graph, pr29461 agrees, and pr25907 disagrees. So it helps only where eager steps agree."},
    {"6", "2 requests are enough: with [2, 0, 0, 0], the ranks take R = [2, 1, 1, 1]."},
    {"6", "These are 4 ways out; any one of them is enough."},
    {"6", "Replayed with real bytes: verdict `disagrees`, 2 tokens wrong."},
    {"6", "With pr30450 the verdict is `agrees`, and the exit code is 0."},
    {"8",
     "Rows sent: 18 (dummy rows of idle ranks: 1) against 17 (0). Slots computed: 1024 against 80, 12.8 times as "
     "many."},
    {"8",
     "With 64 requests on every rank, each rank's experts run over 16 x 4096 = 65536 slots under the cap, and over 16 "
     "x "
     "64 = 1024 with the exact size:"},
    {"8", "Verdict `over_capacity`: all ranks use R = 16; ranks that have more rows than their R: 1."},
    {"9", "So all ranks use R = 6. In use over all ranks: ##########.............................. 22 of 96"},
    {"9", "As many slots as the fullest rank has rows: pr25685, pr30450. Another number: pr24850, pr27945."},
    {"9", "From pr22394 on there is none."},
    {"10", "missing_rank: rank 3 waits for rank 0 forever: it raised AssertionError:"},
    {"10", "missing_rank: ranks 1..3 wait for rank 0 forever: it takes no part."},
};

}  // namespace

TEST_CASE("learn: every step has its number, of how many, and its title") {
  for (const LearnTitles& one : kLearnTitles) {
    const std::string text = run({"learn", one.lesson}).out;
    for (std::size_t at = 0; at < one.titles.size(); ++at) {
      const std::string line = std::to_string(at + 1) + "/" + std::to_string(one.titles.size()) + "  " + one.titles[at];
      CAPTURE(line);
      CHECK(contains(text, "\n" + line + "\n"));
    }
  }
}

TEST_CASE("learn: sentences have their numbers") {
  for (const auto& [lesson, sentence] : kLearnSentences) {
    CAPTURE(sentence);
    CHECK(contains(unwrapped(run({"learn", lesson}).out), sentence));
  }
}

}  // namespace a2asim
