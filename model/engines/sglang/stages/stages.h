// The stages of resolve_deployment, each a value that the next ones take: started -> layout -> limits -> graphs ->
// all-to-all. What they have to say beside their values goes into `said`, in this order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/engines/sglang/deployment.h"

namespace a2asim::stages {

struct Said {
  std::vector<Rejection> rejections;
  std::vector<Note> notes;

  // The engine stops at the first refusal; what comes after it would be judged on numbers that were never reached.
  void reject(std::string_view handler, Error error, Advice fix) {
    if (rejections.empty()) rejections.push_back({"start", std::string(handler), std::move(error), std::move(fix)});
  }
  void note(std::string message) { notes.push_back({std::move(message)}); }
};

struct Layout {
  Topology topology;
  Knowledge knowledge;
};

// Defaults that the device decides, the start-up handlers, the speculative width.
Result<Started> start(const DeploymentInputs& inputs, Said& said);
// How the ranks are grouped, and what each knows of the others.
Result<Layout> layout_of(const Started& started, Said& said);
Speculation speculation_of(const Started& started, Said& said);
StepLimits limits_of(const Started& started, const Layout& layout, Said& said);
// The sizes of the decode graphs, not captured yet; a rejection when none is left. Errors: bad_input.
Result<DecodeGraphs> graphs_of(const Started& started, const Layout& layout, const Speculation& speculation,
                               const StepLimits& limits, Said& said);
// Errors: bad_input, when the workspace cannot be.
Result<AllToAllSetup> alltoall_of(const Started& started, const Layout& layout);

// What a default chunk leaves a replica.
std::int64_t chunk_of_replica(const ServerArgs& args, std::int64_t tokens);

}  // namespace a2asim::stages
