// The public interface in one header: #include <a2asim/a2asim.h>. Single headers ("model/check/check.h") work, too.
#pragma once

#include "model/alltoall/alltoall.h"
#include "model/check/check.h"
#include "model/flashinfer/capacity.h"
#include "model/launch/launch_file.h"
#include "model/step/engine.h"
#include "model/step/sizing_rule.h"
#include "sim/cluster/replay.h"
#include "sim/explore/explore.h"
#include "sim/scenario/scenario_reader.h"
#include "sim/scenario/scenario_writer.h"
