// find_servers: a shell text -> the servers that it starts, over all ways through it: what only the outside decides,
// and what it may give in place of defaults that conditions compare.
#include "model/launch/ways.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "model/launch/launch_text.h"

namespace a2asim {
namespace {

constexpr int kMostWays = 64;
constexpr std::size_t kMostWordsOfServers = 20000;

using Labels = std::vector<std::string>;
using Assumed = std::vector<ShellAlternative>;

// Servers of all ways, each once, with the decisions that all its ways share. Ways that start nothing do not count:
// they end with a usage text.
class Ways {
 public:
  void add(std::vector<LaunchedServer> servers, const Labels& labels, bool is_alternative) {
    if (servers.empty()) return;
    ++ways_;
    for (LaunchedServer& server : servers) {
      const auto same = std::ranges::find_if(
          entries_, [&](const Entry& entry) { return entry.last_way != ways_ && is_same(entry.server, server); });
      if (same == entries_.end()) {
        server.is_alternative = is_alternative;
        entries_.push_back({std::move(server), labels, labels, 1, ways_});
        continue;
      }
      std::erase_if(same->labels,
                    [&](const std::string& label) { return std::ranges::find(labels, label) == labels.end(); });
      ++same->ways;
      same->last_way = ways_;
    }
  }
  std::size_t size() const { return entries_.size(); }

  std::vector<LaunchedServer> take() && {
    std::vector<LaunchedServer> servers;
    for (Entry& entry : entries_) {
      // Where its ways share none: those of the first.
      const Labels& labels = entry.labels.empty() ? entry.first : entry.labels;
      if (entry.ways < ways_) entry.server.condition = fmt::format("{}", fmt::join(labels, ", "));
      servers.push_back(std::move(entry.server));
    }
    return servers;
  }

 private:
  // The engine reads the same of both.
  static bool is_same(const LaunchedServer& a, const LaunchedServer& b) {
    return a.line == b.line && a.command.front_end == b.command.front_end && a.command.argv == b.command.argv &&
           variables_of_engine(a.command) == variables_of_engine(b.command);
  }

  struct Entry {
    LaunchedServer server;
    Labels labels, first;
    int ways = 0;
    int last_way = 0;
  };
  std::vector<Entry> entries_;
  int ways_ = 0;
};

// Walks a text with its own defaults first, then with what the outside may give in their place: one other value, then
// two, ..
class ServerSearch {
 public:
  ServerSearch(std::string_view text, const Environment& given, const ReadShellFile& read_file)
      : text_(text), read_file_(read_file) {
    for (const auto& [name, value] : given.values()) variables_.set_exported(name, {value});
  }

  Result<std::vector<LaunchedServer>> run() {
    for (todo_.push_back({}); !todo_.empty() && !is_full_; todo_.pop_front())
      if (auto done = run_all(todo_.front()); !done) return tl::unexpected(done.error());
    if (ways_.size() == 0) std::swap(ways_, left_out_), notes_.clear();
    std::vector<LaunchedServer> servers = std::move(ways_).take();
    if (is_full_)
      notes_.push_back(
          {fmt::format("values other than the defaults lead to more than {} ways through the text: not all of them "
                       "are looked at; --env NAME=VALUE chooses one",
                       kMostWays),
           true});
    if (!servers.empty())
      servers.front().command.notes.insert(servers.front().command.notes.end(), notes_.begin(), notes_.end());
    return servers;
  }
  const std::string& unread() const { return unread_; }

 private:
  Result<void> run_all(const Assumed& assumed) {
    ShellChoices choices(assumed);
    ShellVariables variables = variables_;
    assume(variables, assumed);
    std::string first;  // of the decisions
    do {
      if (--left_ < 0 && !assumed.empty()) {
        is_full_ = true;
        return {};
      }
      if (left_ < 0)
        return fail(
            ErrorKind::bad_input,
            fmt::format("the text has more than {} ways through that only the outside decides, such as {}: set the "
                        "variables with --env, or give the command that it starts",
                        kMostWays, first));
      Result<ServersOfWay> way = run_way(text_, variables, choices, read_file_);
      if (!way && !assumed.empty())
        return fail(ErrorKind::bad_input, fmt::format("if {}: {}", assumed.front().label, way.error().message));
      if (!way) return tl::unexpected(way.error());
      if (first.empty() && !choices.labels().empty()) first = choices.labels().front();
      if (way->unread && unread_.empty()) unread_ = *way->unread;
      add(std::move(*way), choices, assumed);
      if (ways_.size() > kMostServersOfText)
        return fail(ErrorKind::bad_input,
                    fmt::format("the text starts more than {} servers: give them apart", kMostServersOfText));
    } while (choices.next());
    return {};
  }

  void add(ServersOfWay way, const ShellChoices& choices, const Assumed& assumed) {
    Labels labels;
    const auto add_label = [&](const std::string& label) {
      if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
    };
    const auto is_assumed = [&](const ShellAlternative& one) {
      return std::ranges::find(assumed, one.root, &ShellAlternative::root) != assumed.end();
    };
    for (const ShellAlternative& one : assumed) add_label(one.label);
    for (const ShellAlternative& one : choices.offered())
      if (!is_assumed(one)) add_label(one.usual), usual_.emplace(one.root, one.usual);
    for (const std::string& label : choices.labels()) add_label(label);
    for (const LaunchedServer& server : way.left_out)
      if (notes_.size() < kMostNotes)
        notes_.push_back(
            {fmt::format("if {}, the server of line {} takes that value, which is not known, and is not "
                         "looked at: give it with --env",
                         fmt::join(labels, ", "), server.line)});
    ways_.add(std::move(way.servers), labels, !assumed.empty());
    left_out_.add(std::move(way.left_out), labels, !assumed.empty());
    for (const ShellAlternative& one : choices.offered()) plan(one, assumed);
  }

  // The same again, with this value, too. One value that is assumed gives way to another one that is known.
  void plan(const ShellAlternative& one, Assumed assumed) {
    const bool is_assumed = std::ranges::find(assumed, one.root, &ShellAlternative::root) != assumed.end();
    if (is_assumed && (!one.excluded.empty() || one.label == usual_[one.root])) return;
    std::erase_if(assumed, [&](const ShellAlternative& other) { return other.root == one.root; });
    assumed.push_back(one);
    std::set<std::string> key;
    for (const ShellAlternative& other : assumed)
      key.insert(fmt::format("{}\n{}\n{}", other.root, other.value, fmt::join(other.excluded, "\n")));
    if (planned_.insert(std::move(key)).second && todo_.size() <= kMostWays) todo_.push_back(std::move(assumed));
  }

  static constexpr std::size_t kMostNotes = 4;
  std::string_view text_;
  const ReadShellFile& read_file_;
  ShellVariables variables_;
  std::deque<Assumed> todo_;
  std::set<std::set<std::string>> planned_;
  std::map<std::string, std::string> usual_;  // labels of defaults, by root
  Ways ways_, left_out_;
  std::vector<Note> notes_;
  std::string unread_;
  int left_ = kMostWays;
  bool is_full_ = false;
};

Result<std::vector<LaunchedServer>> require_servers(std::vector<LaunchedServer> servers, std::string_view text) {
  for (const LaunchedServer& server : servers)
    if (server.command.argv.size() > kMostWordsOfServers)
      return fail(ErrorKind::bad_input, fmt::format("the command has {} words: give one of at most {}",
                                                    server.command.argv.size(), kMostWordsOfServers));
  if (!servers.empty()) return servers;
  return tl::unexpected<Error>(no_server(text));
}

}  // namespace

Result<std::vector<LaunchedServer>> find_servers(std::string_view text, const Environment& given,
                                                 const ReadShellFile& read_file) {
  if (auto error = check_launch_text(text)) return tl::unexpected<Error>(std::move(*error));
  ServerSearch search(text, given, read_file);
  Result<std::vector<LaunchedServer>> servers = search.run();
  if (!servers) return servers;
  if (servers->empty() && !search.unread().empty())
    return fail(ErrorKind::bad_input,
                fmt::format("the text itself starts no server; {} give the command that it starts", search.unread()));
  return require_servers(std::move(*servers), text);
}

Result<std::vector<LaunchedServer>> find_servers(std::string_view text, const Environment& given) {
  return find_servers(text, given, {});
}

LaunchCommand first_of(std::vector<LaunchedServer> servers) {
  LaunchCommand first = std::move(servers.front().command);
  if (servers.size() > 1)
    first.notes.push_back({fmt::format("the text starts {} servers: only the first one is looked at", servers.size())});
  return first;
}

Result<LaunchCommand> parse_launch_command(std::string_view text) {
  auto servers = find_servers(text);
  if (!servers) return tl::unexpected(servers.error());
  return first_of(std::move(*servers));
}

Result<LaunchedServer> find_server_in_words(std::span<const std::string> words) {
  std::string joined;
  std::vector<ShellValue> filled;
  ShellVariables variables;
  for (const std::string& word : words) {
    if (auto error = check_launch_text(word)) return tl::unexpected<Error>(std::move(*error));
    joined += (joined.empty() ? "" : " ") + word;
    filled.push_back({take_defaults(word, variables.defaults)});
  }
  if (auto error = check_launch_text(joined)) return tl::unexpected<Error>(std::move(*error));
  Result<ServersOfWay> found = run_words(filled);
  if (!found) return tl::unexpected(found.error());
  auto servers = require_servers(std::move(found->servers), joined);
  if (!servers) return tl::unexpected(servers.error());
  LaunchedServer server = std::move(servers->front());
  server.line = 0;  // of no file
  std::vector<Note>& notes = server.command.notes;
  for (const auto& [name, value] : variables.defaults)
    notes.insert(notes.begin(),
                 {fmt::format("{} is not set, so that the default written there counts: {}", name, value)});
  return server;
}

Result<LaunchCommand> parse_launch_words(std::span<const std::string> words) {
  if (words.size() == 1 && words.front().find_first_of(" \t\n") != std::string::npos)
    return parse_launch_command(words.front());
  Result<LaunchedServer> server = find_server_in_words(words);
  if (!server) return tl::unexpected(server.error());
  return std::move(server->command);
}

}  // namespace a2asim
