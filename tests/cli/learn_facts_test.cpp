// a2asim learn: the numbers of each step, for requests [3, 1, 0, 5], and the tables that show them, to the column.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

struct LearnStep {
  const char* lesson;
  std::size_t step;  // from 1
  std::string facts;
};

// The facts of every step. Where a step lists all versions, so does the test below.
const std::vector<LearnStep> kLearnFacts = {
    {"1", 1, R"({"num_experts": 8, "top_k": 2, "ep_size": 4, "tokens": [3, 1, 0, 5]})"},
    {"1", 2, R"({"rows_sent": 17})"},
    {"1", 3, R"({"wrong_slots": 0, "runtime_max_tokens_per_rank": [5, 5, 5, 5]})"},
    {"1", 4, R"({"runtime_max_tokens_per_rank": 5, "source": 3, "row": 15, "other_row": 18})"},
    {"1", 5, R"({"dispatch_bytes": 2448, "combine_bytes": 2176, "bad_tokens": 0, "verdict": "agrees"})"},
    {"1", 6, R"({"rows_sent": 17, "rows_reserved": 80, "max_num_tokens": 64, "workspace_bytes_per_rank": 81280})"},
    {"2", 1, R"({"tokens": [3, 1, 0, 5], "equal": false})"},
    {"2", 2, R"({"global_num_tokens": [3, 1, 0, 5], "max": 5, "row_width": 7})"},
    {"2", 3, R"({"prefilling_rank": 3, "before": {"can_cuda_graph": true, "is_extend_in_batch": false},
                 "after": {"can_cuda_graph": false, "is_extend_in_batch": true}})"},
    {"2", 4, R"({"mode": "SUM_LEN", "padded": [3, 1, 0, 5]})"},
    {"2", 5, R"({"runtime_max_tokens_per_rank": [5, 5, 5, 5], "agrees": true})"},
    {"2", 6, R"({"tokens": [3, 1, 0, 5], "idle_ranks": [2], "taking_part": 4})"},
    {"3", 1, R"({"require_mlp_tp_gather": {"plain": true, "with_flags": false}})"},
    {"3", 2, R"({"runtime_max_tokens_per_rank": [3, 1, 1, 5], "verdict": "disagrees"})"},
    {"3", 3, R"({"rank": 0, "wrong_slots": 4, "wrong_slots_of_all": 8})"},
    {"3", 4, R"({"kind": "unwritten", "expected_offset": 12032, "written_offset": 11776, "rows_in_all": 40})"},
    {"3", 5, R"({"raised": 0, "tokens": 9, "nan_output": 8, "wrong_output": 1})"},
    {"3", 7, R"({"without_dp_lm_head": "agrees", "without_moe_dense_tp_size": "agrees", "with_fix": "agrees"})"},
    {"4", 1, R"({"capture_bs": [1, 2, 4, 8, 16]})"},
    {"4", 2,
     R"({"baked": {"pr27945": [64, 64, 64, 64, 64], "pr29461": [1, 2, 4, 8, 16], "pr30450": [1, 2, 4, 8, 16]}})"},
    {"4", 3, R"({"buckets": [4, 1, 1, 8], "runtime_max_tokens_per_rank": [4, 1, 1, 8]})"},
    {"4", 4, R"({"verdict": "disagrees", "bad_tokens": 9, "garbage_ids": 0})"},
    {"4", 5, R"({"tokens": [5, 5, 5, 5], "verdict": "agrees", "buckets": [8, 8, 8, 8]})"},
    {"4", 6, R"({"buckets": [8, 8, 8, 8], "runtime_max_tokens_per_rank": [8, 8, 8, 8], "verdict": "agrees"})"},
    {"5", 2, R"({"first_safe": "v0.5.16"})"},
    {"5", 3, R"({"verdicts": {"without --enable-dp-lm-head": ["agrees", "agrees"],
                              "without --moe-dense-tp-size": ["agrees", "agrees"]}})"},
    {"5", 4, R"({"verdicts": ["agrees", "disagrees"]})"},
    {"5", 5, R"({"verdicts": ["disagrees", "agrees"]})"},
    {"6", 1, R"({"verdict": "disagrees"})"},
    {"6", 2, R"({"runtime_max_tokens_per_rank": [2, 1, 1, 1]})"},
    {"6", 3, R"({"fixes": 4})"},
    {"6", 4, R"({"verdict": "disagrees", "bad_tokens": 2})"},
    {"6", 5, R"({"verdict": "agrees", "notes": 5})"},
    {"7", 1, R"({"view": {"ep_size": 4, "ep_rank": 0, "dp_global": [3, 1, 0, 5], "rows": 3, "capture": false,
                 "extend": false, "require_mlp_tp_gather": true, "enable_dp_attention": true, "attn_tp_size": 1,
                 "max_num_tokens": 64}})"},
    {"8", 1, R"({"max_num_tokens": 64, "runtime_max_tokens_per_rank": [64, 64, 64, 64], "verdict": "agrees",
                 "bad_tokens": 0})"},
    {"8", 2, R"({"rows_sent": [18, 17], "rows_reserved": [1024, 80]})"},
    {"8", 3, R"({"max_num_tokens": 4096, "workspace_bytes_per_rank": 1208680960, "slots_with_cap": 65536,
                 "slots_exact": 1024})"},
    {"8", 4, R"({"verdict": "over_capacity", "overflowing_ranks": 1, "max_num_tokens": 16})"},
    {"9", 1, R"({"tokens": [4, 5], "attn_tp_size": 2, "runtime_max_tokens_per_rank": [6, 6, 6, 6],
                 "rows_reserved": 96})"},
    {"9", 2, R"({"runtime_max_tokens_per_rank": [3, 3, 3, 3], "rows_reserved": 48})"},
    {"9", 3, R"({"runtime_max_tokens_per_rank": {"pr24850": [12, 12, 12, 12], "pr25685": [3, 3, 3, 3],
                 "pr27945": [64, 64, 64, 64], "pr30450": [3, 3, 3, 3]}})"},
    {"9", 4, R"({"runtime_max_tokens_per_rank": [20, 20, 20, 20], "verdict": "agrees"})"},
    {"9", 6, R"({"branches": {"pr30450": "max over the gathered token counts",
                 "pr35758": "no all-to-all: all-gatherv and reduce-scatterv"}})"},
    {"10", 1, R"({"runtime_max_tokens_per_rank": [4, 2, 1, 6], "verdict": "disagrees"})"},
    {"10", 2, R"({"runtime_max_tokens_per_rank": [5, 5, 5, 5], "verdict": "agrees"})"},
    {"10", 3, R"({"runtime_max_tokens_per_rank": [8, 8, 8, 8], "verdict": "agrees"})"},
    {"10", 4, R"({"runtime_max_tokens_per_rank": [null, null, null, 9], "verdict": "disagrees", "tokens": 9})"},
    {"10", 5, R"({"runtime_max_tokens_per_rank": [9, 9, 9, 9], "verdict": "agrees"})"},
    {"10", 6, R"({"verdict": "disagrees", "absent": 0})"},
};

json learn_facts_of(const std::string& lesson, std::size_t step) {
  const Outcome done = run({"learn", lesson, "--step", std::to_string(step), "--format", "json"});
  return json::parse(done.out).at("steps").at(0).at("facts");
}

struct LearnTable {
  const char* lesson;
  std::string lines;  // of one table, as they stand there
};

const std::vector<LearnTable> kLearnTables = {
    {"1",
     "      rank  experts  requests\n"
     "      0     0..1            3\n"
     "      1     2..3            1\n"
     "      2     4..5            0\n"
     "      3     6..7            5\n"},
    {"1",
     "      token  experts  goes to ranks\n"
     "      0.0    [5, 2]   [2, 1]\n"
     "      0.1    [0, 5]   [0, 2]\n"
     "      0.2    [6, 4]   [3, 2]\n"
     "      1.0    [4, 0]   [2, 0]\n"
     "  (0.0 means: token 0 of rank 0.)\n"},
    {"1",
     "      to rank  from 0  from 1  from 2  from 3\n"
     "      0             1       1       0       3\n"
     "      1             1       0       0       3\n"
     "      2             3       1       0       2\n"
     "      3             1       0       0       1\n"
     "  That makes 17 rows. "},
    {"2",
     "      rank  knows\n"
     "      0     [3, -, -, -]\n"
     "      1     [-, 1, -, -]\n"
     "      2     [-, -, 0, -]\n"
     "      3     [-, -, -, 5]\n"},
    {"2",
     "      rank  num_tokens  can_cuda_graph  is_extend_in_batch\n"
     "      0              3  yes             no\n"
     "      1              1  yes             no\n"
     "      2              0  yes             no\n"
     "      3              5  yes             no\n"},
    {"2",
     "                        graphs may run  is_extend_in_batch\n"
     "      all ranks decode  yes             no\n"
     "      rank 3 prefills   no              yes\n"},
    {"3",
     "      any one of           needed                       yours\n"
     "      --moe-dense-tp-size  not set                      1\n"
     "      --enable-dp-lm-head  not set                      set\n"
     "      --moe-a2a-backend    none                         flashinfer\n"
     "      --moe-dense-tp-size  above tp_size / dp_size = 1  1\n"},
    {"3",
     "      rank  mode    tokens  view  path   rows       R  branch\n"
     "      0     DECODE       3  [3]   eager  3          3  this rank's own rows\n"
     "      1     DECODE       1  [1]   eager  1          1  this rank's own rows\n"
     "      2     IDLE         0  [0]   eager  0 + dummy  1  this rank's own rows\n"
     "      3     DECODE       5  [5]   eager  5          5  this rank's own rows\n"},
    {"3",
     "      v0.5.13, v0.5.13.post1  pr26643       [4, 2, 1, 6]      disagrees             9\n"
     "      v0.5.14                 pr27945       [64, 64, 64, 64]  agrees                0\n"
     "      -                       pr29461       [64, 64, 64, 64]  agrees                0\n"},
    {"3", "      v0.5.9 to v0.5.11       pr14668       [3, 1, 0, 5]      disagrees         stops\n"},
    {"4",
     "      bucket  R, pr27945  R, pr29461  R, pr30450\n"
     "           1          64           1           1\n"
     "           2          64           2           2\n"
     "           4          64           4           4\n"
     "           8          64           8           8\n"
     "          16          64          16          16\n"},
    {"5",
     "      v0.5.14                 agrees\n"
     "      pr29461                 disagrees\n"
     "      v0.5.15, v0.5.15.post1  disagrees\n"
     "      v0.5.16                 agrees\n"},
    {"5",
     "      launch                       pr25907  pr29461\n"
     "      without --enable-dp-lm-head  agrees   agrees\n"
     "      without --moe-dense-tp-size  agrees   agrees\n"},
    {"9",
     "      sglang   rows of each rank  R of each rank    branch\n"
     "      pr24850  [3, 3, 3, 3]       [12, 12, 12, 12]  max over the gathered token counts\n"
     "      pr25685  [3, 3, 3, 3]       [3, 3, 3, 3]      this rank's own rows\n"},
    {"9",
     "      pr29461                     1  yes    [5, 5, 5, 5]    agrees\n"
     "      pr22394                     0  no     [5, 5, 5, 5]    agrees\n"},
};

}  // namespace

TEST_CASE("learn: every fact of every step") {
  for (const LearnStep& one : kLearnFacts) {
    CAPTURE(one.lesson);
    CAPTURE(one.step);
    CHECK(learn_facts_of(one.lesson, one.step) == json::parse(one.facts));
  }
}

TEST_CASE("learn: what the versions do with the collapse, with graphs and without, and with an idle rank") {
  const json eager = learn_facts_of("3", 6).at("verdicts"), graphs = learn_facts_of("5", 1).at("verdicts");
  const json dispatched = learn_facts_of("9", 5).at("dispatched_rows");
  struct Row {
    const char* version;
    const char* eager;
    const char* graphs;
    int rows;
  };
  for (const Row& row : std::vector<Row>{{"pr14668", "disagrees", "disagrees", 1},
                                         {"pr24850", "disagrees", "disagrees", 1},
                                         {"pr25685", "disagrees", "disagrees", 1},
                                         {"pr25907", "disagrees", "disagrees", 1},
                                         {"pr26643", "disagrees", "disagrees", 1},
                                         {"pr27945", "agrees", "agrees", 1},
                                         {"pr29461", "agrees", "disagrees", 1},
                                         {"pr22394", "agrees", "disagrees", 0},
                                         {"pr30450", "agrees", "agrees", 0},
                                         {"pr35758", "agrees", "agrees", 0}}) {
    CAPTURE(row.version);
    CHECK(eager.at(row.version) == row.eager);
    CHECK(graphs.at(row.version) == row.graphs);
    CHECK(dispatched.at(row.version) == row.rows);
  }
}

TEST_CASE("learn: tables stand in columns, numbers to the right") {
  for (const LearnTable& one : kLearnTables) {
    CAPTURE(one.lines);
    CHECK(contains(run({"learn", one.lesson}).out, one.lines));
  }
}

}  // namespace a2asim
