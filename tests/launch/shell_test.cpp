#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/launch/launch_file.h"
#include "model/launch/shell_pattern.h"
#include "tests/launch/shell_words.h"

using namespace a2asim;
using test::by_bash, test::by_us, test::conditions, test::has_bash, test::kServer, test::Words;

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

TEST_CASE("shell: declarations, fields, patterns and loops are read as bash reads them") {
  if (!has_bash()) return test::skip("needs bash");
  const std::string s = kServer;
  for (const std::string& script : std::vector<std::string>{
           "declare -i N=2+3; N+=4; typeset -i M; M=N*2\n" + s + "$N $M",
           "declare -u U=aBc; declare -l L=aBc; U+=d\n" + s + "$U $L",
           "f() { declare X=in; local Y; local -a A=(p q); typeset -g G=1; " + s +
               "$X \"${A[@]}\" x$Y; }\n"
               "X=out Y=out A=(z)\nf\n" +
               s + "$X $Y \"${A[@]}\" $G",
           "declare \"V=a b\"; export E=\"$V\" W; readonly R=1\n" + s + "\"$E\" $R",
           "A=([2]=x [0]=y z)\nA[7]=w; A[-1]+=v\nunset A[0] 'A[2]'\n" + s + "\"${A[@]}\" \"${!A[@]}\" ${#A[@]} ${A[7]}",
           "A=(a b); A=w; A+=(c); A+=d\n" + s + "\"${A[@]}\" $A",
           "A=(one \"two x\" abc)\n" + s +
               "\"${A[@]^^}\" \"${A[@]%e}\" \"${A[@]/o/0}\" \"${A[*]: -2}\" \"${A[@]:9}\" end",
           "declare -A M=([a]=1 [b]=2); unset 'M[a]'; M[\"c d\"]=3; M[b]+=x\n" + s +
               "${#M[@]} ${M[b]} \"${M[c d]}\" x${M[a]}",
           "IFS=,; V='a,b,,c d,'; A=(x y)\n" + s + "$V \"${A[*]}\" ${A[*]}\nunset IFS\n" + s + "$V",
           "IFS=' ,'; V=' a , b,c'\n" + s + "$V\nIFS=\n" + s + "$V",
           "IFS=, read -r P Q <<< 'a,b,c'; read -ra L <<< ' --tp 4 '; read -r X Y <<< \" 1  2 \"\n" + s +
               "\"$P\" \"$Q\" \"${L[@]}\" \"$X\" \"$Y\"",
           "while read -r h n; do " + s + "$h \"$n\"; done <<EOF\na 1 2\nb\nEOF",
           "mapfile -t L <<< $'a b\\nc'\n" + s + "\"${L[@]}\" ${#L[@]}",
           "X=b\ncase $X in a) " + s + "1;; b) " + s + "2;& c) " + s + "3;;& *) " + s + "4;; d) " + s + "5;; esac",
           "case 'a*' in \"a*\") " + s + "1;; esac\ncase ab in \"a*\") " + s + "2;; a\\*) " + s + "3;; [[:alpha:]]b) " +
               s + "4;; esac",
           "V=v0.5.12\nif [[ $V =~ ^v[0-9]+\\.[0-9]\\.1[0-9]$ && ! $V =~ 'v.*' ]]; then " + s +
               "1; fi\n[[ abc =~ b ]] && " + s + "2",
           "E=; W='a b'\n[ -n $E ] && " + s + "1\n[ $W != x ] || " + s + "2\n[ x -eq 1 ] || " + s +
               "3\n[ ! -z a ] && " + s + "4",
           "E=; A=()\n" + s +
               "\"${E:-\"a b\"}\" ${E:-a b} ${E:-\"c d\"} \"${A[@]+\"${A[@]}\"}\" \"${A[@]}\" x\"${A[@]}\"",
           s + "{a,b{1..3}}x '{a,b}' {} {x} ${HOME:+}h{01..10..4} {c..a}{,y}",
           "V=abc\n" + s +
               "${V: -9} x ${V:1:-1} ${V:5}x ${V//[ab]/-} \"${V/#a/'q'}\" ${#V} $[1 + 2] $\"t\" $'\\x41\\'\\\\'",
           "N=010; W=2+3; i=1\n" + s +
               "$((N)) $((W*2)) $((i++ + ++i)) $i $((i=7, i-1)) $((0 && (i=9))) $i $((i>5?1:2))",
           "A=(4 5); i=0\n(( A[i+1] += 2, i++ ))\nlet 'i = i * 10' j=3\n" + s + "${A[@]} $i $j",
           "f() { " + s + "$X \"$@\"; }\nX=1; X=2 f a; " + s + "$X\nX=3 command true; " + s + "$X",
           "f() { return 1; }\nf || " + s + "1\nf && " + s + "2\nif ! f; then " + s + "3; fi",
           "set -e\nf() { [ a = b ] && true; " + s + "1; }\nf\nif false; then :; fi\nfalse || " + s + "2\nfalse\n" + s +
               "3",
           "set -euo pipefail\n((i=0)) || true\n" + s + "1\n((i++))\n" + s + "2",
           "for a in 1 2 3; do for b in x y; do [ $a = 2 ] && continue 2; [ $a = 3 ] && break 2; " + s +
               "$a$b; done; done",
           "set -- -t 4 -x --verbose; while getopts 't:x' o; do case $o in t) T=$OPTARG;; x) X=1;; *) B=1;; esac; "
           "done\n" +
               s + "$T $X $B $OPTIND",
           "f() { while [ $# -gt 0 ]; do case $1 in --tp) T=$2; shift 2;; *) shift;; esac; done; " + s +
               "$T; }\nf a --tp 8 b",
           "set a b c; shift 2; " + s + "$# $1\nset --\n" + s + "$#",
           "eval 'X=5'; Y=X; eval \"Z=\\$$Y\"\n" + s + "$X $Z ${!Y}",
           "X=1\n{ X=2; } &\nwait\n" + s + "$X",
           "trap '" + s + "bye' EXIT\n" + s + "1",
           "for i in 1 2; do ( trap '" + s + "bye $i' EXIT; exit 1 ); " + s + "$i; done",
           "unset F; F() { " + s + "F; }; unset -f F; F; X=a; unset X; " + s + "x$X ${X-u}",
           "for i in $(seq 1 2) $(echo a b); do " + s + "$i; done",
           "cat <(echo x) > >(cat >/dev/null) 2> >(cat >/dev/null); " + s + "1 > >(cat) {log}>/dev/null",
           "cat <<EOF | bash\n" + s + "--j \"{\\\"a\\\":1}\"\nEOF",
           "printf '%s' x >/dev/null; return 1 2>/dev/null; " + s + "1",
       }) {
    CAPTURE(script);
    CHECK(by_us(script) == by_bash(script));
  }
}

TEST_CASE("shell: a substitution may start a server, too") {
  CHECK(by_us("PID=$(" + kServer + "--tp 8 >log 2>&1 & echo $!)\n" + kServer + "2") == "--tp|8|\n2|\n");
  CHECK(by_us("P=$(pgrep -f 'python3 -m sglang.launch_server'); Q=\"$(ps | grep 'sglang serve')\"\n" + kServer + "2") ==
        "2|\n");
}

TEST_CASE("shell: exec takes the place of the shell that runs it") {
  CHECK(by_us("exec " + kServer + "1 &\nwait\nexec " + kServer + "2\n" + kServer + "3") == "1|\n2|\n");
  CHECK(by_us("trap '" + kServer + "bye' EXIT\nexec >log\nexec " + kServer + "1") == "1|\n");
}

TEST_CASE("shell: what only a running shell knows stays open, or is refused in one line") {
  const auto said = [](const std::string& script) {
    const auto servers = find_servers(script);
    if (!servers) return servers.error().message;
    std::string out;
    for (const LaunchedServer& server : *servers)
      out += server.condition + ":" + (server.command.unread.empty() ? "" : server.command.unread.front()) + ";";
    return out;
  };
  const std::string s = kServer;
  CHECK(said("printf -v V '%d' 8\n" + s + "$V") == ":$V in line 2;");
  CHECK(said("read -r V < file\n" + s + "$V") == ":$V in line 2;");
  CHECK(said("V=1\nfor h in $(cat hosts); do V=$((V+1)); done\n" + s + "$V") == ":$V in line 3;");
  CHECK(said("A=($(cat flags))\n" + s + "${A[1]} ${#A[@]}") == ":${A[1]} in line 2;");
  CHECK(said("select R in a b; do break; done\nif [ $R = a ]; then X=1; else X=2; fi\n" + s + "$X") == "R=a:;R=b:;");
  CHECK(said("[[ $U -gt 3 ]] && exit 0\n" + s + "1") == ":;");
  CHECK(said("[[ abc =~ ^(a|x)bc ]] && X=1 || X=2\n" + s + "$X").find("=~ ^(a|x)bc") != std::string::npos);
  CHECK(said("X+=b\n" + s + "$X") == ":$Xb in line 2;");
  CHECK(said("RANDOM=4\n" + s + "$RANDOM") == ":$RANDOM in line 2;");
  CHECK(said("export P\n" + s + "${P:-4} $P") == ":$P in line 2;");
  CHECK(said("coproc { " + s + "1; }") == ":;");
  for (const auto& [script, why] : std::vector<std::pair<std::string, std::string>>{
           {"shopt -s nocasematch", "shopt nocasematch"},
           {"declare -n R=X", "a second name of a variable"},
           {"export -f f", "hands a function to other shells"},
           {"readonly X=1; X=2", "is read-only"},
           {"case a in @(a|b)) X=1;; esac", "are not read"},
           {"A[1 + 1]=x", "write an index without blanks"},
           {"A[\"1\n2\" ]=x", "A[\"1\\n2\" is not read: write an index"},
           {"for i in {1..5000}; do :; done", "braces"},
           {"X=0; while true; do X=$((X+1)); done", "more than 4096 times"},
           {": ${X:=}; : ${X:?}", "is empty"},
           {"f() { f; }; f", "call each other"},
           {"eval 'eval \"if\"'", "has no end"},
           {"B=x+; echo $((B))", "no number"},
       }) {
    CAPTURE(script);
    CHECK(said(script + "\n" + s + "1").find(why) != std::string::npos);
    CHECK(said(script + "\n" + s + "1").find('\n') == std::string::npos);
  }
}

TEST_CASE("shell: source takes what stands beside the text") {
  const auto beside = [](std::string_view path) -> std::optional<std::string> {
    if (path != "./env.sh") return std::nullopt;
    return "TP=8\nserve() { " + kServer + "--tp $TP \"$@\"; }\nreturn 0\nTP=1\n";
  };
  const auto servers = find_servers("source ./env.sh\nserve --dp $TP\n", {}, beside);
  REQUIRE(servers);
  REQUIRE(servers->size() == 1);
  CHECK(servers->front().command.argv == Words{"--tp", "8", "--dp", "8"});
  CHECK(servers->front().command.notes.empty());
  for (const char* folder : {"$(dirname \"$0\")", "$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)",
                             "$( cd -- \"$( dirname -- \"${BASH_SOURCE[0]}\" )\" &> /dev/null && pwd )",
                             "$(dirname $(readlink -f $0))"}) {
    CAPTURE(folder);
    const auto found = find_servers("D=\"" + std::string(folder) + "\"\n. $D/env.sh\nserve --dp 2\n", {}, beside);
    REQUIRE(found);
    CHECK(found->front().command.argv == Words{"--tp", "8", "--dp", "2"});
  }
  const auto missing = find_servers(". ./other.sh\n" + kServer + "--tp 8", {}, beside);
  REQUIRE(missing);
  CHECK(missing->front().command.notes.front().message.find("is not read") != std::string::npos);
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
  // A wait is walked once, however it ends; what a check of a variable leaves is kept.
  CHECK(conditions("for i in {1..600}; do\n if curl -s x; then echo up; break; fi\n sleep 1\ndone\n" + s + "1") ==
        Lines{": 1"});
  CHECK(conditions("if [ \"$R\" != a ]; then echo usage; exit 1; fi\n" + s + "$R") == Lines{": a"});
  CHECK(conditions("f() { if grep x y; then return 0; fi; return 1; }\nf && X=1 || X=2\n" + s + "$X").size() == 2);
  std::string many;
  for (int i = 0; i < 8; ++i)
    many += "if [ $V" + std::to_string(i) + " = 1 ]; then X=$X" + std::to_string(i) + "; fi\n";
  const auto refused = find_servers(many + s + "--x $X");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("more than 64 ways") != std::string::npos);
  CHECK(refused.error().message.find("such as V0=1") != std::string::npos);
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
  CHECK(servers->front().command.unread == Words{"$EXTRA in line 2", "$@ in line 2"});
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
  CHECK(matches_pattern("a*", "a\\*"));
  CHECK_FALSE(matches_pattern("ab", "a\\*"));
  CHECK(matches_pattern("7]", "[[:digit:]][]x]"));
  CHECK(matches_pattern("[a", "[a"));
  CHECK_FALSE(matches_pattern(std::string(5000, 'a'), std::string(50, '*') + "b"));
}
