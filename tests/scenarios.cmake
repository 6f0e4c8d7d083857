# Every scenario of sim/scenarios is a test: the program runs it and its `expect` must hold. One that is not listed here
# stops the configuration, so that none is forgotten. What a file expects of other versions, and the digests, are
# compared by replay_test.cpp.
set(scenarios
  attn_tp_scatter
  capture
  collapse
  double_count
  fault_corrupt_count
  fault_dead_rank
  fault_dead_rank_masked
  fault_gather_sizes
  fault_in_replica
  fault_max_num_tokens
  fault_missing_rank
  fault_mixed_replay
  fault_payload_bytes
  fault_skip_all_gather
  fault_stale_counts
  fault_wrong_mode
  graph_buckets
  idle_rank
  nvfp4_collapse
  padding_rows
  prefill_all_gatherv
  sequence_parallel
  skip_all_gather
  verify_over_cap
  vllm_bf16_head
  vllm_full_decode_only
  vllm_full_requests
  vllm_idle_graph
  vllm_mxfp8
  vllm_rounds
)

set(scenario_folder ${PROJECT_SOURCE_DIR}/sim/scenarios)
file(GLOB found CONFIGURE_DEPENDS ${scenario_folder}/*)
list(REMOVE_ITEM found ${scenario_folder}/README.md)
foreach(path IN LISTS found)
  cmake_path(GET path FILENAME file)
  cmake_path(GET path STEM LAST_ONLY name)
  if(NOT name IN_LIST scenarios OR NOT file STREQUAL "${name}.yaml")
    message(FATAL_ERROR "sim/scenarios/${file} is not registered: add ${name} to tests/scenarios.cmake")
  endif()
endforeach()
foreach(name IN LISTS scenarios)
  if(NOT EXISTS ${scenario_folder}/${name}.yaml)
    message(FATAL_ERROR "sim/scenarios/${name}.yaml is listed in tests/scenarios.cmake and does not exist")
  endif()
  add_test(NAME "scenario: ${name}" COMMAND a2asim replay ${scenario_folder}/${name}.yaml)
  set_tests_properties("scenario: ${name}" PROPERTIES LABELS scenario TIMEOUT 600)
endforeach()
