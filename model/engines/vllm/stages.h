// The stages of resolve_deployment: what the start settles and refuses, and the buffers.
#pragma once

#include "model/engines/vllm/deployment.h"

namespace a2asim::vllm::stages {

// Backend, limits, graphs and runner into `part`; what refuses into `out`.
void start(VllmPart& part, Deployment& out);
// Bytes, and what the libraries refuse about them or in every dispatch.
Result<void> add_buffers(VllmPart& part, Deployment& out);

}  // namespace a2asim::vllm::stages
