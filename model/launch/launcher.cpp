#include "model/launch/launcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/launch/front_end.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

using Words = std::span<const std::string>;

bool is_mpi(std::string_view word) {
  const std::string_view name = basename_of(word);
  return name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "prterun";
}

// One part of an MPI launch, between colons.
struct Segment {
  std::int64_t ranks = 0;
  std::vector<std::string> names;  // handed on
  Environment own;                 // given with a value
};

Segment read_segment(Words words) {
  Segment out;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const bool counts = words[at] == "-n" || words[at] == "-np" || words[at] == "-c";
    if (at + 1 == words.size()) break;
    if (counts) out.ranks = python_int(words[at + 1]).value;
    if (words[at] == "-x") {
      const std::string name(assigned_name(words[at + 1]));
      out.names.push_back(name.empty() ? words[at + 1] : name);
      if (!name.empty()) out.own.set(name, words[at + 1].substr(name.size() + 1));
    }
    if ((words[at] == "-genv" || words[at] == "-env") && at + 2 < words.size()) {
      out.names.push_back(words[at + 1]);
      out.own.set(words[at + 1], words[at + 2]);
    }
  }
  return out;
}

// The server's own words end at a colon; behind it come the parts of other ranks.
void read_mpi(Words before, LaunchCommand& command) {
  std::vector<Segment> segments = {read_segment(before)};
  auto rest = std::ranges::find(command.argv, ":");
  const auto end = rest;
  while (rest != command.argv.end()) {
    const auto next = std::find(rest + 1, command.argv.end(), ":");
    segments.push_back(read_segment(Words(&*rest, static_cast<std::size_t>(next - rest))));
    rest = next;
  }
  command.argv.erase(end, command.argv.end());
  command.forwarded = segments.front().names;
  std::int64_t first = 0;
  Environment all;
  for (const Segment& segment : segments) {
    for (const auto& [name, value] : segment.own.values()) {
      const bool everywhere = std::ranges::all_of(
          segments, [&](const Segment& other) { return other.own.get(name).value_or("") == std::string_view(value); });
      all.set(name,
              everywhere ? value : fmt::format("{} on ranks {}..{} only", value, first, first + segment.ranks - 1));
      if (segments.size() > 1) command.forwarded->push_back(name);  // else it is there
    }
    first += segment.ranks;
  }
  for (const auto& [name, value] : all.values()) command.env.set(name, value);
}

// --export=ALL is the default; --export=A,B=1 or NONE hands on these alone.
void read_srun(Words before, LaunchCommand& command) {
  for (std::size_t at = 0; at < before.size(); ++at) {
    std::string_view list = before[at];
    if (list == "--export" && at + 1 < before.size())
      list = before[at + 1];
    else if (list.starts_with("--export="))
      list.remove_prefix(9);
    else
      continue;
    std::vector<std::string> names;
    bool all = false;
    while (!list.empty()) {
      const std::string_view entry = list.substr(0, list.find(','));
      list.remove_prefix(std::min(entry.size() + 1, list.size()));
      const std::string name(assigned_name(entry));
      all |= entry == "ALL";
      names.emplace_back(name.empty() ? std::string(entry) : name);
      if (!name.empty()) command.env.set(name, std::string(entry.substr(name.size() + 1)));
    }
    if (!all) command.forwarded = std::move(names);
  }
}

bool is_image(std::string_view word) {
  const std::size_t colon = word.rfind(':');
  if (colon == std::string_view::npos || word.starts_with('-') || word.find('=') != std::string_view::npos)
    return false;
  const std::string_view name = word.substr(0, colon), tag = word.substr(colon + 1);
  const bool has_letter = std::ranges::any_of(name, [](char c) { return is_shell_name_start(c); });
  return has_letter && !tag.empty() && tag.find('/') == std::string_view::npos && !name.starts_with('/') &&
         name.find("://") == std::string_view::npos && name.find('.') != 0;
}

}  // namespace

std::vector<std::vector<ShellValue>> programs_of_mpi(std::span<const ShellValue> words) {
  const auto mpi = std::ranges::find_if(words, [](const ShellValue& word) { return is_mpi(word.text); });
  std::vector<std::vector<ShellValue>> programs;
  std::vector<std::vector<std::string>> servers;
  for (auto begin = mpi; begin != words.end();) {
    const auto end = std::find(begin + 1, words.end(), ShellValue{":"});
    std::vector<ShellValue> own(words.begin(), mpi + 1);
    own.insert(own.end(), begin + 1, end);
    if (const auto found = find_front_end(own)) {
      std::vector<std::string>& server = servers.emplace_back();
      for (std::size_t i = found->front; i < own.size(); ++i) server.push_back(own[i].text);
      programs.push_back(std::move(own));
    }
    begin = end;
  }
  const bool differ = std::ranges::any_of(servers, [&](const auto& one) { return one != servers.front(); });
  return differ ? programs : std::vector<std::vector<ShellValue>>();
}

void read_launcher(std::span<const ShellValue> before, LaunchCommand& command) {
  std::vector<std::string> words;
  for (const ShellValue& word : before) words.push_back(word.text);
  bool contains = false, is_env = false;
  for (std::size_t at = 0; at < words.size(); ++at) {
    const std::string_view name = basename_of(words[at]);
    // env $(cat FILE), docker run --env-file FILE
    const bool is_file = words[at].starts_with("--env-file=") || (at > 0 && words[at - 1] == "--env-file");
    if (is_file || (is_env && before[at].is_many))
      command.notes.push_back({fmt::format("{} is not read: what it sets is not known", words[at])});
    is_env |= name == "env";
    contains |= name == "docker" || name == "podman" || name == "nerdctl";
    std::string_view image = words[at];
    if (image.starts_with("--container-image="))
      command.image = image.substr(18);
    else if (contains && is_image(image))
      command.image = image;
    if (is_mpi(words[at])) read_mpi(Words(words).subspan(at), command);
    if (name == "srun") read_srun(Words(words).subspan(at), command);
  }
}

}  // namespace a2asim
