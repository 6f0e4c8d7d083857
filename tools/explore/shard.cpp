#include "tools/explore/shard.h"

#include <fmt/format.h>

#include <vector>

#include "tools/program/input.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMostIndex = std::int64_t{1} << 40;

// What a scheduler tells each of its processes. first, step: where its numbers begin and how far apart they are.
struct Scheduler {
  const char* name;
  const char* index;
  const char* count;
  const char* first = nullptr;
  const char* step = nullptr;
};
constexpr Scheduler kSchedulers[] = {
    {"Slurm array", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"},
    {"Kubernetes indexed Job", "JOB_COMPLETION_INDEX", nullptr},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
};

using Variables = std::function<const char*(const char*)>;

Result<std::int64_t> number(const Variables& variable, const char* name, std::int64_t minimum, std::int64_t otherwise) {
  const char* text = name == nullptr ? nullptr : variable(name);
  if (text == nullptr) return otherwise;
  return parse_count(name, text, minimum, kMostIndex);
}

Result<const Scheduler*> scheduler(const Variables& variable) {
  std::vector<const Scheduler*> found;
  for (const Scheduler& one : kSchedulers)
    if (variable(one.index) != nullptr) found.push_back(&one);
  if (found.size() == 1) return found.front();
  std::string names;
  for (const Scheduler& one : kSchedulers) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.index);
  if (found.empty()) return unusable(fmt::format("--shard auto: none of {} is set; give --shard I/N", names));
  return unusable(
      fmt::format("--shard auto: both {} and {} are set; give --shard I/N", found[0]->index, found[1]->index));
}

Result<std::optional<Shard>> from_scheduler(const std::optional<std::string>& count, const Variables& variable) {
  const Result<const Scheduler*> by = scheduler(variable);
  if (!by) return tl::unexpected(by.error());
  const Scheduler& from = **by;
  const Result<std::int64_t> index = number(variable, from.index, 0, 0);
  const Result<std::int64_t> first = number(variable, from.first, 0, 0);
  const Result<std::int64_t> step = number(variable, from.step, 1, 1);
  const Result<std::int64_t> told =
      count ? parse_count("--shard auto, after the slash", *count, 1, kMostShards) : number(variable, from.count, 1, 0);
  for (const auto* read : {&index, &first, &step, &told})
    if (!*read) return tl::unexpected(read->error());
  if (*told == 0)
    return unusable(fmt::format("--shard auto: a {} does not tell how many there are: give --shard auto/N", from.name));
  const std::int64_t place = *index - *first;
  if (place < 0 || place % *step != 0 || place / *step >= *told || *told > kMostShards)
    return unusable(fmt::format("--shard auto: {}={} is none of {} shards", from.index, *index, *told));
  return Shard{place / *step, *told};
}

}  // namespace

Result<std::optional<Shard>> parse_shard(const std::optional<std::string>& text, const Variables& variable) {
  if (!text) return std::nullopt;
  const std::size_t slash = text->find('/');
  const std::string before = text->substr(0, slash);
  if (before == "auto")
    return from_scheduler(slash == std::string::npos ? std::nullopt : std::optional(text->substr(slash + 1)), variable);
  if (slash == std::string::npos)
    return unusable(fmt::format("--shard takes I/N, such as 1/4, or auto, not '{}'", one_line(*text, 60)));
  const Result<std::int64_t> of = parse_count("--shard, after the slash", text->substr(slash + 1), 1, kMostShards);
  if (!of) return tl::unexpected(of.error());
  const Result<std::int64_t> index = parse_count("--shard, before the slash", before, 0, *of);
  if (!index) return tl::unexpected(index.error());
  return Shard{*index % *of, *of};
}

}  // namespace a2asim
