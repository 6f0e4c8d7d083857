// What check says of a launch, an option or a file that it cannot use: the whole line, and exit code 2.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/cli/launches.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

std::string error_line(const std::vector<std::string>& args) {
  const Outcome outcome = run(args);
  CHECK(outcome.exit_code == kUnusableInput);
  CHECK(outcome.out.empty());
  const std::string start = "a2asim check: ";
  REQUIRE(outcome.err.starts_with(start));
  REQUIRE(outcome.err.find('\n') == outcome.err.size() - 1);
  return outcome.err.substr(start.size(), outcome.err.size() - 1 - start.size());
}

}  // namespace

TEST_CASE("check: options that cannot be used are named with what they take") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"--gpu", "nosuch"},
       "--gpu: 'nosuch' is no GPU known here; name one of A100, B200, B300, GB200, GB300, H20, H100, H200, L40S, "
       "MI300X, RTX4090, or give its memory with --gpu-memory"},
      {{"--gpu-memory", "0"}, "--gpu-memory takes GiB of one GPU above 0 and up to 1048576, not '0'"},
      {{"--nvlink-domain", "x"}, "--nvlink-domain takes a whole number from 1 to 65536, not 'x'"},
      {{"--nvlink-domain", "0"}, "--nvlink-domain takes a whole number from 1 to 65536, not '0'"},
      {{"--engine", "nosuch"}, "--engine: 'nosuch' is no engine known here; name one of sglang, trtllm, vllm"},
      {{"--engine", "vllm"}, "--engine vllm: the command starts a server of SGLang"},
      {{"--vllm", "newest"}, "--vllm names a version of another engine: the command starts a server of SGLang"},
      {{"--format", "nope"}, "--format takes one of text, json, sarif, github, junit, not 'nope'"},
      {{"--together"}, "--together compares the commands of several nodes: give two commands or more"},
      {{"--sglang", "lmsysorg/sglang:nope"},
       "--sglang: the tag 'nope' names no version that is known here; name one with --sglang"},
      {{"--env", "NAME"}, "--env takes NAME=VALUE, not 'NAME'"}};
  for (const auto& [options, said] : table) {
    std::vector<std::string> args = {"check"};
    args.insert(args.end(), options.begin(), options.end());
    args.emplace_back("--");
    CHECK(error_line(with_words(args, kAgreeing)) == said);
  }
  // The memory is known then, and nothing else is asked of the name.
  CHECK(run(with_words({"check", "--gpu", "nosuch", "--gpu-memory", "80", "--"}, kAgreeing)).exit_code ==
        kNothingWrong);
  CHECK(run(with_words({"check", "--gpu", "H200", "--"}, kAgreeing)).exit_code == kNothingWrong);
}

TEST_CASE("check: options that nobody can read are named with the server that takes them") {
  const std::string unknown = ", whose value is not known: set it with --env, or write it out";
  const std::string config = ", which cannot be read here: put the file beside the launch, or give its options";
  const std::vector<std::pair<std::string, std::string>> table = {
      {kAgreeing + " $EXTRA\n", "the server of line 1 takes options from $EXTRA in line 1" + unknown},
      {"#!/bin/bash\n" + kAgreeing + " \"$@\"\n", "the server of line 2 takes options from $@ in line 2" + unknown},
      {". ./env.sh\n" + kAgreeing + " ${EXTRA}\n",
       "the server of line 2 takes ${EXTRA} in line 2 from ./env.sh in line 1, which is not read: put it beside the "
       "script, or give --env"},
      {kAgreeing + " --config no_such_file.yaml\n",
       "the server of line 1 takes options from --config no_such_file.yaml" + config},
      {kAgreeing + " --config /no/such/file.yaml\n",
       "the server of line 1 takes options from --config /no/such/file.yaml" + config},
      {"# a2asim: version=nope\n" + kAgreeing + "\n",
       "comment in line 1: 'nope' is no generation known here; use a PR (pr14668), a date (2026-09-18) or a release: "
       "'a2asim generations' lists them"},
      {"services:\n  decode:\n    image: lmsysorg/sglang:v9.9\n    command: " + kAgreeing + "\n",
       "image lmsysorg/sglang:v9.9: the tag 'v9.9' names no version that is known here; name one with --sglang"}};
  for (const auto& [text, said] : table) {
    CAPTURE(text);
    const TemporaryFile file("launch", text);
    CHECK(error_line({"check", file.path}) == said);
  }
  const TemporaryFile known("serve.sh", kAgreeing + " $EXTRA\n");
  CHECK(run({"check", "--env", "EXTRA=--random-seed 1", known.path}).exit_code == kNothingWrong);
}

TEST_CASE("check: files that are not there are named") {
  CHECK(error_line({"check", "no_such_file.sh"}) == "file 'no_such_file.sh' does not exist: check the path");
  const TemporaryFile file("serve.sh", kAgreeing + "\n");
  CHECK(error_line({"check", "--baseline", "no_such_file", file.path}) ==
        "--baseline: file 'no_such_file' does not exist: `a2asim check --format json PATH.. > no_such_file` writes it");
}

}  // namespace a2asim
