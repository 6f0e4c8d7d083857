// Commands of several nodes that are to be one deployment: each starts a part of the ranks, and all of them must say
// the same.
//
//   check_nodes(std::vector<NodeCommand>{{first.get(), &report}, {second.get(), &other_report}});
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "model/step/decider.h"

namespace a2asim {

struct CheckReport;
struct Deployment;

// Which of all replicas, or nodes, a command starts.
struct NodeShare {
  std::string_view what;  // "replicas", "nodes"
  std::int64_t first = 0, count = 0, all = 0;
};

struct NodeCommand {
  const Deployment* deployment = nullptr;
  CheckReport* report = nullptr;
};

// Compares every command with the first, and adds what is wrong to its report: what the engine compares and refuses,
// what it does not compare, and a smallest batch on which ranks of the two nodes part. All are of one version. The
// number of differences that are no note.
std::int64_t check_nodes(std::span<const NodeCommand> nodes);

// Each rank decides by its own node's deployment: `own` for the first half of the replicas. A graph is replayed only in
// a step in which every rank can.
std::unique_ptr<Decider> two_deciders(const Deployment& own, const Deployment& other);

}  // namespace a2asim
