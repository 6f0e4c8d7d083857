// The backends of this program as tables of the plug-in interface, so that they are run by the same calls as a library.
#pragma once

#include "gpu/backend_plugin.h"
#include "tools/backends/device.h"

namespace a2asim {

enum class Builtin { sim, cuda };

// The table over what `make` gives; valid forever, one of a kind at a time.
const a2asim_backend_v1& builtin_table(Builtin which, Capabilities capabilities, MakeDevice make);

// The simulator; all ranks are local.
Capabilities simulator_capabilities();
Result<std::unique_ptr<Device>> make_simulator(const DeviceRequest& request);

}  // namespace a2asim
