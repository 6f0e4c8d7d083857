// A launch command that stands in a YAML file: docker-compose services, Kubernetes pods, or a piece of one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/launch/launch_command.h"
#include "model/base/result.h"

namespace a2asim {

// The shell text of everything that the file's containers start: entrypoint, command and args in one line each, their
// environment in front. Nothing when the text is no YAML mapping with one of these keys.
std::optional<std::string> shell_text_of_yaml(const std::string& text);

// parse_launch_command, of shell text or of such a YAML file.
Result<LaunchCommand> parse_launch_text(const std::string& text);

}  // namespace a2asim
