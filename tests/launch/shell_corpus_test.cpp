// Scripts as people write them, and their rarer relatives, each read on paper and run by bash itself.
#include "tests/launch/shell_words.h"

using namespace a2asim;

namespace {

// S: the words that start a server.
void check_corpus(const std::vector<std::string>& scripts) {
  if (!test::has_bash()) return test::skip("no bash");
  for (std::string script : scripts) {
    for (std::size_t at = 0; (at = script.find("@S", at)) != std::string::npos;)
      script.replace(at, 2, "python3 -m sglang.launch_server");
    CAPTURE(script);
    const std::string expected = test::by_bash(script);
    CHECK(expected.size() > 1);
    CHECK(test::by_us(script) == expected);
  }
}

}  // namespace

TEST_CASE("shell corpus: classes and ranges of patterns") {
  std::vector<std::string> scripts;
  for (const std::string_view name : {"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
                                      "space", "upper", "word", "xdigit"}) {
    std::string script =
        "y=; for c in a f g z A F G Z 0 9 _ - '!' '~' ' ' $'\\t' / : @ '[' '`' '{'; do case $c in ([[:";
    script += std::string(name) + ":]]) y+=1;; (*) y+=0;; esac; done; @S --a $y";
    scripts.push_back(script);
    scripts.push_back("x=a1-B_2; @S --a \"${x//[^[:" + std::string(name) + ":]]/.}\"");
  }
  check_corpus(scripts);
  check_corpus({
      "case b in [a-c]) @S --a 1;; *) @S --a 2;; esac",
      "case d in [a-c]) @S --a 1;; *) @S --a 2;; esac",
      "case - in [a-]) @S --a 1;; *) @S --a 2;; esac",
      "case ] in []a]) @S --a 1;; *) @S --a 2;; esac",
      "case a in [!a]) @S --a 1;; ?) @S --a 2;; esac",
      "case ab in ?) @S --a 1;; ?[b]) @S --a 2;; esac",
      "case ab in a*b) @S --a 1;; esac",
      "case 'a*b' in 'a*b') @S --a 1;; esac",
      "case acb in 'a*b') @S --a 1;; *) @S --a 2;; esac",
      "case x in a|x) @S --a 1;; esac",
      "case x in x) @S --a 1;& y) @S --a 2;; z) @S --a 3;; esac",
      "case x in x) @S --a 1;;& y) @S --a 2;;& ?) @S --a 3;; esac",
  });
}

TEST_CASE("shell corpus: quotes and escapes") {
  check_corpus({
      R"(@S --a "a\$b\"c\\d\`e\f" 'x\y' \z)",
      "@S --a ''\"\"b'c'\"d\"e",
      "@S --a \\\n 1",
      "@S --a a\\\nb",
      "@S --a 'a\nb'",
      "@S --a # --b\n",
      "@S --a b#c",
      "@S --a {1,2}x --b {a..c} --c {1..7..3} --d {c..a} --e x{,y} --f {1} --g {a,b{c,d}}",
      "@S --a {01..03} --b {5..1..2} --c '{1,2}' --d {-1..1}",
  });
}

TEST_CASE("shell corpus: parameters") {
  check_corpus({
      "x=abcdef; @S --a ${x:2} ${x:2:2} ${x: -2} ${x:1:-1} ${x:0:0}z ${x:6}z ${#x}",
      "x=abcabc; @S --a ${x#a} ${x#*b} ${x##*b} ${x%c} ${x%b*} ${x%%b*} ${x#z} ${x%z}",
      "x=abcabc; @S --a ${x/b/X} ${x//b/X} ${x/#a/X} ${x/%c/X} ${x/#b/X} ${x/%b/X} ${x//b} ${x/[bc]/X}",
      "unset x; @S --a ${x:-1} ${x-2} ${x:+3}z ${x+4}z; x=; @S --b ${x:-1} ${x-2}z ${x:+3}z ${x+4}; x=5; @S --c "
      "${x:-1} ${x-2} ${x:+3} ${x+4}",
      "unset x y; @S --a ${x:=1} $x ${y=2} $y; y=; @S ${y=3}z ${y:=4} $y",
      "x=y y=5; @S --a ${!x}",
      "x=y y=abc; @S --a ${!x:1} ${!x/b/c} ${!x:-q}",
      "a=(p q r); @S --a ${a[1]} ${a[-1]} ${#a[@]} ${a[@]:1} ${a[@]:0:2} ${a[@]: -1} ${!a[@]} ${a} ${#a[1]}",
      "a=(p q); a+=(r); a[5]=s; @S --a ${a[@]} ${!a[@]} ${#a[@]}",
      "a=('x y' z); @S --a \"${a[@]}\" \"${a[*]}\" ${a[*]}",
      "a=('x y' z); IFS=,; @S --a \"${a[*]}\"",
      "a=(x.1 y.2); @S --a ${a[@]%.*} ${a[@]/./-} ${a[@]^^}",
      "a=(1 2 3); unset 'a[1]'; @S --a ${a[@]} ${!a[@]}",
      "declare -A m=([k]=1 [l]=2); @S --a ${m[k]} ${m[l]} ${#m[@]}",
      "declare -A m=(k 1 l 2); @S --a ${m[k]} ${m[l]}",
      "set -- a 'b c' d; @S --a $# $1 \"$2\" \"$@\" \"$*\" ${@:2} ${@:2:1} ${!#} ${#2}",
      "set -- a b c; shift; @S --a $1 $#; shift 2; @S --b $#",
      "set -- -x y; @S --a $1 $2",
      "f() { local x=1; g; }; g() { @S --a $x; x=2; }; x=0; f; @S --b $x",
      "x=1; (x=2; @S --a $x); @S --b $x",
      "x=1; { x=2; @S --a $x; }; @S --b $x",
      "x=1 y=2; unset x; @S --a ${x}z $y",
      "readonly x=3; @S --a $x",
      "declare -i n=2+3; n+=4; @S --a $n",
      "n=2; n+=4; @S --a $n",
      "declare -u v=abc; declare -l w=ABC; @S --a $v $w",
      "export A=1 B='2 3'; @S --a $A \"$B\" $B",
      "x='a b'; @S --a $x \"$x\" x$x\"$x\"y",
      "IFS=:; x=a:b::c; @S --a $x",
      "x='  a  b  '; @S --a $x",
      "x=5; y=x; @S --a ${y}_$x ${x}th $x-th",
  });
}

TEST_CASE("shell corpus: arithmetic") {
  check_corpus({
      "@S --a $((1+2*3)) $(((1+2)*3)) $((7/2)) $((-7/2)) $((7%3)) $((-7%3)) $((2**10)) $((2**3**2))",
      "@S --a $((5<<2)) $((20>>2)) $((6&3)) $((6|3)) $((6^3)) $((~5)) $((!5)) $((!0)) $((-(-3))) $((+3))",
      "@S --a $((1<2)) $((2<2)) $((2<=2)) $((3>2)) $((2>2)) $((2>=2)) $((2==2)) $((2!=2)) $((1&&0)) $((1||0))",
      "@S --a $((1?2:3)) $((0?2:3)) $((0?1:0?2:3)) $((1,2))",
      "x=3; @S --a $((x)) $(($x)) $((x++)) $x $((++x)) $x $((x--)) $((--x)) $x",
      "x=3; @S --a $((x+=2)) $((x-=1)) $((x*=3)) $((x/=2)) $((x%=4)) $((x<<=3)) $((x>>=1)) $((x|=1)) $((x&=6)) "
      "$((x^=5)) $x",
      "x=3 y=x; @S --a $((y+1)) $((x=y=7)) $x $y",
      "a=(4 5); i=1; @S --a $((a[1])) $((a[i]+a[0])) $((a[0]++)) ${a[0]}",
      "((x=4)); let y=x+1 z=y*2; @S --a $x $y $z",
      "((0)) && @S --a 1 || @S --b 2",
      "((3>2)) && @S --a 1",
      "let 0 || @S --a 1",
      "x=5; if ((x>3 && x<7)); then @S --a 1; fi",
      "for ((i=0;i<3;i++)); do @S --a $i; done",
      "w=; for ((i=3;i;i--)); do w+=$i; done; @S --a $w",
      "n=0; for ((;;)); do ((n++)); ((n>2)) && break; done; @S --a $n",
      "@S --a $[1+2]",
      "@S --a $((  1 +\n 2 ))",
      "x=08; @S --a $((10#$x+1))",
  });
}

TEST_CASE("shell corpus: tests and conditions") {
  std::vector<std::string> scripts;
  for (const std::string_view condition : {"[ -n a ]",
                                           "[ -n '' ]",
                                           "[ -z '' ]",
                                           "[ -z a ]",
                                           "[ a = a ]",
                                           "[ a = b ]",
                                           "[ a != b ]",
                                           "[ a == a ]",
                                           "[ a ]",
                                           "[ '' ]",
                                           "[ ]",
                                           "[ 1 -eq 1 ]",
                                           "[ 1 -ne 1 ]",
                                           "[ 1 -lt 2 ]",
                                           "[ 2 -lt 2 ]",
                                           "[ 2 -le 2 ]",
                                           "[ 3 -gt 2 ]",
                                           "[ 2 -gt 2 ]",
                                           "[ 2 -ge 2 ]",
                                           "[ 1 -ge 2 ]",
                                           "[ ! a ]",
                                           "[ ! '' ]",
                                           "[ a -a b ]",
                                           "[ a -a '' ]",
                                           "[ '' -o b ]",
                                           "[ '' -o '' ]",
                                           "[ \\( a \\) ]",
                                           "[ a \\< b ]",
                                           "[ b \\> a ]",
                                           "test a = a",
                                           "test a = b",
                                           "[[ a == a ]]",
                                           "[[ a != a ]]",
                                           "[[ ab == a* ]]",
                                           "[[ ab == 'a*' ]]",
                                           "[[ a < b ]]",
                                           "[[ b < a ]]",
                                           "[[ a > b ]]",
                                           "[[ -n a && -z '' ]]",
                                           "[[ -n '' || -z '' ]]",
                                           "[[ ! -n a ]]",
                                           "[[ ( a == b ) || c == c ]]",
                                           "[[ 3 -lt 10 ]]",
                                           "[[ 3 < 10 ]]",
                                           "[[ abc =~ b ]]",
                                           "[[ abc =~ ^b ]]",
                                           "[[ abc =~ c$ ]]",
                                           "[[ a1 =~ ^[a-z][0-9]+$ ]]",
                                           "true",
                                           "false",
                                           ":",
                                           "! false",
                                           "! true",
                                           "true && false",
                                           "false || true",
                                           "(exit 0)",
                                           "(exit 3)",
                                           "{ false; }",
                                           "x=1"})
    scripts.push_back("if " + std::string(condition) + "; then @S --a yes; else @S --a no; fi");
  check_corpus(scripts);
  check_corpus({
      "if false; then @S --a 1; elif true; then @S --a 2; else @S --a 3; fi",
      "if false; then @S --a 1; elif false; then @S --a 2; else @S --a 3; fi",
      "true && true && @S --a 1 || @S --a 2",
      "x=; [ -z \"$x\" ] && x=7; @S --a $x",
      "x=2; [ $x = 1 ] || [ $x = 2 ] && @S --a $x",
      "! [ a = b ] && @S --a 1",
      "set -e; false || true; @S --a 1",
      "set -e; if false; then :; fi; @S --a 1",
      "set -u; x=1; @S --a ${x} ${y:-2}",
      "set -o pipefail; true | false || @S --a 1",
      "false | true && @S --a 1",
      "exit() { :; }; @S --a 1",
      "@S --a 1; exit 0; @S --a 2",
      "@S --a 1; return 0 2>/dev/null; @S --a 2",
  });
}

TEST_CASE("shell corpus: loops, functions and reading") {
  check_corpus({
      "for x in a b; do @S --a $x; done",
      "w=; for x in a b c d; do [ $x = b ] && continue; [ $x = d ] && break; w+=$x; done; @S --a $w",
      "w=; for x in 1 2; do for y in 1 2 3; do [ $y = 2 ] && continue 2; w+=$x$y,; done; done; @S --a $w",
      "w=; for x in 1 2; do for y in 1 2 3; do [ $y = 2 ] && break 2; w+=$x$y,; done; done; @S --a $w",
      "w=; set -- p q; for x; do w+=$x; done; @S --a $w",
      "w=; set -- p q; for x do w+=$x; done; @S --a $w",
      "n=0; while [ $n -lt 3 ]; do n=$((n+1)); done; @S --a $n",
      "n=0; until [ $n -ge 3 ]; do ((n+=1)); done; @S --a $n",
      "w=; n=3; while ((n--)); do w+=$n; done; @S --a $w",
      "w=; a=(1 2 3); for i in ${!a[@]}; do w+=$i${a[i]}; done; @S --a $w",
      "w=; for i in $(seq 3); do w+=$i; done; @S --a $w",
      "w=; for i in $(seq 2 4); do w+=$i; done; @S --a $w",
      "w=; for i in $(seq 6 -2 1); do w+=$i; done; @S --a $w",
      "w=; for i in {1..3}; do w+=$i; done; @S --a $w",
      "function f { x=$1; }; f 5; @S --a $x",
      "function f() { x=$1; }; f 6; @S --a $x",
      "w=; f() { [ $# -eq 0 ] && return; w+=$1; shift; f \"$@\"; }; f a b c; @S --a $w",
      "read x y <<< 'a b c'; @S --a $x --b \"$y\"",
      "read -r x <<< 'a\\b'; @S --a \"$x\"",
      "IFS=, read -r x y z <<< 'a,b,c'; @S --a $x $y $z",
      "read -a a <<< 'p q r'; @S --a ${a[2]} ${#a[@]}",
      "IFS=: read -ra a <<< 'p:q'; @S --a ${a[1]}",
      "w=; while read x; do w+=$x; done <<< $'a\\nb'; @S --a $w",
      "w=; while IFS== read -r k v; do w+=$v; done <<E\nx=1\ny=2\nE\n@S --a $w",
      "mapfile -t a <<< $'p\\nq'; @S --a ${a[1]} ${#a[@]}",
      "w=; while getopts ab:c o; do w+=$o$OPTARG; done; @S --a \"$w\"z",
      "w=; set -- -a -b 5 q; while getopts ab: o; do w+=$o$OPTARG; done; shift $((OPTIND-1)); @S --a $w $1",
      "set -- --tp 4 --x; while [ $# -gt 0 ]; do case $1 in --tp) t=$2; shift 2;; --x) u=1; shift;; *) shift;; esac; "
      "done; @S --a $t $u",
      "set -- --tp=4; for a in \"$@\"; do case $a in --tp=*) t=${a#*=};; esac; done; @S --a $t",
      "eval 'x=3'; @S --a $x",
      "n=x; eval \"$n=4\"; @S --a $x",
      "c=\"@S --a 1\"; $c",
      "c=(@S --a '1 2'); \"${c[@]}\"",
      "c=\"@S\"; c=\"$c --a 1\"; eval \"$c\"",
      "@S --a 1 & wait",
      "@S --a 1 | cat",
      "@S --a 1 > >(cat)",
      "{ @S --a 1; } 2>&1 | cat",
      "(cd /; @S --a 1)",
      "builtin; @S --a 1",
      "command; @S --a 1",
      "builtin cd /; @S --a 1",
      "builtin set -- q; @S --a $1",
      "command -v bash >/dev/null && @S --a 1",
      "time @S --a 1",
      "env A=1 true; @S --a 1",
      "A=1 B=2 @S --a 1",
      "trap 'echo x' USR1; @S --a 1",
  });
}

TEST_CASE("shell corpus: what a server depends on is said as it is written") {
  for (const std::string condition : {"foo -x", "{ foo -x; }", "(foo -x)", "foo | bar", "! foo", "foo && bar",
                                      "[ -d /x ]", "[[ -f y ]]", "foo arg 'two words' $X", "((x > 2))"}) {
    CAPTURE(condition);
    std::string said = condition;
    if (said.ends_with("; }")) said.erase(said.size() - 3, 1);
    const std::vector<std::string> expected = {said + ": --a", "not " + said + ": --b"};
    const std::string server = "python3 -m sglang.launch_server ";
    CHECK(test::conditions("if " + condition + "; then " + server + "--a; else " + server + "--b; fi") == expected);
  }
}
