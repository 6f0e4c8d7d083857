// Defaults that conditions compare: what the outside may give in their place is looked at, too.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/launch/launch_file.h"
#include "tests/launch/shell_words.h"

using namespace a2asim;
using test::by_us, test::conditions, test::kServer, test::Words;
using Lines = std::vector<std::string>;

namespace {

const std::string s = kServer;

bool says(const LaunchedServer& server, std::string_view part) {
  for (const Note& note : server.command.notes)
    if (note.message.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("shell: a default that a condition compares is one of several values") {
  const std::string two = "; then\n " + s + "1\nelse\n " + s + "2\nfi";
  CHECK(conditions("ROLE=${1:-decode}\nif [ \"$ROLE\" = prefill ]" + two) ==
        Lines{"ROLE=decode: 2", "ROLE=prefill: 1"});
  CHECK(conditions("if [[ ${ROLE:-decode} == \"prefill\" ]]" + two) == Lines{"ROLE=decode: 2", "ROLE=prefill: 1"});
  CHECK(conditions("ROLE=${2-x}\n[ x = $ROLE ] && " + s + "1 || " + s + "2") == Lines{"ROLE=x: 1", "ROLE!=x: 2"});
  CHECK(conditions("case ${1:-decode} in\n prefill) " + s + "1;;\n d|decode) " + s + "2;;\n e|f) " + s +
                   "3;;\n *) echo usage; exit 1;;\nesac") == Lines{"$1=decode: 2", "$1=prefill: 1", "$1=e: 3"});
  CHECK(conditions("case ${R:=a} in a) X=1;; *) X=2;; esac\n" + s + "$X") == Lines{"R=a: 1", "R=(other): 2"});
  CHECK(conditions("USE=${USE:-true}\nif $USE" + two) == Lines{"USE=true: 1", "USE=false: 2"});
  CHECK(conditions("if [ \"${EP:-1}\" != 1 ]" + two) == Lines{"EP=1: 2", "EP=0: 1"});
  CHECK(conditions("M=${MODE:-A}\nif [ \"${M,,}\" = b ]" + two) == Lines{"MODE=a: 2", "MODE=b: 1"});
  CHECK(conditions("run() { if [ \"$1\" = p ]" + two + "\n}\nrun \"${R:-d}\"") == Lines{"R=d: 2", "R=p: 1"});
}

TEST_CASE("shell: other numbers than a default's") {
  CHECK(conditions("N=${NNODES:-1}\nif [ $N -gt 1 ]; then X=\"--nnodes $N\"; fi\n" + s + "--tp $((8 * N)) $X") ==
        Lines{"N=1: --tp 8", "N=2: --tp 16 --nnodes 2"});
  CHECK(conditions("if (( ${N:-4} >= 8 )); then X=big; else X=small; fi\n" + s + "$X") ==
        Lines{"N=4: small", "N=8: big"});
  CHECK(conditions("N=${1:-0}\n((N)) && X=1 || X=2\n" + s + "$X") == Lines{"N=0: 2", "N=1: 1"});
}

TEST_CASE("shell: several defaults are combined, the one that changes nothing is not named") {
  const std::string tests = "A=${A:-0}; B=${B:-0}\n[ $A = 1 ] && X=a || X=-\n[ $B = 1 ] && Y=b || Y=-\n";
  CHECK(conditions(tests + s + "$X$Y") == Lines{"A=0, B=0: --", "A=1, B=0: a-", "B=1, A=0: -b", "A=1, B=1: ab"});
  CHECK(conditions(tests + s + "$X") == Lines{"A=0: -", "A=1: a"});
  CHECK(conditions("X=\n[ \"${A:-0}\" = 1 ] && [ \"${B:-0}\" = 1 ] && X=1\n" + s + "x$X") ==
        Lines{"A=0: x", "A=1, B=1: x1"});
  // One condition that decides all: the values of the other variable are not asked for.
  CHECK(conditions("if [[ ${A:-0} = 1 && ${B:-0} = 1 ]]; then X=1; else X=2; fi\n" + s + "$X") ==
        Lines{"A=0: 2", "A=1, B=1: 1"});
}

TEST_CASE("shell: a default is what it says where nothing compares it, and where the comparison changes nothing") {
  CHECK(by_us(s + "--tp ${TP:-8}") == "--tp|8|\n");
  CHECK(by_us("D=${DEBUG:-0}\nif [ $D = 1 ]; then echo debug; fi\n[ $D = 1 ] && echo x\n" + s + "1") == "1|\n");
  CHECK(by_us("case ${L:-info} in debug) echo d;; *) echo i;; esac\n" + s + "1") == "1|\n");
  CHECK(by_us("if [ \"${R:-d}\" != d ] && [ \"$R\" != p ]; then echo usage; exit 1; fi\n" + s + "1") == "1|\n");
  CHECK(by_us("[ \"${N:-0}\" = 1 ] && export NCCL_DEBUG=INFO\n" + s + "1") == "1|\n");
  CHECK(by_us("for ((i = 0; i < ${N:-2}; ++i)); do " + s + "$i; done") == "0|\n1|\n");
  CHECK(by_us("while [ ${i:=0} -lt ${N:-2} ]; do " + s + "$i; i=$((i + 1)); done") == "0|\n1|\n");
  // A usage text is no way of its own, though the default leads there.
  CHECK(conditions("if [ -z \"${1:-}\" ]; then echo usage; exit 1; fi\n" + s + "1") == Lines{": 1"});
  Environment env;
  env.set("ROLE", "prefill");
  CHECK(by_us("if [ ${ROLE:-decode} = decode ]; then X=1; else X=2; fi\n" + s + "$X", env) == "2|\n");
}

TEST_CASE("shell: a value that is only known to differ from the default is not judged, and that is said") {
  const auto servers = find_servers("A=(); if [ -n \"${EXTRA:-}\" ]; then A+=($EXTRA); fi\n" + s + "--tp 8 ${A[@]}");
  REQUIRE(servers);
  REQUIRE(servers->size() == 1);
  CHECK(servers->front().condition == "");
  CHECK(servers->front().command.unread.empty());
  CHECK(says(servers->front(), "if EXTRA!=, the server of line 2 takes that value"));
  // Where nothing else is left, it stands.
  const auto only = find_servers("if [ -z \"${M:-}\" ]; then exit 1; fi\n" + s + "--tp $M");
  REQUIRE(only);
  CHECK(only->front().command.argv == Words{"--tp", "$M"});
}

TEST_CASE("shell: more values than are walked are said, the defaults come first") {
  std::string many, words;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    many += "[ \"${V" + n + ":-0}\" = 1 ] && X" + n + "=1 || X" + n + "=0\n";
    words += "$X" + n;
  }
  const auto servers = find_servers(many + s + words);
  REQUIRE(servers);
  CHECK(servers->size() == 64);
  CHECK(servers->front().command.argv == Words{"0000000000"});
  CHECK_FALSE(servers->front().is_alternative);
  CHECK(servers->back().is_alternative);
  CHECK(says(servers->front(), "more than 64 ways"));
}

TEST_CASE("shell: what a loop over the script's arguments sets is a default") {
  const std::string loop =
      "ROLE=decode; TP=8\nwhile [ $# -gt 0 ]; do\n case $1 in\n --role) ROLE=$2; shift 2;;\n"
      " --tp) TP=$2; shift 2;;\n *) echo unknown; exit 1;;\n esac\ndone\n";
  const std::string use = "if [ $ROLE = prefill ]; then X=1; else X=2; fi\n" + s + "--tp $TP $X";
  CHECK(conditions(loop + use) == Lines{"ROLE=decode: --tp 8 2", "ROLE=prefill: --tp 8 1"});
  CHECK(conditions("main() {\n" + loop + use + "\n}\nmain \"$@\"") ==
        Lines{"ROLE=decode: --tp 8 2", "ROLE=prefill: --tp 8 1"});
  CHECK(conditions("P=0\nfor a in \"$@\"; do case $a in --p) P=1;; *) exit 1;; esac; done\n[ $P = 1 ] && X=1 || X=2\n" +
                   s + "$X") == Lines{"P=0: 2", "P=1: 1"});
  const auto servers = find_servers(loop + s + "--tp $TP");
  REQUIRE(servers);
  CHECK(says(servers->front(), "the default written there counts: ROLE=decode, TP=8"));
  // A server inside such a loop is one all the same.
  CHECK(conditions("while [ $# -gt 0 ]; do ssh $1 'sglang serve --tp 4'; shift; done") == Lines{": --tp 4"});
  // $1 is another argument behind a shift.
  CHECK(conditions("A=${1:-a}; shift; B=${1:-b}\n[ $A = x ] && X=1 || X=0\n[ $B = x ] && Y=1 || Y=0\n" + s + "$X$Y")
            .size() == 4);
}
