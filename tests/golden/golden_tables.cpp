// The list of golden tables. To add NAME.jsonl: write tests/golden/NAME.cpp with `json answer_NAME(Fields&, const
// json&)`, declare it here and add its line to kTables. That line also makes the ctest "golden: NAME":
// tests/golden/CMakeLists.txt reads the lines that begin with {"NAME", so keep one line a table.
#include <algorithm>
#include <vector>

#include "tests/golden/table.h"

namespace a2asim::golden {

// json answer_NAME(Fields& in, const json& row);
json answer_capacity(Fields& in, const json& row);
json answer_sizing(Fields& in, const json& row);
std::optional<std::string> mismatch_sizing(const json& ours, const json& row);
json answer_target_rank(Fields& in, const json& row);
json answer_workspace(Fields& in, const json& row);
std::optional<std::string> mismatch_workspace(const json& ours, const json& row);
json answer_topology(Fields& in, const json& row);
json answer_gather_rules(Fields& in, const json& row);
json answer_mlp_sync(Fields& in, const json& row);
json answer_padding(Fields& in, const json& row);
json answer_graph_buckets(Fields& in, const json& row);
json answer_graph_capture(Fields& in, const json& row);
json answer_flags(Fields& in, const json& row);
json answer_server_args(Fields& in, const json& row);
json answer_launch_verdicts(Fields& in, const json& row);
std::optional<std::string> mismatch_launch_verdicts(const json& ours, const json& row);
json answer_trtllm_topology(Fields& in, const json& row);
json answer_trtllm_factory(Fields& in, const json& row);
json answer_trtllm_method(Fields& in, const json& row);
json answer_trtllm_split_chunk(Fields& in, const json& row);
json answer_trtllm_chunks(Fields& in, const json& row);
json answer_trtllm_wideep(Fields& in, const json& row);
json answer_trtllm_workspace_aux(Fields& in, const json& row);
json answer_trtllm_workspace(Fields& in, const json& row);
json answer_trtllm_workspace_choice(Fields& in, const json& row);
json answer_trtllm_workspace_dispatch(Fields& in, const json& row);
json answer_trtllm_graph_buckets(Fields& in, const json& row);
json answer_trtllm_graph_filter(Fields& in, const json& row);
json answer_trtllm_graph_world(Fields& in, const json& row);
json answer_trtllm_graph_world_dynamic_draft(Fields& in, const json& row);
json answer_trtllm_piecewise(Fields& in, const json& row);

json answer_vllm_dp_padding_old(Fields& in, const json& row);
json answer_vllm_dp_idle(Fields& in, const json& row);
json answer_vllm_dp_coordinate(Fields& in, const json& row);
json answer_vllm_dp_step_v1(Fields& in, const json& row);
json answer_vllm_dp_step_v2(Fields& in, const json& row);
json answer_vllm_chunk_rounds(Fields& in, const json& row);
json answer_vllm_fi_one_sided_size(Fields& in, const json& row);
std::optional<std::string> mismatch_vllm_fi_one_sided_size(const json& ours, const json& row);
json answer_vllm_fi_one_sided_runtime(Fields& in, const json& row);
json answer_vllm_deepep_ll_hint(Fields& in, const json& row);
json answer_vllm_deepep_kwargs(Fields& in, const json& row);
std::optional<std::string> mismatch_vllm_deepep_kwargs(const json& ours, const json& row);
json answer_vllm_server_args(Fields& in, const json& row);
std::optional<std::string> mismatch_vllm_server_args(const json& ours, const json& row);
json answer_vllm_parallel_config(Fields& in, const json& row);
json answer_vllm_topology(Fields& in, const json& row);
json answer_vllm_launch_verdicts(Fields& in, const json& row);
std::optional<std::string> mismatch_vllm_launch_verdicts(const json& ours, const json& row);
std::optional<std::string> mismatch_vllm_start(const json& ours, const json& row);
json answer_recorded(Fields& in, const json& row);
std::optional<std::string> mismatch_recorded(const json& ours, const json& row);

static const std::vector<Table> kTables = {
    // {"NAME", answer_NAME},                 ours must equal the row
    // {"NAME", answer_NAME, mismatch_NAME},  NAME.cpp says what counts as equal (see Table::mismatch)
    {"capacity", answer_capacity},
    {"sizing", answer_sizing, mismatch_sizing},
    {"target_rank", answer_target_rank},
    {"workspace", answer_workspace, mismatch_workspace},
    {"topology", answer_topology},
    {"gather_rules", answer_gather_rules},
    {"mlp_sync", answer_mlp_sync},
    {"padding", answer_padding},
    {"graph_buckets", answer_graph_buckets},
    {"graph_capture", answer_graph_capture},
    {"flags", answer_flags},
    {"server_args", answer_server_args},
    {"launch_verdicts", answer_launch_verdicts, mismatch_launch_verdicts},
    {"launch_verdicts_skip", answer_launch_verdicts, mismatch_launch_verdicts},
    {"trtllm_topology", answer_trtllm_topology},
    {"trtllm_factory", answer_trtllm_factory},
    {"trtllm_method", answer_trtllm_method},
    {"trtllm_split_chunk", answer_trtllm_split_chunk},
    {"trtllm_chunks", answer_trtllm_chunks},
    {"trtllm_wideep", answer_trtllm_wideep},
    {"trtllm_workspace_aux", answer_trtllm_workspace_aux},
    {"trtllm_workspace", answer_trtllm_workspace},
    {"trtllm_workspace_choice", answer_trtllm_workspace_choice},
    {"trtllm_workspace_dispatch", answer_trtllm_workspace_dispatch},
    {"trtllm_graph_buckets", answer_trtllm_graph_buckets},
    {"trtllm_graph_filter", answer_trtllm_graph_filter},
    {"trtllm_graph_world", answer_trtllm_graph_world},
    {"trtllm_graph_world_dynamic_draft", answer_trtllm_graph_world_dynamic_draft},
    {"trtllm_piecewise", answer_trtllm_piecewise},
    {"vllm_dp_padding_old", answer_vllm_dp_padding_old},
    {"vllm_dp_idle", answer_vllm_dp_idle},
    {"vllm_dp_coordinate", answer_vllm_dp_coordinate},
    {"vllm_dp_step_v1", answer_vllm_dp_step_v1},
    {"vllm_dp_step_v2", answer_vllm_dp_step_v2},
    {"vllm_chunk_rounds", answer_vllm_chunk_rounds},
    {"vllm_fi_one_sided_size", answer_vllm_fi_one_sided_size, mismatch_vllm_fi_one_sided_size},
    {"vllm_fi_one_sided_runtime", answer_vllm_fi_one_sided_runtime},
    {"vllm_deepep_ll_hint", answer_vllm_deepep_ll_hint},
    {"vllm_deepep_kwargs", answer_vllm_deepep_kwargs, mismatch_vllm_deepep_kwargs},
    {"vllm_server_args", answer_vllm_server_args, mismatch_vllm_server_args},
    {"vllm_parallel_config", answer_vllm_parallel_config, mismatch_vllm_start},
    {"vllm_topology", answer_vllm_topology},
    {"vllm_launch_verdicts", answer_vllm_launch_verdicts, mismatch_vllm_launch_verdicts},
};

const Table& recorded_table() {
  static const Table table = {"recorded", answer_recorded, mismatch_recorded};
  return table;
}

const Table* find_table(std::string_view name) {
  const auto found =
      std::find_if(kTables.begin(), kTables.end(), [&](const Table& table) { return table.name == name; });
  return found == kTables.end() ? nullptr : &*found;
}

}  // namespace a2asim::golden
