#include "tools/backends/backends.h"

#include <fmt/format.h>

#include "model/base/one_line.h"
#include "tools/backends/builtin_table.h"

namespace a2asim {

Result<Backend> find_backend(const std::string& name, const BackendOptions& options) {
  Backend found;
  Result<std::shared_ptr<PluginSession>> session;
  if (name == "sim") {
    session = PluginSession::in_process(builtin_table(Builtin::sim, simulator_capabilities(), make_simulator));
  } else if (name == "cuda") {
    auto devices = cuda_devices(options.cuda);
    if (!devices) return tl::unexpected(devices.error());
    found.reports = devices->reports;
    session = PluginSession::in_process(builtin_table(Builtin::cuda, Capabilities::all(), devices->make));
  } else if (name.find('/') != std::string::npos || name.ends_with(".so")) {
    session = PluginSession::load(name, options.limits);
  } else {
    return fail(
        ErrorKind::bad_input,
        fmt::format("--backend {}: give sim, cuda, or the path of a plug-in such as ./libmine.so", one_line(name, 60)));
  }
  if (!session) return tl::unexpected(session.error());
  found.session = *session;
  found.name = found.session->name();
  found.capabilities = found.session->capabilities();
  found.short_timeout_ms = options.cuda.short_timeout.count();
  return found;
}

Result<std::unique_ptr<PluginAllToAll>> Backend::create(const DeviceRequest& request) const {
  return PluginAllToAll::create(session, request, request.short_timeout ? short_timeout_ms : kUsualTimeout_ms);
}

MakeDevice Backend::make_device() const {
  return [backend = *this](const DeviceRequest& request) -> Result<std::unique_ptr<Device>> {
    auto made = backend.create(request);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Device>(std::move(*made));
  };
}

}  // namespace a2asim
