// The steps of resolve(), and what they have to say.
#pragma once

#include <string>
#include <vector>

#include "model/engines/trtllm/deployment.h"

namespace a2asim::trtllm {

struct Said {
  std::vector<Rejection> rejections;
  std::vector<Note> notes;
  void reject(std::string handler, Error error, Advice fix) {
    rejections.push_back({"start", std::move(handler), std::move(error), std::move(fix)});
  }
};

Advice fix_mapping(const MappingInputs& in);

inline bool graphs_are_off(const Arguments& args) {
  return args.is_null("cuda_graph_config") || (args.is_given("use_cuda_graph") && !args.flag("use_cuda_graph"));
}

// --- lanes.cpp
// One setup a distinct environment. Errors: bad_input.
Result<void> choose_lanes(const MappingInputs& in, TrtllmPart& part, Said& said);
std::int64_t slots_of(const TrtllmPart& part);  // experts, or the load balancer's slots

// --- workspace_setup.cpp
const FlashInferLimits& limits_of(const Generation& generation);
void add_workspace(TrtllmPart& part, AllToAllSetup& out, Said& said);
// Of a rank whose environment has these; nothing without the model's shape.
Outcome<std::int64_t> workspace_bytes(const TrtllmPart& part, const Environment& env);

// --- start.cpp
Result<DecodeGraphs> graphs_of(TrtllmPart& part, Said& said);
void refuse_at_start(const TrtllmPart& part, AllToAllSetup& alltoall, Said& said);
// What each variable does, chunks, buckets, memory.
void add_remarks(const Deployment& deployment, TrtllmPart& part);

}  // namespace a2asim::trtllm
