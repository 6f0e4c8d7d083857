// a2asim completion and a2asim man: what the program says of itself. The shells themselves read it in tests/package.
#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "model/engines/sglang/generation.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

std::vector<std::string> all_matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

// As --help lists them.
std::vector<std::string> command_names() {
  const std::string help = run({"--help"}).out;
  return all_matches(help.substr(help.find("Subcommands:")), std::regex("\n  ([a-z-]+) "));
}

}  // namespace

TEST_CASE("completion offers for --format what the command takes, no more and no less") {
  const std::string script = run({"completion", "bash"}).out;
  std::size_t commands = 0;
  for (const std::string& command : command_names()) {
    std::smatch found;
    if (!std::regex_search(script, found, std::regex(command + ":--format\\) takes=word values='([a-z ]*)'"))) continue;
    const Outcome refused = run({command, "--format", "?"}, "", true);
    CHECK(refused.exit_code == 2);
    std::smatch taken;
    if (!std::regex_search(refused.err, taken, std::regex("--format takes one of ([a-z, ]*), not"))) continue;  // merge
    ++commands;
    CHECK(std::regex_replace(taken[1].str(), std::regex(", "), " ") == found[1].str());
  }
  CHECK(commands >= 5);
}

// Whatever the program refuses with "takes one of" is completed with just these words.
TEST_CASE("completion offers the words of every option that takes one of several, and files only where a file goes") {
  const std::vector<std::string> shape = {"--num-experts", "8", "--top-k", "2", "--hidden-size", "64"};
  const std::string script = run({"completion", "bash"}).out;
  std::set<std::string> compared;
  const std::regex entry("    ([a-z-]+):(--[a-z-]+)[^)]*\\) takes=(file|word) values='([^']*)' ;;");
  for (std::sregex_iterator at(script.begin(), script.end(), entry), end; at != end; ++at) {
    const std::string command = (*at)[1], option = (*at)[2];
    if ((*at)[3].str() == "file") continue;  // it would be written
    std::vector<std::string> args = {command};
    if (command == "from-log" || command == "plan") args.insert(args.end(), shape.begin(), shape.end());
    if (command == "from-log") args.push_back("-");
    args.insert(args.end(), {option, "?"});
    const std::string refused = run(args, "").err;
    std::smatch taken;
    if (!std::regex_search(refused, taken, std::regex(option + " takes one of ([a-z0-9_, ]*), not"))) continue;
    compared.insert(command + ' ' + option);
    CHECK_MESSAGE(std::regex_replace(taken[1].str(), std::regex(", "), " ") == (*at)[4].str(), command, " ", option);
  }
  for (const char* wanted : {"plan --dispatch-dtype", "plan --combine-dtype", "plan --format", "from-log --missing"})
    CHECK_MESSAGE(compared.contains(wanted), wanted);
  for (const char* wanted : {"plan:--ep|plan:--ep-size|plan:--sweep-ep) takes=word ", "plan:--report) takes=file ",
                             "plan:--tokens|plan:--tokens-per-rank|plan:--sweep-tokens) takes=word ",
                             "from-log:--launch) takes=file ", "explore:--out) takes=file "})
    CHECK_MESSAGE(contains(script, wanted), wanted);
}

TEST_CASE("every command explains itself: an example or its way of working, and its exit codes") {
  const std::string page = std::regex_replace(run({"man"}).out, std::regex(R"(\\-)"), "-");
  for (const std::string& name : command_names()) {
    const std::string help = run({name, "--help"}).out;
    CHECK_MESSAGE(!contains(help, "tells about one command"), name);  // the program's own text
    CHECK_MESSAGE(contains(help, "Exit code"), name);
    const std::size_t begin = page.find(".SS a2asim " + name + ' ');
    REQUIRE(begin != std::string::npos);
    const std::string section = page.substr(begin, page.find(".SS ", begin + 1) - begin);
    CHECK_MESSAGE(contains(section, "Exit code"), name);
    CHECK_MESSAGE(!contains(section, "tells about one command"), name);
  }
}

TEST_CASE("completion knows every command and every version") {
  const std::vector<std::string> names = command_names();
  CHECK(names.size() >= 9);
  for (const char* shell : {"bash", "zsh"}) {
    const Outcome outcome = run({"completion", shell});
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.err.empty());
    for (const std::string& name : names) CHECK(contains(outcome.out, name));
    for (const Generation& generation : generations()) CHECK(contains(outcome.out, std::string(generation.name)));
  }
}

TEST_CASE("the manual page says of every option what --help says") {
  const Outcome page = run({"man"});
  CHECK(page.exit_code == 0);
  CHECK(page.out.rfind(".TH A2ASIM 1 ", 0) == 0);
  const std::string plain = std::regex_replace(page.out, std::regex(R"(\\-)"), "-");
  std::size_t options = 0;
  for (const std::string& name : command_names()) {
    CHECK(contains(plain, ".SS a2asim " + name + ' '));
    for (const std::string& option : all_matches(run({name, "--help"}).out, std::regex("\n  (--[a-z-]+) "))) {
      ++options;
      CHECK_MESSAGE(contains(plain, "\\fB" + option + "\\fR"), name, " ", option);
    }
  }
  CHECK(options > 30);
  for (const std::string& line : all_matches(page.out, std::regex("\n([.'][^\n]*)")))
    CHECK_MESSAGE(std::regex_match(line, std::regex(R"(\.(TP|PP|nf|fi|TH .*|SH .*|SS .*))")), line);
}

TEST_CASE("completion and man: what cannot be used is one line and exit code 2") {
  const std::vector<std::vector<std::string>> cases = {
      {"completion"}, {"completion", "fish"}, {"completion", "bash", "zsh"}, {"man", "check"}, {"man", "--", "x"}};
  for (const auto& arguments : cases) {
    const Outcome outcome = run(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}

}  // namespace a2asim
