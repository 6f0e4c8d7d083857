// What only a process can show: exit codes, closed and full outputs, closed inputs, colours.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/main/skip.h"

namespace {

struct Shell {
  int exit_code = -1;
  std::string out;
};

// sh -c with $A2ASIM; standard error is mixed in where the line says so.
Shell sh(const std::string& line) {
  ::setenv("A2ASIM", A2ASIM_PROGRAM, 1);
  Shell result;
  std::FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.out.append(buffer.data(), size);
  const int status = ::pclose(pipe);
  REQUIRE(WIFEXITED(status));  // no signal
  result.exit_code = WEXITSTATUS(status);
  return result;
}

const std::string kCheck =
    "\"$A2ASIM\" check --sglang pr29461 -- python3 -m sglang.launch_server --model-path M --tp 4 --dp 4 "
    "--enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 --moe-a2a-backend flashinfer "
    "--moe-runner-backend flashinfer_cutlass ";

TEST_CASE("the exit code tells the verdict: results go to standard output, messages to standard error") {
  const Shell found = sh(kCheck + "2>/dev/null");
  CHECK(found.exit_code == 1);
  CHECK(found.out.rfind("sglang pr29461", 0) == 0);
  CHECK(found.out.find("\nDISAGREES") != std::string::npos);
  const Shell refused = sh("\"$A2ASIM\" check --sglang nothing -- x 2>/dev/null");
  CHECK(refused.exit_code == 2);
  CHECK(refused.out.empty());
}

TEST_CASE("a pipe gets no colours, and NO_COLOR is never needed for that") {
  CHECK(sh(kCheck + "2>&1").out.find('\x1b') == std::string::npos);
}

TEST_CASE("a reader that leaves early is no crash") {
  const Shell left = sh("({ sleep 0.2; " + kCheck + "2>/dev/null; echo $? >&3; } | true) 3>&1");
  CHECK(left.out == "1\n");
}

TEST_CASE("an output that cannot be written is said") {
  const Shell closed = sh(kCheck + "2>&1 >&-");
  CHECK(closed.exit_code == 2);
  CHECK(closed.out.find("cannot write to standard output: Bad file descriptor") != std::string::npos);
  const Shell full = sh("test -e /dev/full || exit 9; " + kCheck + "2>&1 >/dev/full");
  if (full.exit_code != 9) {
    CHECK(full.exit_code == 2);
    CHECK(full.out.find("cannot write to standard output: No space left on device") != std::string::npos);
    CHECK(sh("\"$A2ASIM\" --help 2>/dev/null >/dev/full").exit_code == 2);
  }
}

TEST_CASE("a reader of much who leaves early is told nothing, and the exit code is the result's") {
  const Shell left =
      sh("({ \"$A2ASIM\" explain --all --format markdown 2>&3; echo $? >&3; } | head -c 10 >/dev/null) 3>&1");
  CHECK(left.out == "0\n");
}

TEST_CASE("too little memory is one line, and too few threads are fewer") {
#ifdef A2ASIM_SANITIZED
  a2asim::test::skip("a sanitizer needs terabytes of addresses");
  return;
#endif
  // With CUDA the libraries alone take half a GiB, and the loader ends the program before it begins.
  int reached = 0;
  for (const int limit_kib : {40'000, 60'000, 80'000, 120'000, 200'000, 900'000}) {
    const Shell found = sh("ulimit -v " + std::to_string(limit_kib) + "; " + kCheck + "2>&1; test $? -le 2");
    if (found.out.find("error while loading shared libraries") != std::string::npos) continue;
    ++reached;
    INFO(found.out);
    CHECK(found.exit_code == 0);
  }
  CHECK(reached > 0);
  const std::string explore = "\"$A2ASIM\" explore --sglang pr29461 --budget 2000 ";
  const Shell whole = sh(explore + "--threads 1 2>&1");
  const Shell few = sh("ulimit -v 1200000; " + explore + "--threads 1000 2>&1");
  CHECK(whole.exit_code <= 1);
  CHECK(few.exit_code == whole.exit_code);
  CHECK(few.out == whole.out);
}

TEST_CASE("a closed standard input is no launch command") {
  const Shell result = sh("\"$A2ASIM\" check 2>&1 <&-");
  CHECK(result.exit_code == 2);
  CHECK(result.out.rfind("a2asim check: ", 0) == 0);
}

}  // namespace
