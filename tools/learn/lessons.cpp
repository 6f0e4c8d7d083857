#include "tools/learn/lesson.h"

namespace a2asim {

nlohmann::ordered_json as_json(const std::vector<std::optional<std::int64_t>>& sizes) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const auto& size : sizes) out.push_back(size ? nlohmann::ordered_json(*size) : nlohmann::ordered_json());
  return out;
}

std::span<const Lesson> lessons() {
  static const std::vector<Lesson> all = {
      lesson_geometry(), lesson_knowledge(), lesson_collapse(),   lesson_graphs(),  lesson_release(),
      lesson_check(),    lesson_own_rule(),  lesson_static_cap(), lesson_scatter(), lesson_two_engines()};
  return all;
}

}  // namespace a2asim
