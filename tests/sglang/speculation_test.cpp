// What speculation sets beside the width (ServerArgs._handle_speculative_decoding).
#include <doctest/doctest.h>

#include <string>

#include "model/engines/sglang/generation.h"
#include "tests/launch.h"

namespace a2asim {
namespace {

std::unique_ptr<Deployment> speculating(const std::string& options) {
  return test::deploy("pr30450",
                      "python3 -m sglang.launch_server --model-path M --tp 8 --moe-a2a-backend deepep " + options);
}

bool has_note(const Deployment& deployment, std::string_view part) {
  for (const Note& note : deployment.notes)
    if (note.message.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("speculation: without --max-running-requests 48 requests run in all") {
  for (const char* algorithm : {"EAGLE", "eagle3", "NEXTN", "STANDALONE", "NGRAM", "DFLASH"}) {
    CAPTURE(algorithm);
    const auto own = speculating("--speculative-algorithm " + std::string(algorithm));
    CHECK(own->requests_per_dp_rank.value == 48);
    CHECK(own->requests_per_dp_rank.is_explicit);
    CHECK(has_note(*own, "48 requests in all"));
  }
  const auto divided = speculating("--dp 8 --enable-dp-attention --speculative-algorithm EAGLE");
  CHECK(divided->requests_per_dp_rank.value == 6);
  CHECK(speculating("--max-running-requests 100 --speculative-algorithm EAGLE")->requests_per_dp_rank.value == 100);
  CHECK_FALSE(speculating("")->requests_per_dp_rank.is_explicit);
}

TEST_CASE("speculation: every version runs 48 requests in all, of whatever algorithm") {
  for (const Generation& own : generations())
    for (const std::string algorithm : {"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"}) {
      CAPTURE(own.name);
      CAPTURE(algorithm);
      const auto alone = test::deploy(
          own.name, "python3 -m sglang.launch_server --model-path M --tp 8 --speculative-algorithm " + algorithm);
      CHECK(alone->requests_per_dp_rank.value == 48);
      CHECK(alone->requests_per_dp_rank.is_explicit);
      if (algorithm == "STANDALONE") continue;
      const auto divided =
          test::deploy(own.name, std::string(test::kGathered) + "--speculative-algorithm " + algorithm);
      CHECK(divided->requests_per_dp_rank.value == 12);
    }
}

// ServerArgs: with topk 1 the draft is a chain of num_steps tokens, and the one that verifies. NGRAM has no steps.
TEST_CASE("speculation: the width by algorithm, in every version") {
  struct Width {
    std::string algorithm, options;
    std::int64_t tokens;
  };
  const std::string steps = "--speculative-num-steps 3 --speculative-eagle-topk ";
  const std::string draft = " --speculative-num-draft-tokens 9";
  std::vector<Width> widths = {{"NGRAM", draft, 9}, {"NGRAM", steps + "1" + draft, 9}, {"NGRAM", "", 1}};
  for (const char* algorithm : {"EAGLE", "EAGLE3", "NEXTN", "STANDALONE"}) {
    widths.push_back({algorithm, steps + "1" + draft, 4});
    widths.push_back({algorithm, steps + "1", 4});
    widths.push_back({algorithm, steps + "2" + draft, 9});
  }
  for (const Generation& own : generations())
    for (const Width& wanted : widths) {
      CAPTURE(own.name);
      CAPTURE(wanted.algorithm);
      CAPTURE(wanted.options);
      const auto deployment = test::deploy(own.name,
                                           "python3 -m sglang.launch_server --model-path M --tp 8 "
                                           "--max-running-requests 8 --speculative-algorithm " +
                                               wanted.algorithm + " " + wanted.options);
      CHECK(deployment->num_tokens_per_bs == wanted.tokens);
      CHECK(deployment->speculative.num_draft_tokens == wanted.tokens);
    }
}

TEST_CASE("speculation: block sizes set the width") {
  const std::string all = "--max-running-requests 8 --speculative-algorithm ";
  const auto in_august = [&](const std::string& options) {
    return test::deploy("main20260823", "python3 -m sglang.launch_server --model-path M --tp 8 " + all + options)
        ->num_tokens_per_bs;
  };
  CHECK(in_august("DSPARK --speculative-dspark-block-size 5") == 6);
  CHECK(in_august("DSPARK --speculative-dspark-block-size 5 --speculative-num-draft-tokens 3") == 6);
  CHECK(in_august("DFLASH --speculative-dflash-block-size 16") == 16);
  CHECK(in_august("DFLASH --speculative-dflash-block-size 16 --speculative-num-draft-tokens 8") == 8);
  CHECK(in_august("EAGLE --speculative-dspark-block-size 5 --speculative-num-draft-tokens 3") == 3);
  CHECK(in_august("STANDALONE --speculative-num-steps 3 --speculative-eagle-topk 1") == 4);
}

TEST_CASE("speculation: STANDALONE refuses DP attention") {
  for (const Generation& own : generations()) {
    CAPTURE(own.name);
    const auto refused = test::deploy(own.name, std::string(test::kGathered) + "--speculative-algorithm STANDALONE");
    REQUIRE_FALSE(refused->rejections.empty());
    CHECK(refused->rejections.front().error.message.find("does not support dp attention") != std::string::npos);
    const auto eagle = test::deploy(own.name, std::string(test::kGathered) + "--speculative-algorithm EAGLE");
    for (const Rejection& other : eagle->rejections)
      CHECK(other.error.message.find("dp attention") == std::string::npos);
  }
  CHECK(speculating("--speculative-algorithm STANDALONE")->rejections.empty());
}

}  // namespace a2asim
