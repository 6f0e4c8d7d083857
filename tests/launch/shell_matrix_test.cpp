// Shell texts read on paper, against bash itself: every operator with operands around its edges.
#include <doctest/doctest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/launch/launch_file.h"
#include "tests/launch/shell_words.h"

using namespace a2asim;
using test::by_bash, test::has_bash, test::kServer;
using Texts = std::vector<std::string>;

namespace {

std::string words_by_us(const std::string& script) {
  const auto servers = find_servers(script, {});
  if (!servers) return servers.error().message;
  std::string out;
  for (const LaunchedServer& server : *servers) {
    if (!server.condition.empty()) out += "depends on " + server.condition + ": ";
    for (const std::string& word : server.command.unread) out += "not read: " + word;
    for (const std::string& word : server.command.argv) out += word + "|";
    out += "\n";
  }
  return out;
}

void check_as_bash(const std::string& script) {
  const std::string expected = by_bash(script);
  CAPTURE(script);
  CHECK(expected.size() > 1);
  CHECK(words_by_us(script) == expected);
}

std::string replaced(std::string text, std::string_view mark, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += with.size())
    text.replace(at, mark.size(), with);
  return text;
}

// Each form with each A, and each B, in place of these letters.
Texts filled(const Texts& forms, const Texts& of_a, const Texts& of_b = {""}) {
  Texts out;
  for (const std::string& form : forms)
    for (const std::string& a : of_a)
      for (const std::string& b : of_b) out.push_back(replaced(replaced(form, "@B", b), "@A", a));
  return out;
}

// One server that gets all of them as words.
std::string as_words(std::string setup, const Texts& words) {
  setup += kServer;
  for (const std::string& word : words) setup += word + ' ';
  return setup + '\n';
}

// One server that gets, of each command in turn, whether it succeeds.
std::string as_verdicts(const Texts& commands) {
  std::string out = "X=v\n";
  for (const std::string& command : commands) out += command + " && X+=y || X+=n\n";
  return out + kServer + "$X\n";
}

const Texts kBinary = {
    "+", "-", "*", "/", "%", "**", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&", "^", "|", "&&", "||"};

}  // namespace

TEST_CASE("shell: arithmetic: every operator with operands around its edges, as bash computes it") {
  if (!has_bash()) return test::skip("needs bash");
  const Texts numbers = {"-9", "-2", "-1", "0", "1", "2", "3", "62"};
  for (const std::string& op : kBinary) {
    const Texts right = op == "/" || op == "%"                   ? Texts{"-9", "-1", "1", "2", "3"}
                        : op == "**" || op == "<<" || op == ">>" ? Texts{"0", "1", "2", "3", "62"}
                                                                 : numbers;
    check_as_bash(as_words("", filled({"$((@A " + op + " @B))"}, numbers, right)));
    check_as_bash(as_words("", filled({"$((7 " + op + " 3 @A 2))", "$(((7 " + op + " 3) @A 2))"}, kBinary)));
    if (op.size() == 1 && op != "<" && op != ">")
      check_as_bash(as_words("x=1\n", filled({"$((x = @A, x " + op + "= @B, x))"}, numbers, right)));
  }
  check_as_bash(as_words("", filled({"$((!@A))", "$((~@A))", "$((- @A))", "$((+ @A))", "$((!!@A))", "$((-~@A))",
                                     "$((! @A + 1))", "$((-(@A)))", "$((@A ? 10 : 20))", "$((@A ? @A ? 1 : 2 : 3))"},
                                    numbers)));
  check_as_bash(as_words("x=5\n", {"$((x++))", "$x", "$((++x))", "$x", "$((x--))", "$x", "$((--x))", "$x", "$((--5))",
                                   "$((x <<= 2))", "$((x >>= 1))", "$((x++ + ++x))", "$x"}));
  check_as_bash(as_words("x=5\n", filled({"$((@A && (x = 9), x))", "$((x = 5, @A || (x = 8), x))",
                                          "$((x = 5, @A ? (x = 1) : (x = 2), x))"},
                                         {"0", "1", "-1"})));
  check_as_bash(as_words("", {"$((0x1F))", "$((0X1f))", "$((010))", "$((2#101))", "$((10#08))", "$((16#fF))",
                              "$((36#z))", "$((8#17))", "$((9223372036854775807 + 1))", "$((-9223372036854775807 - 2))",
                              "$((9223372036854775807 * 3))", "$((3 ** 41))", "$((0))", "$(( ))"}));
  check_as_bash(as_words("V=5; W=V; A=(4 5 6)\n", {"$((W + 1))", "$((A[1]))", "$((A[V-4] * 2))", "$((A[1]++))",
                                                   "${A[1]}", "$((A[2] += 3, A[2]))", "${A[@]}"}));
}

TEST_CASE("shell: comparisons and their combinations succeed where bash's do") {
  if (!has_bash()) return test::skip("needs bash");
  const Texts numbers = {"-1", "0", "1", "2", "10"}, words = {"''", "a", "ab", "b", "'a b'"};
  const Texts orders = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
  for (const std::string& op : orders)
    check_as_bash(as_verdicts(
        filled({"[ @A " + op + " @B ]", "[[ @A " + op + " @B ]]", "test @A " + op + " @B"}, numbers, numbers)));
  check_as_bash(as_verdicts(filled({"[ @A = @B ]", "[ @A == @B ]", "[ @A != @B ]", "[[ @A = @B ]]", "[[ @A == @B ]]",
                                    "[[ @A != @B ]]", "[[ @A < @B ]]", "[[ @A > @B ]]"},
                                   words, words)));
  check_as_bash(as_verdicts(
      filled({"[ @A ]", "[[ @A ]]", "test @A", "[ -z @A ]", "[ -n @A ]", "[[ -z @A ]]", "[[ -n @A ]]", "[ ! @A ]",
              "[ ! -z @A ]", "[ ! ! @A ]", "[ '(' @A ')' ]", "[[ ! @A ]]", "[[ ( @A ) ]]", "[ ! '(' @A ')' ]"},
             words)));
  check_as_bash(
      as_verdicts(filled({"[ @A -a @B ]", "[ @A -o @B ]", "[ ! @A -a @B ]", "[[ @A && @B ]]", "[[ @A || @B ]]",
                          "[[ ! @A || @B ]]", "[[ ! ( @A && @B ) ]]", "[[ @A && @B || a ]]", "[[ a && @A || @B ]]",
                          "[[ '' || @A && @B ]]", "[ @A = @A -a @B = b ]", "[ @A = a -o @B = b -a '' ]"},
                         {"''", "a", "b"}, {"''", "a", "b"})));
  check_as_bash(as_verdicts({"[ ]", "test", "[ -z ]", "[ -n ]", "[ a b ]", "[ a = ]", "[ a b c ]", "[ -eq -eq -eq ]",
                             "[ x -eq 1 ]", "[ 1 -eq '' ]", "[ -a ]", "[ ! ]", "[ = ]", "[ -n = ]", "[ a -a b -a c ]",
                             "[ a = a -a b = b -o c = d ]"}));
  check_as_bash("V=; W=x\n" +
                as_verdicts({"[ -v V ]", "[ -v W ]", "[[ -v W ]]", "[ $V = x ]", "[ $V ]", "[ -n $V ]", "[ $W ]"}));
  check_as_bash(
      as_verdicts(filled({"((@A))", "((@A > 0))", "let @A", "! ((@A))", "! [ @A -gt 0 ]"}, {"-1", "0", "1"})));
  for (const Texts& values = {"true", "false"}; const std::string& a : values)
    for (const std::string& b : values)
      for (const std::string& c : values)
        check_as_bash(
            as_verdicts({"{ " + a + " && " + b + " || " + c + "; }", "{ " + a + " || " + b + " && " + c + "; }",
                         "( " + a + "; " + b + " )", "! " + a, "{ if " + a + "; then " + b + "; else " + c + "; fi; }",
                         "{ while " + a + "; do " + b + "; break; done; }"}));
}

TEST_CASE("shell: every operation on a parameter gives what it gives in bash") {
  if (!has_bash()) return test::skip("needs bash");
  const Texts operations = {"",        ":-d",    "-d",    ":+s",      "+s",          "#a",    "##*/",   "#*/",   "%.*",
                            "%%.*",    "%c",     "#?",    "%?",       "##*",         "%%*",   "#[a-b]", "%[!c]", "##a*",
                            "%%b*",    "/a/x",   "//a/x", "//[ab]/-", "/#a/x",       "/%c/x", "/b",     "//b",   "/b/",
                            "//\\//_", "/a*c/x", "/*/x",  "/?/..",    "^",           "^^",    ",",      ",,",    "/ /_",
                            "//./",    "/#/x",   "#'a'",  "%\"c\"",   "/\"a\"/'b c'"};
  const Texts values = {"unset V", "V=", "V=abc", "V='a b'", "V=aBcB", "V=a/b/c.tar.gz", "V='*a*'", "V=c"};
  for (const std::string& value : values) {
    Texts words = filled({"\"${V@A}\"", "x${V@A}"}, operations);
    words.insert(words.end(), {"${#V}", "\"${V:=new}\"", "\"$V\"", "\"${V=newer}\"", "\"$V\""});
    check_as_bash(as_words("set -f\nV=abc; unset V\n" + value + "\n", words));
  }
  const Texts offsets = {"0", "1", "2", "3", "4", " -1", " -2", " -3", " -9", "1+1"};
  check_as_bash(as_words(
      "V=abc\n",
      filled({"\"x${V:@A}\"", "\"x${V:@A:0}\"", "\"x${V:@A:1}\"", "\"x${V:@A:2}\"", "\"x${V:@A:9}\""}, offsets)));
  check_as_bash(as_words("V=abcdef\n", {"${V:0:-1}", "${V:1:-2}", "${V: -3:-1}", "${V: -2:1}", "x${V:3:-3}"}));
  const Texts of_lists = {"",       ":1",   ":0:1", ":1:1", ":2",   ":3",    ":9",   ": -1",
                          ": -2:1", ":0:9", "%e",   "#t",   "/o/0", "//e/_", "^",    "^^",
                          ",,",     ":-d",  "-d",   ":+s",  "+s",   "##*",   "/#/<", "%%[eo]*"};
  for (const std::string& setup :
       Texts{"A=(one two 'three x')", "A=()", "A=('')", "A=([3]=three [7]=seven [9]='')", "A=(One)"})
    check_as_bash(as_words(setup + std::string("\n"), [&] {
      Texts words = filled({"\"${A[@]@A}\"", "\"<${A[*]@A}>\"", "x${A[@]@A}"}, of_lists);
      words.insert(words.end(), {"${#A[@]}", "\"${!A[@]}\"", "\"x${A[0]}\"", "\"x${A[1]-no}\"", "${#A[0]}", "\"x$A\""});
      return words;
    }()));
  check_as_bash(as_words("set -- one 'two x' three\n",
                         filled({"\"${@@A}\"", "\"<${*@A}>\""},
                                {"", ":1", ":1:1", ":2", ":3:1", ":4", ": -1", "%e", "/o/0", "^", ":-d", ":+s"})));
  check_as_bash(
      as_words("set -- one '' three\nset -f\n", {"$#", "$1", "\"$2\"", "x$2", "$3", "\"$4\"", "${1}0", "$10", "\"$*\"",
                                                 "$*", "$@", "${#1}", "${4-none}", "${2-none}", "${2:-none}"}));
  check_as_bash(as_words("declare -A M=([k]=v ['a b']=w [n]=)\n",
                         {"${M[k]}", "\"${M[a b]}\"", "x${M[n]}", "x${M[no]}", "${#M[@]}", "${M[k]:-d}", "${M[n]:-d}",
                          "${M[no]-d}", "${M[n]-d}", "${M[k]^^}"}));
  check_as_bash(as_words("V=W; W='a b'; I=1; A=(x y)\n", {"\"${!V}\"", "${!V}", "\"${!V%b}\"", "${A[I]}", "${A[$I]}",
                                                          "${A[I-1]}", "${A[-1]}", "${A[-2]}"}));
}

TEST_CASE("shell: patterns and regular expressions match what they match in bash") {
  if (!has_bash()) return test::skip("needs bash");
  const Texts texts = {"''", "a", "b",     "ab",  "abc", "aab",   "'a*c'", "'a]c'",
                       "A",  "1", "'a b'", "'['", "-",   "'a.c'", "'a$'"};
  const Texts patterns = {"*",
                          "?",
                          "a*",
                          "*c",
                          "a?c",
                          "[a-b]*",
                          "[!a]*",
                          "[^a]*",
                          "[[:digit:]]",
                          "[[:upper:]]*",
                          "[[:alpha:][:digit:]]",
                          "[a-]",
                          "[]a]*",
                          "a\\*c",
                          "'a*c'",
                          "\"a\"*",
                          "[ab][bc]*",
                          "*b*",
                          "**",
                          "a\\ b",
                          "*]*",
                          "[a",
                          "?*",
                          "*?b",
                          "[!-]",
                          "[[:lower:]]?[[:space:][:lower:]]*"};
  check_as_bash(as_verdicts(filled({"[[ @A == @B ]]", "[[ @A != @B ]]"}, texts, patterns)));
  std::string cases = "X=v\n";
  for (const std::string& one : filled({"case @A in @B) X+=y;; *) X+=n;; esac\n"}, texts, patterns)) cases += one;
  check_as_bash(cases + kServer + "$X\n");
  check_as_bash(as_verdicts(
      filled({"[[ @A =~ @B ]]"}, texts,
             {"^a",  "b$",    "^abc$", "a.c", "a+",    "^a+b$",          "b*",    "ab?c", "^[a-c]+$", "[^a]", "a\\*c",
              "\\$", "[0-9]", ".",     "^.$", "'a*c'", "^[[:alpha:]]*$", "a\\.c", "^b?a", "a[]]c"})));
}

TEST_CASE("shell: braces, quotes and fields give the words that they give in bash") {
  if (!has_bash()) return test::skip("needs bash");
  check_as_bash(
      as_words("", {"{1..3}",       "{3..1}",     "{1..7..3}", "{7..1..3}",    "{1..3..-1}", "{a..e..2}",
                    "{c..a}",       "{X..Z}",     "{01..3}",   "{-1..1}",      "{1..010}",   "{a,b}{c,d}",
                    "{a,{b,c}}",    "{,x}",       "x{,y}",     "{x}",          "{a..}",      "{1..a}",
                    "{1..2}{a..b}", "'{a,b}'",    "\\{a,b}",   "{a,b",         "a,b}",       "{a\\,b,c}",
                    "{'a,b',c}",    "{$((1)),2}", "{1..1}",    "{5..5..2}",    "{a,b,}",     "{aa..c}",
                    "{a..cc}",      "{1..3..0}",  "{_..a}",    "pre{1,2}post", "{{a,b},c}",  "{a,b}{1..2}{x,y}"}));
  check_as_bash(
      as_words("set -f\n", {"$'\\a\\b\\e\\f\\n\\r\\t\\v\\\\\\'\\\"\\?'", "$'\\101\\x41\\x4a\\7'", "$'a\\qb'", "$'x'y",
                            "\"a\\$b\\`c\\\\d\\ae\\\"f\"", "a\\ b\\\\c", "''", "\"\"", "x''y", "'a'\"b\"c", "\"it's\"",
                            "'say \"x\"'", "a#b", "\"a b\"c' d'", "$\"t\"", "$'\\x4x'", "$'\\1018'", "\\a", "a\\\nb"}));
  for (const std::string& ifs : Texts{"", "IFS=,\n", "IFS=', '\n", "IFS=\n", "IFS=x\n", "unset IFS\n", "IFS=:,\n"})
    for (const std::string& value : Texts{"a,b,,c d,", " , a , b", "", "  ", ",", "axbxx c", "a:b,c::d"})
      check_as_bash("set -f\n" + ifs +
                    as_words("V='" + value + "'; A=(p 'q r' '')\n",
                             {"start", "$V", "x${V}y", "\"$V\"", "x$V", "$V$V", "\"${A[*]}\"", "${A[@]}", "${A[*]}"}));
  for (const std::string& line : Texts{"a b c d", "a", "", "  a  b  ", "a,b c"})
    for (const std::string& how :
         Texts{"read -r P Q", "read -r P", "read -r P Q R S T", "IFS=, read -r P Q", "read P Q", "read -r -a L"})
      check_as_bash("P=1 Q=2; L=()\n" + how + " <<< '" + line + "'\nS=$?\n" +
                    as_words("", {"\"$P\"", "\"$Q\"", "\"${L[@]}\"", "${#L[@]}"}));
  check_as_bash("read -r <<< ' a b '\nmapfile -t L <<< $'a b\\nc'\nmapfile M <<< $'x\\ny'\n" +
                as_words("", {"\"$REPLY\"", "\"${L[@]}\"", "${#L[@]}", "\"${M[@]}\""}));
}

TEST_CASE("shell: what the shell does itself changes what it changes in bash") {
  if (!has_bash()) return test::skip("needs bash");
  for (const std::string& count : Texts{"", " 0", " 1", " 2", " 3", " 4"})
    check_as_bash("set -- a 'b c' d\nshift" + count + "\nR=$#\n" + as_words("", {"$R", "\"$@\"", "$1"}));
  for (const std::string& words :
       Texts{"-- a b", "a b", "--", "-e", "-e -- x", "-eu x", "+e y", "-o errexit z", "- q", "-- -a -b"})
    check_as_bash("set -- old one\nset " + words + "\n" + as_words("", {"$#", "\"$@\""}));
  for (const std::string& arguments : Texts{"", "-a", "-b v", "-bv", "-ab v -c", "-a x -b v", "-- -a", "-b", "-z",
                                            "-a -z -a", "- -a", "-cab w rest", "-:"})
    for (const std::string& known : Texts{"ab:c", ":ab:c"})
      check_as_bash("set -- " + arguments + "\nW=\nwhile getopts '" + known +
                    "' o; do W+=\"$o=${OPTARG-none};\"; done\nshift $((OPTIND - 1))\n" +
                    as_words("", {"\"$W\"", "$OPTIND", "\"$o\"", "\"$@\""}));
  for (const std::string& flags : Texts{"-i", "-u", "-l", "-a", "-x", "-ix", "--", "-iu", "+x"})
    check_as_bash("declare " + flags + " V=2; V+=3; declare W; W=aB\nf() { local " + flags +
                  " V=7; V+=1; local W=in Z; W+=x; " + as_words("", {"\"$V\"", "\"$W\"", "x$Z"}) + "}\nZ=out\nf\n" +
                  as_words("", {"\"$V\"", "\"$W\"", "$Z"}));
  check_as_bash("declare -i N=2*3; N=N+1; declare -u U=abC; U+=d; declare -l L=ABc; L+=D; readonly R=1; export E=2\n" +
                as_words("", {"$N", "$U", "$L", "$R", "$E"}));
  check_as_bash("A=(a b c d); unset 'A[1]' A[2]; B=1; unset B; declare -A M=([x]=1 [y]=2); unset 'M[x]'\n" +
                as_words("", {"\"${A[@]}\"", "\"${!A[@]}\"", "${#A[@]}", "${B-gone}", "${#M[@]}", "x${M[x]}${M[y]}"}));
  check_as_bash("A=(a); A+=(b 'c d'); A[5]=f; A+=(g); A[1]+=x; A[0]=; B=(\"${A[@]}\" z); C=([2]=q r [1]=s)\n" +
                as_words("", {"\"${A[@]}\"", "\"${!A[@]}\"", "\"${B[@]}\"", "\"${C[@]}\"", "\"${!C[@]}\""}));
  for (const std::string& jump :
       Texts{"break", "break 1", "break 2", "break 3", "continue", "continue 1", "continue 2"})
    check_as_bash("X=v\nfor a in 1 2 3; do for b in 1 2 3; do [ $a$b = 22 ] && " + jump +
                  "; X+=,$a$b; done; X+=.; done\n" + kServer + "$X\n");
  for (const std::string& code : Texts{"", " 0", " 1", " 255", " 256", " 2"})
    check_as_bash("X=v\nf() { " + std::string(code.empty() ? "true; return" : "return" + code) +
                  "; X+=behind; }\nf && X+=y || X+=n\n( exit" + (code.empty() ? " 0" : code) + " ) && X+=y || X+=n\n" +
                  kServer + "$X\n");
  check_as_bash(
      "X=1; f() { X=2; local Y=3; g; }; g() { X+=$Y; Y=4; }; Y=0; f; X+=$Y\n( X+=sub; Y=9 )\nX+=$Y\n{ X+=group; }\n" +
      kServer + "$X\n");
  check_as_bash(
      "i=0; X=v; while ((i < 5)); do ((i++)); [ $i -eq 2 ] && continue; [ $i -eq 4 ] && break; X+=$i; done\n"
      "until ((i == 0)); do ((i--)); X+=$i; done; for ((j = 3; j; j--)); do X+=j$j; done\n"
      "for w in a 'b c' {1..2} $(seq 2); do X+=\"<$w>\"; done; for w in; do X+=never; done\n" +
      kServer + "\"$X\" $i $j\n");
  check_as_bash("X=v; for w in a b; do case $w in a) X+=1;& b) X+=2;;& *) X+=3;; c) X+=4;; esac; done\n" + kServer +
                "$X\n");
  check_as_bash("eval 'X=1;' 'Y=2'; V='Z=3'; eval \"$V\"; eval; P=1 Q=2; P=3 true; f() { R=$P; }; P=4 f\n" +
                as_words("", {"$X", "$Y", "$Z", "$P", "$Q", "$R"}));
  check_as_bash("set -e; X=1; false || X=2; if false; then X=3; fi; ! true; false && X=4\n" + kServer + "$X\nfalse\n" +
                kServer + "never\n");
}
