// A skip never hides a failure. The examples are left out of every run but those that the last test case starts.
#include "tests/main/skip.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

namespace a2asim::test {
namespace {

TEST_CASE("skip example: cannot run" * doctest::skip()) { skip("an example"); }

TEST_CASE("skip example: fails later" * doctest::skip()) {
  skip("an example");
  CHECK(1 + 1 == 3);
}

TEST_CASE("skip example: passes" * doctest::skip()) {}

int exit_code_of(const std::string& filter) {
  static const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const int status = std::system(("'" + program + "' --no-skip -tc='skip example: " + filter + "' >/dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a skip counts only where nothing failed and nothing else ran") {
  CHECK(exit_code_of("cannot run") == kSkipped);
  CHECK(exit_code_of("fails later") == 1);
  CHECK(exit_code_of("*") == 1);
  CHECK(exit_code_of("cannot run,skip example: passes") == 0);
  CHECK(exit_code_of("passes") == 0);
}

}  // namespace
}  // namespace a2asim::test
