// What check says of servers made by hand, to the line: one screen, --verbose, several servers, annotations, JUnit.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/engines/sglang/generation.h"
#include "tests/cli/run.h"
#include "tools/check/check_formats.h"

namespace a2asim {
namespace {

CheckFinding text_finding(Severity severity, Phase phase, std::string message) {
  CheckFinding finding;
  finding.kind = FindingKind::geometry_disagreement;
  finding.severity = severity;
  finding.phase = phase;
  finding.message = std::move(message);
  return finding;
}

// Four ranks, of which two are alike and one raises.
CheckFinding full_finding() {
  CheckFinding finding = text_finding(Severity::error, Phase::graph_decode, "ranks use R = [2, 1, 1, -]");
  finding.consequence = "NaN or garbage";
  finding.chain = {"--a 1", "so the list is gone"};
  finding.any_of = {{"--a", "not set", "1"}, {"--long-name", "set", "no"}};
  finding.fix = "remove --a";
  finding.witness = CheckWitness{
      {2, 1, 1, 30}, {"DECODE", "DECODE", "DECODE", "IDLE"}, {2, 1, 1, std::nullopt}, {"graph", "eager", "eager", "-"}};
  return finding;
}

CheckReport full_report() {
  CheckReport report;
  report.verdict = Verdict::disagrees;
  report.generation = find_generation("pr30450")->generation;
  report.backend = "flashinfer";
  report.topology.tp_size = 8;
  report.topology.dp_size = 4;
  report.topology.ep_size = 8;
  report.topology.attn_tp_size = 2;
  report.topology.moe_dense_tp_size = 1;
  report.topology.enable_dp_attention = true;
  report.capacity = Capacity{1024, 14400, 14336, 0, 3 << 20};
  report.capacity_source = "VARIABLE=1024";
  report.workspace_known = true;
  report.findings = {full_finding(), text_finding(Severity::warning, Phase::prefill, "the second"),
                     text_finding(Severity::note, Phase::start, "the third")};
  return report;
}

const std::string kFullHead =
    "DISAGREES: some batches make ranks use different buffer sizes: expect NaN or wrong output\n"
    "  all-to-all flashinfer; tp 8, dp 4, ep 8, attn_tp 2, moe_dense_tp 1, DP attention\n"
    "  cap max_num_tokens 1024 per rank, workspace 3.0 MiB per rank; VARIABLE=1024\n";

const std::string kFullFinding =
    "error: geometry_disagreement in graph_decode\n"
    "  what      ranks use R = [2, 1, 1, -]\n"
    "  fix       remove --a\n"
    "  batch     DP rank  mode    tokens  path        R\n"
    "            0        DECODE       2  graph       2\n"
    "            1..2     DECODE       1  eager       1\n"
    "            3        IDLE        30  -      raised\n"
    "  hardware  NaN or garbage\n"
    "  why       --a 1\n"
    "              any one of   needed   yours\n"
    "              --a          not set  1\n"
    "              --long-name  set      no\n"
    "            so the list is gone\n";

CheckedServer text_server(CheckReport report, const std::string& path, std::size_t line) {
  CheckedServer server{std::move(report), "", line, ""};
  server.source = {CommandSource::Kind::file, path};
  server.version_reason = "--sglang";
  return server;
}

CheckReport with_verdict(Verdict verdict) {
  CheckReport report = full_report();
  report.verdict = verdict;
  report.findings.clear();
  return report;
}

}  // namespace

TEST_CASE("check text: the whole of a report, on one screen and with --verbose") {
  CHECK(check_as_text(full_report(), {}) ==
        kFullHead + kFullFinding + "warning: prefill: the second\nnote: the third\n");
  CHECK(check_as_text(full_report(), {.verbose = true}) ==
        kFullHead + "\n" + kFullFinding +
            "\nwarning: geometry_disagreement in prefill\n  what      the second\n"
            "\nnote: geometry_disagreement at start\n  what      the third\n");
}

TEST_CASE("check text: parts that a report has not are not said") {
  CheckReport report = with_verdict(Verdict::agrees);
  report.topology.attn_tp_size = 1;
  report.topology.moe_dense_tp_size.reset();
  report.topology.enable_dp_attention = false;
  report.workspace_known = false;
  const std::string first = "AGREES: no batch found for which buffer sizes differ or exceed the cap\n";
  const std::string layout = "  all-to-all flashinfer; tp 8, dp 4, ep 8\n";
  CHECK(check_as_text(report, {}) ==
        first + layout +
            "  cap max_num_tokens 1024 per rank, workspace unknown without the model's shape; VARIABLE=1024\n");
  report.capacity.reset();
  CHECK(check_as_text(report, {}) == first + layout + "  VARIABLE=1024\n");
  report.capacity_source = "";
  CHECK(check_as_text(report, {}) == first + layout);
  report.topology.attn_cp_size = 2;
  CHECK(check_as_text(report, {}) == first + "  all-to-all flashinfer; tp 8, dp 4, ep 8, attn_cp 2\n");
  report.backend = "";
  CHECK(check_as_text(report, {}) == first);
  report = with_verdict(Verdict::rejected);  // it never takes its memory
  CHECK(check_as_text(report, {}) ==
        "REJECTED: the engine refuses to start with this configuration\n"
        "  all-to-all flashinfer; tp 8, dp 4, ep 8, attn_tp 2, moe_dense_tp 1, DP attention\n");
}

TEST_CASE("check text: the first line follows the verdict and what stands below it") {
  const auto first_line = [](Verdict verdict, std::vector<CheckFinding> findings) {
    CheckReport report;
    report.verdict = verdict;
    report.findings = std::move(findings);
    const std::string text = check_as_text(report, {});
    return text.substr(0, text.find("\nerror:"));
  };
  CheckFinding bytes = text_finding(Severity::error, Phase::prefill, "x"), cap = bytes, nodes = bytes;
  bytes.kind = FindingKind::unsanitized_padding;
  cap.kind = FindingKind::static_cap;
  cap.severity = Severity::warning;
  nodes.kind = FindingKind::nodes_differ;
  const std::string agrees = "no batch found for which buffer sizes differ or exceed the cap";
  CHECK(first_line(Verdict::agrees, {bytes}) == "AGREES on sizes, yet bytes go wrong: " + agrees);
  CHECK(first_line(Verdict::agrees, {cap}) ==
        "AGREES: " + agrees + " below what the warning names\nwarning: static_cap in prefill\n  what      x\n");
  cap.severity = Severity::note;
  CHECK(first_line(Verdict::agrees, {cap}).starts_with("AGREES: " + agrees + "\nnote: "));
  CHECK(first_line(Verdict::disagrees, {nodes}) == "DISAGREES: the commands of the nodes do not go together");
  const std::string sizes = "DISAGREES: some batches make ranks use different buffer sizes: expect NaN or wrong output";
  CHECK(first_line(Verdict::disagrees, {nodes, text_finding(Severity::error, Phase::prefill, "x")}) == sizes);
  nodes.severity = Severity::note;
  CHECK(first_line(Verdict::agrees, {nodes}).starts_with("AGREES: " + agrees + "\nnote: "));
  CHECK(first_line(Verdict::disagrees, {}) == sizes + "\n");  // the finding is one that does not count
  CHECK(first_line(Verdict::over_capacity, {}) == "OVER_CAPACITY: the flags allow a batch above the cap\n");
  CHECK(first_line(Verdict::out_of_scope, {}) ==
        "OUT_OF_SCOPE: no all-to-all with fixed buffers is in use, so there is no size to agree on\n");
}

TEST_CASE("check text: colours follow the verdict and the severity") {
  const auto coloured = [](CheckReport report) { return check_as_text(report, {.colour = true}); };
  CHECK(coloured(with_verdict(Verdict::agrees)).starts_with("\x1b[1;32mAGREES\x1b[0m: "));
  CHECK(coloured(with_verdict(Verdict::out_of_scope)).starts_with("\x1b[1mOUT_OF_SCOPE\x1b[0m: "));
  for (const Verdict bad : {Verdict::disagrees, Verdict::over_capacity, Verdict::rejected})
    CHECK(coloured(with_verdict(bad)).starts_with("\x1b[1;31m"));
  CheckReport report = with_verdict(Verdict::agrees);
  for (const auto& [severity, start] : {std::pair(Severity::error, "\n\x1b[1;31merror\x1b[0m: "),
                                        {Severity::warning, "\n\x1b[1;33mwarning\x1b[0m: "}}) {
    report.findings = {text_finding(severity, Phase::prefill, "x")};
    CHECK(contains(coloured(report), start));
  }
  CHECK(coloured(report).starts_with("\x1b[1;32mAGREES"));  // a warning is no error
  report.findings = {text_finding(Severity::error, Phase::prefill, "x")};
  CHECK(coloured(report).starts_with("\x1b[1;31mAGREES"));
}

TEST_CASE("check text: a batch of many groups shows four and says how many more") {
  CheckReport report = full_report();
  for (const std::size_t groups : {5, 6, 9}) {
    CheckWitness witness;
    for (std::size_t rank = 0; rank < groups; ++rank) {
      witness.tokens_per_dp_rank.push_back(static_cast<std::int64_t>(rank));
      witness.modes.emplace_back("DECODE");
      witness.paths.emplace_back("eager");
      witness.runtime_max_tokens_per_rank.emplace_back(rank);
    }
    report.findings = {text_finding(Severity::error, Phase::eager_decode, "x")};
    report.findings[0].witness = witness;
    const std::string text = check_as_text(report, {});
    std::size_t rows = 0;
    for (std::size_t at = text.find("  DECODE"); at != std::string::npos; at = text.find("  DECODE", at + 1)) ++rows;
    CHECK(rows == (groups == 5 ? 5 : 4));
    CHECK(contains(text, ".. " + std::to_string(groups - 4) + " more, see --verbose") == (groups > 5));
  }
}

TEST_CASE("check text: several servers are a block each, and a line that counts them") {
  CheckedServer good = text_server(with_verdict(Verdict::agrees), "a.sh", 3);
  good.name = "decode";
  good.condition = "ROLE=decode";
  CheckedServer ignored = text_server(full_report(), "a.sh", 9);
  ignored.ignored = {"known"};
  CheckedServer open = text_server(CheckReport{}, "b.sh", 1);
  open.undecided = Error{ErrorKind::bad_input, "cannot be read"};
  const std::vector<CheckedServer> all = {good, text_server(full_report(), "a.sh", 7), ignored, open};
  const std::string version = ", sglang pr30450 (--sglang)\n";
  const std::string agrees = "AGREES: no batch found for which buffer sizes differ or exceed the cap\n";
  const std::string disagrees =
      "DISAGREES: some batches make ranks use different buffer sizes: expect NaN or wrong output\n";
  const std::string second = "== a.sh:7" + version + disagrees +
                             "  error: geometry_disagreement: ranks use R = [2, 1, 1, -]\n  fix: remove --a\n";
  const std::string third = "== a.sh:9" + version + disagrees;
  const std::string last = "== b.sh:1\nNOT DECIDED: cannot be read\n";
  const std::string count = "2 files, 4 servers: 1 agrees, 2 disagree, 1 not decided\n";
  CHECK(check_as_text(all, {}) == "== a.sh:3 decode, if ROLE=decode" + version + agrees + second + third +
                                      "  warning: geometry_disagreement: the second\n"
                                      "  ignored: geometry_disagreement (known)\n" +
                                      last + count);
  CHECK(check_as_text(all, {.quiet = true}) ==
        second + "  warning: geometry_disagreement: the second\n" + last + count);
  CHECK(check_as_text(std::vector{good}, {.quiet = true}) == "");
}

TEST_CASE("check text: counts have their number, and are left out where they are none") {
  const auto counts = [](const std::vector<Verdict>& verdicts, std::size_t undecided = 0) {
    std::vector<CheckedServer> servers;
    for (const Verdict verdict : verdicts) servers.push_back({with_verdict(verdict), "", 0, ""});
    for (; undecided > 0; --undecided) {
      servers.push_back({CheckReport{}, "", 0, ""});
      servers.back().undecided = Error{ErrorKind::bad_input, "x"};
    }
    return summary(servers);
  };
  using enum Verdict;
  CHECK(counts({}) == "0 servers");
  CHECK(counts({agrees}) == "1 server: 1 agrees");
  CHECK(counts({agrees, agrees}) == "2 servers: 2 agree");
  CHECK(counts({disagrees}) == "1 server: 1 disagrees");
  CHECK(counts({disagrees, disagrees, agrees}) == "3 servers: 1 agrees, 2 disagree");
  CHECK(counts({out_of_scope, rejected, over_capacity}) ==
        "3 servers: 1 above the cap, 1 refused by the engine, 1 out of scope");
  CHECK(counts({}, 2) == "2 servers: 2 not decided");
  CHECK(counts({agrees}, 1) == "2 servers: 1 agrees, 1 not decided");
}

TEST_CASE("check text: the worst verdict of all, those without one left out") {
  using enum Verdict;
  const std::vector<Verdict> order = {rejected, disagrees, over_capacity, agrees, out_of_scope};
  for (std::size_t at = 0; at < order.size(); ++at) {
    std::vector<CheckedServer> servers;
    for (std::size_t other = order.size(); other-- > at;) servers.push_back({with_verdict(order[other]), "", 0, ""});
    CHECK(worst_verdict(servers) == order[at]);
    servers.push_back({with_verdict(rejected), "", 0, ""});
    servers.back().undecided = Error{ErrorKind::bad_input, "x"};
    CHECK(worst_verdict(servers) == order[at]);
  }
}

TEST_CASE("check text: what the outside decides and comes to the same is one answer") {
  CheckedServer first = text_server(with_verdict(Verdict::agrees), "a.sh", 3);
  first.condition = "ROLE=decode";
  CheckedServer other = text_server(with_verdict(Verdict::agrees), "a.sh", 5);
  other.condition = "ROLE=prefill";
  other.is_alternative = true;
  CheckedServer third = other;
  third.condition = "else";
  third.line = 7;
  const std::string same = "the same verdict if ROLE=prefill (line 5); else (line 7)\n1 file, 3 servers: 3 agree\n";
  const auto text = [](std::vector<CheckedServer> servers, TextStyle style = {}) {
    return check_as_text(servers, style);
  };
  const std::string one = text({first, other, third});
  CHECK(one.starts_with("a.sh:3, if ROLE=decode, sglang "));
  CHECK(one.ends_with(same));
  other.report.verdict = Verdict::out_of_scope;
  CHECK(text({first, other, third}).starts_with("== a.sh:3"));
  other = third;
  other.is_alternative = false;
  CHECK(text({first, other, third}).starts_with("== a.sh:3"));
  other = third;
  other.source.path = "b.sh";
  CHECK(text({first, other, third}).starts_with("== a.sh:3"));
  other = third;
  other.report.findings = {text_finding(Severity::warning, Phase::prefill, "x")};
  CHECK(text({first, other}).ends_with("the same verdict if else (line 7)\n1 file, 2 servers: 2 agree\n"));
  CHECK(text({first, other}, {.strict = true}).starts_with("== a.sh:3"));
  other.report.findings[0].severity = Severity::error;
  CHECK(text({first, other}).starts_with("== a.sh:3"));
}

TEST_CASE("check text: of alternatives that cure, all are the fix, and else its words") {
  CheckedServer server = text_server(full_report(), "a.sh", 1);
  const auto tried = [](const char* name, std::optional<Verdict> verdict, bool cures) {
    return TriedFix{{{FixStep{FixStep::What::remove_flag, name, {}}}}, verdict, cures};
  };
  CHECK(fix_words(server, 0) == "remove --a");
  CHECK(fix_words(server, 1) == "");
  server.fixes = {{tried("--x", Verdict::agrees, true), tried("--y", Verdict::disagrees, false),
                   tried("--z", std::nullopt, false)}};
  CHECK(fix_words(server, 0) == in_words(server.fixes[0][0].fix) + ", or " + in_words(server.fixes[0][2].fix));
  CHECK(contains(fix_words(server, 0), "--x"));
  server.fixes[0] = {server.fixes[0][1]};
  CHECK(fix_words(server, 0) == "remove --a");
}

TEST_CASE("check github: each finding that counts with its place, and a server without a verdict") {
  CheckedServer server = text_server(full_report(), "a.sh", 4);
  server.words = {{7, 3, 8, 9, {}}};
  CheckedServer typed{full_report(), "", 0, ""};
  typed.report.findings.resize(1);
  typed.report.findings[0].consequence = "";
  typed.report.findings[0].fix = "";
  CheckedServer open{CheckReport{}, "", 0, ""}, open_file = text_server(CheckReport{}, "b,c.sh", 0);
  open.undecided = open_file.undecided = Error{ErrorKind::bad_input, "100%: no\nshape"};
  const std::string error = "title=a2asim%3A geometry_disagreement::Ranks use R = [2, 1, 1, -].";
  const std::string warning = " file=a.sh,line=4,title=a2asim%3A geometry_disagreement::The second.\n";
  const std::string expected = "::error file=a.sh,line=7,endLine=8,col=3,endColumn=9," + error +
                               "%0AOn hardware: NaN or garbage.%0AFix: remove --a.\n";
  const std::string rest = "::error " + error + "\n" + "::error title=a2asim: not decided::100%25: no%0Ashape\n" +
                           "::error file=b%2Cc.sh,line=1,title=a2asim: not decided::100%25: no%0Ashape\n" +
                           "2 files, 4 servers: 2 disagree, 2 not decided\n";
  const std::vector<CheckedServer> all = {server, typed, open, open_file};
  CHECK(check_as_github(all, false) == expected + "::warning" + warning + rest);
  CHECK(check_as_github(all, true) == expected + "::error" + warning + rest);
  server.ignored = {"known", "known"};
  CHECK(check_as_github(std::vector{server}, true) == "1 file, 1 server: 1 disagrees\n");
}

TEST_CASE("check junit: a suite a file, a case a server, failures and errors counted in both") {
  CheckedServer wrong = text_server(full_report(), "a.sh", 4), warned = text_server(full_report(), "a.sh", 8);
  warned.ignored = {"known"};
  CheckedServer open = text_server(CheckReport{}, "b.sh", 1);
  open.undecided = Error{ErrorKind::bad_input, "no shape"};
  const std::vector<CheckedServer> all = {wrong, warned, open};
  const std::string text = check_as_junit(all, false);
  CHECK(contains(text, "tests=\"3\" failures=\"1\" errors=\"1\""));
  CHECK(contains(text, "tests=\"2\" failures=\"1\" errors=\"0\""));
  CHECK(contains(text, "tests=\"1\" failures=\"0\" errors=\"1\""));
  const std::string strict = check_as_junit(all, true);
  CHECK(contains(strict, "tests=\"3\" failures=\"2\" errors=\"1\""));
  CHECK(contains(strict, "tests=\"2\" failures=\"2\" errors=\"0\""));
}

}  // namespace a2asim
