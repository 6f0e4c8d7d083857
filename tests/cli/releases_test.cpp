// A launch by release, and before and after an upgrade: what the text, JSON and the page say, to the line.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/launches.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

Outcome by_release(const std::string& range, const std::string& launch, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"check", "--sglang", range});
  more.emplace_back("--");
  return run(with_words(std::move(more), launch));
}

// Both launches of one file: the first collapses, the second divides nothing evenly and never starts.
struct TwoLaunches {
  const TemporaryFile file{"two.sh", kCollapsing + "\n" + kAgreeing + " --tp 3\n"};
};

std::string tags_of(const std::string& page, const std::string& tag) {
  std::string out;
  for (std::size_t at = page.find("<" + tag); at != std::string::npos; at = page.find("<" + tag, at + 1))
    out += page.substr(at, page.find("</" + tag + ">", at) - at) + "\n";
  return out;
}

}  // namespace

TEST_CASE("releases: the table has a row for each answer, numbers to the right, and a finding with where it is") {
  const Outcome one = by_release("v0.5.14..v0.5.15.post1", kCollapsing);
  CHECK(one.exit_code == kErrorFound);
  CHECK(one.out ==
        "command line: sglang by release (cap and workspace per rank)\n"
        "Runs without an error: v0.5.14.\n"
        "release                   verdict      cap  workspace  first finding\n"
        "v0.5.14                   agrees     4,096  576.7 MiB  -\n"
        "pr29461 (main)            disagrees  4,096  576.7 MiB  geometry_disagreement in graph decode\n"
        "v0.5.15 to v0.5.15.post1  disagrees  4,096  898.7 MiB  geometry_disagreement in graph decode\n");
  // Sizes that agree over bytes that do not: an error all the same.
  const Outcome bytes = by_release("..v0.5.12", kAgreeing);
  CHECK(bytes.exit_code == kErrorFound);
  CHECK(bytes.out ==
        "command line: sglang by release (cap and workspace per rank)\n"
        "Runs without an error: v0.5.12 to v0.5.12.post1.\n"
        "release                   verdict                cap  workspace  first finding\n"
        "v0.5.9 to v0.5.11         agrees, bytes wrong  8,192    1.1 GiB  unsanitized_padding in prefill\n"
        "v0.5.12 to v0.5.12.post1  agrees               8,192    1.1 GiB  -\n");
  const Outcome safe = by_release("v0.5.14..v0.5.14", kAgreeing);
  CHECK(safe.exit_code == kNothingWrong);
  CHECK(contains(safe.out, "\nRuns without an error: v0.5.14.\n"));
}

TEST_CASE("releases: of a server that does not start the table says why, in 58 characters") {
  const TwoLaunches two;
  const Outcome outcome = run({"check", "--sglang", "v0.5.13..v0.5.14", two.file.path});
  CHECK(outcome.exit_code == kErrorFound);
  CHECK(outcome.out ==
        two.file.path +
            ":1: sglang by release (cap and workspace per rank)\n"
            "Runs without an error: v0.5.14.\n"
            "release                   verdict      cap  workspace  first finding\n"
            "v0.5.13 to v0.5.13.post1  disagrees  4,096  576.7 MiB  geometry_disagreement in graph decode\n"
            "v0.5.14                   agrees     4,096  576.7 MiB  -\n"
            "\n" +
            two.file.path +
            ":2: sglang by release (cap and workspace per rank)\n"
            "No version of these runs it.\n"
            "release             verdict     cap  workspace  first finding\n"
            "v0.5.13 to v0.5.14  rejected  8,192  225.9 MiB  rejected: the engine refuses to start: "
            "_handle_data_para..\n");
}

TEST_CASE("releases: a range has two ends, either of which may be left out") {
  const auto labels = [](const std::string& range) {
    std::string out;
    const json document = json::parse(by_release(range, kCollapsing, {"--format", "json"}).out);
    for (const json& row : document["servers"][0]["by_release"])
      out += (out.empty() ? "" : ", ") + row["releases"].get<std::string>();
    return out;
  };
  CHECK(labels("..v0.5.12") == "v0.5.9 to v0.5.11, v0.5.12 to v0.5.12.post1");
  CHECK(labels("v0.5.14..v0.5.14") == "v0.5.14");
  CHECK(labels("v0.5.13..v0.5.14") == "v0.5.13 to v0.5.13.post1, v0.5.14");
  CHECK(labels("v0.5.16..").starts_with("v0.5.16 to v0.5."));
  CHECK(labels("..") == labels("all"));
  CHECK(labels("all").starts_with("v0.5.9 to v0.5.11, "));
  const auto error = [](const std::string& range, std::vector<std::string> more = {}) {
    const Outcome outcome = by_release(range, kCollapsing, std::move(more));
    CHECK(outcome.exit_code == kUnusableInput);
    CHECK(outcome.out.empty());
    return outcome.err;
  };
  CHECK(error("v0.5.18..v0.5.12") ==
        "a2asim check: --sglang: v0.5.18..v0.5.12: the first version is newer than the last\n");
  CHECK(error("nope..v0.5.12").starts_with("a2asim check: --sglang: 'nope' is no generation known here; "));
  CHECK(error("v0.5.12..nope").starts_with("a2asim check: --sglang: 'nope' is no generation known here; "));
  CHECK(error("all", {"--format", "sarif"}) ==
        "a2asim check: --format with a range of versions takes one of text, json, not 'sarif'\n");
}

TEST_CASE("releases: every key of JSON holds its own value") {
  const json document = json::parse(by_release("..v0.5.12", kAgreeing, {"--format", "json"}).out);
  CHECK(document["tool"]["name"] == "a2asim");
  CHECK(document["command"] == "check");
  CHECK(document["servers"] == json::parse(R"([{"place": "command line", "engine": "sglang", "by_release": [
          {"releases": "v0.5.9 to v0.5.11", "versions": ["pr14668"], "verdict": "agrees", "has_error": true,
           "max_num_tokens": 8192, "workspace_bytes_per_rank": 1208484224, "finding": "unsanitized_padding in prefill"},
          {"releases": "v0.5.12 to v0.5.12.post1", "versions": ["pr24850"], "verdict": "agrees", "has_error": false,
           "max_num_tokens": 8192, "workspace_bytes_per_rank": 1209401728, "finding": ""}]}])"));
}

TEST_CASE("releases: the page says the same, marks what is safe, and is bad where a server has no safe release") {
  const TemporaryFile page("releases.html");
  by_release("v0.5.14..v0.5.15", kCollapsing, {"--report", page.path});
  const std::string text = page.text();
  CHECK(contains(text, "<title>a2asim check: releases side by side</title>"));
  CHECK(contains(text, "<p class=\"kicker\">a2asim check</p>\n<h1 class=\"verdict neutral\">"));
  CHECK(
      contains(text, "<span>Releases side by side</span></h1>\n<p class=\"lead\">Runs without an error: v0.5.14.</p>"));
  CHECK(contains(text, "<h2>command line</h2>\n<p>Runs without an error: v0.5.14.</p>\n"));
  const std::string start = "<tr><th scope=\"row\">";
  CHECK(contains(text, start + "v0.5.14</th><td class=\"good\" data-label=\"verdict\">✓ agrees</td>"
                               "<td class=\"number\" data-label=\"cap\">4,096</td><td class=\"number\" "
                               "data-label=\"workspace\">576.7 MiB</td><td class=\"less\">-</td></tr>\n"));
  CHECK(contains(text, start + "pr29461 (main)</th><td class=\"bad\" data-label=\"verdict\">✕ disagrees</td>"
                               "<td class=\"number\" data-label=\"cap\">4,096</td><td class=\"number\" "
                               "data-label=\"workspace\">576.7 MiB</td><td data-label=\"first finding\">"
                               "geometry_disagreement in graph decode</td></tr>\n"));
  // Two servers: no lead. One of them runs under none of these.
  const TwoLaunches two;
  run({"check", "--sglang", "v0.5.13..v0.5.14", "--report", page.path, two.file.path});
  const std::string both = page.text();
  CHECK(contains(both, "<h1 class=\"verdict bad\">"));
  CHECK_FALSE(contains(both, "class=\"lead\""));
  CHECK(tags_of(both, "h2") == "<h2>" + two.file.path + ":1\n<h2>" + two.file.path + ":2\n");
  CHECK(contains(both, "<p>No version of these runs it.</p>"));
  by_release("..v0.5.9", kAgreeing, {"--report", page.path});  // agrees, with bytes wrong
  CHECK(contains(page.text(), "<h1 class=\"verdict bad\">"));
  CHECK(contains(page.text(), "<td class=\"bad\" data-label=\"verdict\">✕ agrees, bytes wrong</td>"));
}

TEST_CASE("upgrade: text of one server, what moves only, lists cut after eight") {
  const Outcome outcome = run(with_words({"upgrade", "--from", "v0.5.13", "--to", "v0.5.16", "--"}, kCollapsing));
  CHECK(outcome.exit_code == kNothingWrong);
  CHECK(outcome.out ==
        "== command line: sglang v0.5.13 -> sglang v0.5.16\n"
        "  verdict disagrees -> agrees\n"
        "  workspace per rank 576.7 MiB -> 898.7 MiB\n"
        "  findings that are gone:\n"
        "    error: geometry_disagreement in graph decode: ranks use different buffer sizes R = [2, 1 x7] for\n"
        "      requests [2, 0 x7]\n"
        "    error: geometry_disagreement in prefill: ranks use different buffer sizes R = [2, 1 x7] for\n"
        "      tokens [1, 0 x7]\n"
        "  defaults that changed (5): --disable-piecewise-cuda-graph: false -> null,\n"
        "      --enable-breakable-cuda-graph: false -> null, --enforce-piecewise-cuda-graph: false -> null,\n"
        "      --hicache-mem-layout: \"layer_first\" -> \"page_first\", --piecewise-cuda-graph-compiler: \"eager\"\n"
        "      -> null\n"
        "  options that are new (63): --bf16-gemm-backend, --cp-strategy, --cuda-graph-backend-decode,\n"
        "      --cuda-graph-backend-prefill, --cuda-graph-bs-decode, --cuda-graph-bs-prefill,\n"
        "      --cuda-graph-config, --cuda-graph-max-bs-decode, .. (--verbose shows all)\n"
        "1 server: 1 changes verdict, 0 with an error after the upgrade\n");
}

TEST_CASE("upgrade: text of two servers, with what stays, and of one that only the old version starts") {
  const TwoLaunches two;
  const Outcome all = run({"upgrade", "--from", "v0.5.13", "--to", "v0.5.16", "--verbose", two.file.path});
  CHECK(all.exit_code == kErrorFound);
  CHECK(contains(all.out, "\n\n== " + two.file.path +
                              ":2: sglang v0.5.13 -> sglang v0.5.16\n"
                              "  verdict rejected (as before)\n"
                              "  all-to-all flashinfer (as before)\n"
                              "  why this one - (as before)\n"
                              "  cap (tokens per rank) 8,192 (as before)\n"
                              "  workspace per rank 225.9 MiB (as before)\n"
                              "  requests per DP rank 512 (as before)\n"
                              "  prefill tokens per DP rank 8,192 (as before)\n"
                              "  largest decode graph 48 (as before)\n"
                              "  largest prefill graph none (as before)\n"
                              "  cap comes from default: max(chunked_prefill_size per DP rank, 4096) (as before)\n"
                              "  defaults that changed (5): "));
  CHECK_FALSE(contains(all.out, "--verbose shows all"));
  CHECK(all.out.ends_with("2 servers: 1 changes verdict, 1 with an error after the upgrade\n"));
  const Outcome back = run(
      with_words({"upgrade", "--from", "v0.5.16", "--to", "v0.5.13", "--"}, kCollapsing + " --bf16-gemm-backend auto"));
  CHECK(back.exit_code == kErrorFound);
  CHECK(
      back.out.starts_with("== command line: sglang v0.5.16 -> sglang v0.5.13\n"
                           "  verdict agrees -> rejected\n"
                           "  all-to-all flashinfer -> -\n"
                           "  cap (tokens per rank) 4,096 -> -\n"
                           "  workspace per rank 898.7 MiB -> -\n"
                           "  requests per DP rank 64 -> -\n"
                           "  prefill tokens per DP rank 1,024 -> -\n"
                           "  largest decode graph 64 -> -\n"
                           "  largest prefill graph none -> -\n"
                           "  cap comes from default: max(chunked_prefill_size per DP rank, 4096) -> -\n"
                           "  findings that appear:\n"
                           "    error: rejected: launch_server: error: unrecognized arguments: --bf16-gemm-backend; "
                           "fix: leave\n      out --bf16-gemm-backend, or use SGLang of v0.5.15 (July 2026) to "));
  CHECK(
      contains(back.out, "\n  options of this command that the new version does not have (1): --bf16-gemm-backend\n"));
}

TEST_CASE("upgrade: the page has every fact, what moved is marked, and its heading is the result") {
  const TemporaryFile page("upgrade.html");
  run(with_words({"upgrade", "--from", "v0.5.13", "--to", "v0.5.16", "--report", page.path, "--"}, kCollapsing));
  const std::string text = page.text();
  CHECK(contains(text, "<title>a2asim upgrade</title>"));
  CHECK(contains(text, "<p class=\"kicker\">a2asim upgrade</p>\n<h1 class=\"verdict good\">"));
  CHECK(contains(text,
                 "<span>Safe to upgrade</span></h1>\n"
                 "<p class=\"lead\">1 server: 1 changes verdict, 0 with an error after the upgrade.</p>"));
  const std::string to = "</td><td data-label=\"sglang v0.5.16\">", from = "<td data-label=\"sglang v0.5.13\">";
  CHECK(contains(text, "<h2>command line</h2>"));
  CHECK(contains(text, "<th scope=\"col\">sglang v0.5.13</th><th scope=\"col\">sglang v0.5.16</th>"));
  CHECK(contains(text, "<tr class=\"moved\"><th scope=\"row\">verdict</th>" + from + "disagrees" + to + "agrees</td>"));
  CHECK(contains(text, "<tr><th scope=\"row\">largest prefill graph</th>" + from + "none" + to + "none</td>"));
  CHECK(tags_of(text, "h3") == "<h3>Findings that are gone\n<h3>Defaults that changed\n<h3>Options that are new\n");
  CHECK(contains(text, "<li>--hicache-mem-layout: &quot;layer_first&quot; -&gt; &quot;page_first&quot;</li>"));
  CHECK(contains(text, "<li>--speculative-use-rejection-sampling</li>"));  // the last of 63: a page cuts none
  run(with_words({"upgrade", "--from", "v0.5.16", "--to", "v0.5.13", "--report", page.path, "--"}, kCollapsing));
  const std::string back = page.text();
  CHECK(contains(back, "<h1 class=\"verdict bad\">"));
  CHECK(contains(back, "<span>Not every server is safe after the upgrade</span>"));
  CHECK(tags_of(back, "h3") == "<h3>Findings that appear\n<h3>Defaults that changed\n<h3>Options that are new\n");
}

TEST_CASE("upgrade: versions that nobody knows are named with their option") {
  for (const auto& [from, to, option] : {std::tuple("nope", "v0.5.16", "--from"), {"v0.5.16", "nope", "--to"}}) {
    const Outcome outcome = run(with_words({"upgrade", "--from", from, "--to", to, "--"}, kCollapsing));
    CHECK(outcome.exit_code == kUnusableInput);
    CHECK(outcome.err.starts_with(std::string("a2asim upgrade: ") + option + ": 'nope' is no generation known here; "));
  }
}

}  // namespace a2asim
