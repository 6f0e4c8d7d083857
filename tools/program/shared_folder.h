// Files that the program uses at run time: installed in share/a2asim, else in the folder that it was built from.
#pragma once

#include <string>

#include "model/base/result.h"

namespace a2asim {

// Errors: bad_input, with the places where it was looked for.
Result<std::string> shared_folder(const std::string& name);

}  // namespace a2asim
