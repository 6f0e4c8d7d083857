#include "tools/program/shared_folder.h"

#include <fmt/format.h>

#include <filesystem>

namespace a2asim {

Result<std::string> shared_folder(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  const fs::path installed = program.parent_path().parent_path() / "share" / "a2asim" / name;
  const fs::path built_from = fs::path(A2ASIM_TOOLS_DIR) / name;
  for (const fs::path& place : {installed, built_from})
    if (fs::is_directory(place, none)) return place.string();
  return fail(ErrorKind::bad_input, fmt::format("its program is neither in {} nor in {}: install a2asim as a whole",
                                                installed.string(), built_from.string()));
}

}  // namespace a2asim
