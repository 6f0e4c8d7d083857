// Arguments and errors as the questions write them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/base/result.h"
#include "model/engines/sglang/start/server_args.h"

namespace a2asim {

// Fields of ServerArgs that the start-up handlers may read or write, under the names of the answers.
std::span<const std::string_view> answered_fields();
nlohmann::json json_of(const ServerArgs& args);
// False: no such field, or a value that it cannot have.
bool set_field(ServerArgs& args, std::string_view name, const nlohmann::json& value);

std::string text_of(const Error& error);

}  // namespace a2asim
