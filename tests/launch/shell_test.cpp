// Shell texts read on paper, against bash itself: a function `python3` in front of each script prints the words that
// the server would get.
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "model/launch/launch_command.h"
#include "model/launch/launch_text.h"
#include "model/launch/shell_expand.h"
#include "tests/main/skip.h"

using namespace a2asim;
using Words = std::vector<std::string>;

namespace {

const std::string kServer = "python3 -m sglang.launch_server ";

// One line a server, its words parted by |.
std::string by_bash(const std::string& script) {
  const std::string text = "python3() { printf '%s|' \"${@:3}\"; echo; }\n" + script;
  std::FILE* const pipe = popen(("bash -c " + shell_quote(text) + " 2>/dev/null </dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), size);
  pclose(pipe);
  return out;
}

std::string by_us(const std::string& script, const Environment& env = {}) {
  const auto servers = find_servers(script, env);
  std::string out;
  if (!servers) return servers.error().message.find("starts no") != std::string::npos ? "" : servers.error().message;
  for (const LaunchedServer& server : *servers) {
    CHECK(server.condition == "");
    CHECK(server.command.unread.empty());
    for (const std::string& word : server.command.argv) out += word + "|";
    if (server.command.argv.empty()) out += "|";
    out += "\n";
  }
  return out;
}

bool has_bash() { return std::system("bash -c 'exit 0' >/dev/null 2>&1") == 0; }

std::vector<std::string> conditions(const std::string& script) {
  const auto servers = find_servers(script);
  REQUIRE_MESSAGE(servers, (servers ? "" : servers.error().message));
  std::vector<std::string> out;
  for (const LaunchedServer& server : *servers) {
    std::string words = server.condition + ":";
    for (const std::string& word : server.command.argv) words += " " + word;
    out.push_back(words);
  }
  return out;
}

}  // namespace

TEST_CASE("shell: what the text decides is decided as bash does") {
  if (!has_bash()) return test::skip("needs bash");
  const std::string s = kServer;
  for (const std::string& script : std::vector<std::string>{
           "A=false\nARGS=(--tp 8)\nif [ \"$A\" = \"true\" ]; then\n ARGS+=(--dp 8)\nfi\n" + s + "\"${ARGS[@]}\"",
           "M=a\nif [ $M = a ]; then X=1; else X=2; fi\n" + s + "$X",
           "M=b\nif [[ $M == a* ]]; then X=1; elif [[ $M == b && -n $M ]]; then X=2; else X=3; fi\n" + s + "$X",
           "M=7\nif (( M > 6 )); then X=big; else X=small; fi\n" + s + "$X",
           "case decode in prefill) X=1;; dec*) X=2;; *) X=3;; esac\n" + s + "$X",
           "R=p\ncase \"$R\" in\n  (d|e) " + s + "1 ;;\n  p)\n    " + s + "2\n    ;;\nesac",
           "X=8192\n" + s +
               "--c $((4 * X)) $(( (1+2)*3 % 5 )) $((X/3)) $((2**10)) $((X>>2)) $((5>3?7:9)) $((-7/2)) $((~5))",
           "TP=$(( 4 ))\n" + s + "--tp $TP",
           "A=(a b c)\n" + s + "${A[0]} ${A[-1]} ${#A[@]} \"${A[@]:1}\" \"${A[@]:0:2}\" ${A[1+1]}",
           "A=()\nfor i in 0 1 2; do A[$i]=\"h$i:5000\"; done\n" + s + "${A[1]} \"${A[*]}\"",
           "declare -A C\nC[tp]=4\nC[dp]='a b'\nk=dp\n" + s + "${C[tp]} \"${C[$k]}\" x${C[no]}",
           "declare -A C=([tp]=4 [dp]=2)\n" + s + "${C[tp]} ${C[dp]}",
           "F=/a/b/model.tar.gz\n" + s + "${F%.*} ${F%%.*} ${F#*/} ${F##*/} ${F/a/x} ${F//a/x} ${F:2:3} ${F: -2} ${#F}",
           "F=a/b/ab\n" + s + "${F//\\//_} ${F/#a/x} ${F/%b/x} ${F/#b/x}",
           "N=(n0 n1)\nfor i in \"${!N[@]}\"; do " + s + "$i ${N[$i]}; done\nB=N\n" + s + "${!B} \"${N[@]: -1}\"",
           "x=08\n" + s + "$((10#$x + 1)) $((16#ff))",
           "V=aBc\n" + s + "${V^} ${V^^} ${V,,} ${V:-d} ${V:+set} ${V+set}",
           "E=\n" + s + "x${E:-d} y${E-d} z${E:+s} w${E+s}",
           ": ${N:=5}\n" + s + "$N ${N:=6}",
           "f() { " + s + "\"$@\" $# $1; }\nf --tp 4 'a b'\nf",
           "function g { local X=2; X=$((X+$1)); " + s + "$X; }\nX=9\ng 3\n" + s + "$X",
           "set -- a 'b c' d\nshift\n" + s + "\"$@\" \"${@:2}\" $#",
           "for i in 1 2; do for j in a b; do [ $j = b ] && continue; " + s + "$i$j; done; done",
           "for ((i=0; i<3; i++)); do " + s + "$i; done",
           "for i in {2..4}; do " + s + "$i; done",
           "i=0\nwhile [ $i -lt 3 ]; do " + s + "$i; i=$((i+1)); done",
           "i=0\nwhile true; do " + s + "$i; let i+=1; [ $i -ge 2 ] && break; done",
           "i=5\nuntil (( i <= 3 )); do (( i-- )); done\n" + s + "$i",
           "true && " + s + "1 || " + s + "2\nfalse && " + s + "3 || " + s + "4\n! false && " + s + "5",
           "[ 1 -eq 1 ] && [ a != b ] && " + s + "1\n[ -z '' -a ! x = y ] && " + s + "2\ntest -n a && " + s + "3",
           "[[ a < b && ( -z x || 2 -gt 1 ) ]] && " + s + "1\n[[ ! abc == a?c ]] || " + s + "2",
           "A=1\n( A=2; " + s + "$A )\n" + s + "$A\n{ A=3; }\n" + s + "$A",
           "A=1; echo x | { A=2; " + s + "$A; }\n" + s + "$A",
           "if false; then " + s + "1; fi\nexit 0\n" + s + "2",
           "f() { return; " + s + "1; }\nf\n" + s + "2",
           "CMD=(python3 -m sglang.launch_server --tp 8)\nprintf '%q ' \"${CMD[@]}\" >/dev/null\n\"${CMD[@]}\" &\nwait",
           "CMD='python3 -m sglang.launch_server --tp 8'\n$CMD --x\neval \"$CMD --y\"",
           "cat <<EOF >/dev/null\n" + s + "no\nEOF\n" + s + "yes",
           "cat <<-'EOF' >/dev/null\n\t" + s + "no\n\tEOF\n" + s + "$((1))",
           "# " + s + "no\necho '" + s + "no' >/dev/null\n" + s + "yes # no",
           s + "$'a\\tb' \"a\\\"b\" a\\ b ''x \"\" 'q'\"r\"s",
           "A='a b'\nB=$A\nC=\"$A c\"\n" + s + "$A \"$A\" $B \"$C\"",
           "A=x; A+=y; A+=\" z\"\n" + s + "\"$A\"",
           "unset A; A=1; unset A; export B=2\n" + s + "${A-none} $B",
           "if [ x = x ] && { [ 1 = 2 ] || [ 2 = 2 ]; }; then " + s + "1; fi",
           "x=5; if ! [ $x -gt 3 ]; then " + s + "1; else " + s + "2; fi",
           "a=(x y); for v in \"${a[@]}\" z; do " + s + "\"$v\"; done > /dev/stdout 2>&1",
       }) {
    CAPTURE(script);
    CHECK(by_us(script) == by_bash(script));
  }
}

TEST_CASE("shell: words of other commands start nothing") {
  for (const char* quiet :
       {"pkill -f 'python3 -m sglang.launch_server' || true", "echo 'usage: python3 -m sglang.launch_server --tp 8'",
        "printf '%s' \"python3 -m sglang.launch_server\"", "pgrep -af 'sglang serve'", "ps aux | grep 'sglang serve'",
        "git commit -m 'python3 -m sglang.launch_server is slow'", "trap 'pkill -f \"sglang serve\"' EXIT",
        "cat <<'EOF'\npython3 -m sglang.launch_server --tp 2\nEOF", "# python3 -m sglang.launch_server"}) {
    CAPTURE(quiet);
    CHECK_FALSE(find_servers(quiet));
    CHECK(by_us(std::string(quiet) + "\n" + kServer + "--tp 4") == "--tp|4|\n");
  }
}

TEST_CASE("shell: texts that other shells run") {
  for (const char* text :
       {"bash <<EOF\npython3 -m sglang.launch_server --tp 4\nEOF", "ssh host bash -s <<'EOF'\nsglang serve --tp 4\nEOF",
        "cat > run.sh <<'EOF'\npython3 -m sglang.launch_server \"$@\"\nEOF\nbash run.sh --tp 4",
        "cat > run.sh <<EOF\nsglang serve --tp 4\nEOF\nchmod +x run.sh\n./run.sh",
        "sbatch --wrap=\"srun python3 -m sglang.launch_server --tp 4\"", "tmux new -d 'sglang serve --tp 4'",
        "bash -c 'python3 -m sglang.launch_server --tp $1' _ 4", "eval 'sglang serve --tp 4'"}) {
    CAPTURE(text);
    CHECK(by_us(text) == "--tp|4|\n");
  }
}

TEST_CASE("shell: where the outside decides, every way is looked at and named") {
  using Lines = std::vector<std::string>;
  const std::string s = kServer;
  CHECK(conditions("if [ \"$ROLE\" = decode ]; then X=1; else X=2; fi\n" + s + "$X") ==
        Lines{"ROLE=decode: 1", "ROLE!=decode: 2"});
  CHECK(conditions("case $ROLE in prefill) " + s + "1;; decode|d) " + s + "2;; *) exit 1;; esac") ==
        Lines{"ROLE=prefill: 1", "ROLE=decode|d: 2"});
  // Decided once: the second test asks the same.
  CHECK(conditions("[ $R = a ] && X=1 || X=2\nif [ $R = a ]; then Y=3; else Y=4; fi\n" + s + "$X$Y") ==
        Lines{"R=a: 13", "R!=a: 24"});
  CHECK(conditions("if nvidia-smi | grep -q H200; then X=8; else X=4; fi\n" + s + "$X") ==
        Lines{"nvidia-smi | grep -q H200: 8", "not nvidia-smi | grep -q H200: 4"});
  // What changes nothing is not named, and a usage text is no way of its own.
  CHECK(conditions("if [ $# -lt 1 ]; then echo usage; exit 1; fi\n[ -d /x ] || mkdir /x\n" + s + "1") == Lines{": 1"});
  CHECK(conditions("if [ -n \"$DEBUG\" ]; then set -x; fi\n" + s + "1") == Lines{": 1"});
  CHECK(conditions("cd /x && exec " + s + "1") == Lines{": 1"});
  CHECK(conditions("if [[ -z $N ]]; then N=2; fi\n" + s + "--n $N") == Lines{"N=: --n 2", "N!=: --n $N"});
  std::string many;
  for (int i = 0; i < 8; ++i)
    many += "if [ $V" + std::to_string(i) + " = 1 ]; then X=$X" + std::to_string(i) + "; fi\n";
  const auto refused = find_servers(many + s + "--x $X");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("more than 64 ways") != std::string::npos);
}

TEST_CASE("shell: what surrounds the text fills its variables") {
  Environment env;
  env.set("TP", "8");
  env.set("ROLE", "decode");
  CHECK(by_us(kServer + "--tp $TP --dp ${TP:-2}", env) == "--tp|8|--dp|8|\n");
  CHECK(by_us("if [ $ROLE = decode ]; then X=1; else X=2; fi\n" + kServer + "$X", env) == "1|\n");
}

TEST_CASE("shell: what was not read is said") {
  const auto servers = find_servers("source env.sh\n" + kServer + "\"$@\" --tp 4 $EXTRA");
  REQUIRE(servers);
  CHECK(servers->front().command.unread == Words{"$@ in line 2", "$EXTRA in line 2"});
  CHECK(servers->front().command.argv == Words{"--tp", "4"});
  CHECK(servers->front().command.notes.front().message.find("env.sh is not read") != std::string::npos);
}

TEST_CASE("shell: every server has its line") {
  const auto servers = find_servers("x=1\n" + kServer + "--tp 1\n\nbash -c 'sglang serve --tp 2'\n");
  REQUIRE(servers);
  REQUIRE(servers->size() == 2);
  CHECK((*servers)[0].line == 2);
  CHECK((*servers)[1].line == 4);
}

TEST_CASE("shell: texts without bound end") {
  std::string deep, quotes, arithmetic = "$((";
  for (int i = 0; i < 50000; ++i) deep += "if true; then ", quotes += "\"$(", arithmetic += "(";
  for (const std::string& text :
       {deep, quotes, arithmetic, std::string("f() { f; f; }\nf\n"), "while true; do X=$((X+1)); done\n" + kServer,
        "for ((;;)); do X=x$X; done\n" + kServer, "X=1\nwhile true; do X=$X$X; done\n" + kServer,
        "f() " + std::string(100000, '('), "A[99999999]=1\n" + kServer + "$((1/0))",
        kServer + "$((2**2**2**2**2**2))"}) {
    CAPTURE(text.substr(0, 60));
    if (const auto servers = find_servers(text); !servers)
      CHECK(servers.error().message.find('\n') == std::string::npos);
  }
}

TEST_CASE("shell: patterns") {
  CHECK(matches_pattern("abc", "a*c"));
  CHECK(matches_pattern("abc", "a[a-c]?"));
  CHECK(matches_pattern("", "*"));
  CHECK_FALSE(matches_pattern("abc", "a[!b]c"));
  CHECK_FALSE(matches_pattern("abc", "ab"));
  CHECK_FALSE(matches_pattern(std::string(5000, 'a'), std::string(50, '*') + "b"));
}
