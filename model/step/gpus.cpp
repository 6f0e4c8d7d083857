#include "model/step/gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace a2asim {
namespace {

constexpr Gpu kGpus[] = {{"A100", 79.3},   {"B200", 178.4},   {"B300", 268.0},  {"GB200", 184.0},
                         {"GB300", 277.5}, {"H20", 95.6},     {"H100", 79.6},   {"H200", 139.8},
                         {"L40S", 47.5},   {"MI300X", 192.0}, {"RTX4090", 23.6}};

std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out.starts_with("NVIDIA") ? out.substr(6) : out;
}

}  // namespace

Result<Gpu> find_gpu(std::string_view name) {
  std::string names;
  for (const Gpu& gpu : kGpus) {
    if (plain(name) == gpu.name) return gpu;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", gpu.name);
  }
  return fail(ErrorKind::bad_input,
              fmt::format("'{}' is no GPU known here; name one of {}, or give its memory", name.substr(0, 60), names));
}

}  // namespace a2asim
