#include "tools/from_log/from_log_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "model/engines/sglang/start/server_args.h"
#include "tools/program/input.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

// f"{server_args=}"; the class's name alone stands in error messages too. From v0.5.20 on it is a dictionary.
constexpr std::string_view kServerArgs = "server_args=";
constexpr int kMostNested = 8;  // of dictionaries in each other

// Length of the Python string literal at the front, quotes included; npos when it does not end.
std::size_t literal_length(std::string_view text) {
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == text[0]) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

// Where the value at the front ends: at a comma or a closing bracket that is not its own. npos: never.
std::size_t value_length(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\'' || c == '"') {
      const std::size_t length = literal_length(text.substr(at));
      if (length == std::string_view::npos) return length;
      at += length - 1;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}')) {
      return at;
    } else if (c == ')' || c == ']' || c == '}') {
      --depth;
    }
  }
  return std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

// The words that a scenario takes have no escapes.
std::optional<std::string> word(std::string_view text) {
  if (text.size() < 2 || (text[0] != '\'' && text[0] != '"')) return std::nullopt;
  const std::string_view inner = text.substr(1, text.size() - 2);
  if (!is_word(inner)) return std::nullopt;
  return std::string(inner);
}

// Nothing: an entry is no number, or outside min..max.
std::optional<std::vector<std::int64_t>> integers(std::string_view text, const ParallelField& field) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  std::string_view rest = text.substr(1, text.size() - 2);
  std::vector<std::int64_t> values;
  while (!trimmed(rest).empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::optional<std::int64_t> value = integer(trimmed(rest.substr(0, end)));
    if (!value || *value < field.min || *value > field.max) return std::nullopt;
    values.push_back(*value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return values;
}

// Where a field stands that versions name differently: --cuda-graph-config is a dictionary of phases.
constexpr std::pair<std::string_view, std::string_view> kNested[] = {
    {"cuda_graph_max_bs", "cuda_graph_config.decode.max_bs"},
    {"cuda_graph_bs", "cuda_graph_config.decode.bs"},
    {"cuda_graph_backend_decode", "cuda_graph_config.decode.backend"},
};

// The logged spelling of a field: its own name, or one that some version gives it (cuda_graph_bs_decode).
const std::string* find(const LoggedArgs& args, std::string_view key) {
  const auto logged = [&](std::string_view name) -> const std::string* {
    const auto found = args.find(name);
    return found != args.end() && found->second != "None" ? &found->second : nullptr;
  };
  const ServerArgsField* wanted = find_server_args_field(key);
  for (const ServerArgsField& field : server_args_fields()) {
    if (field.dest != key && (wanted == nullptr || field.member != wanted->member)) continue;
    if (const std::string* value = logged(field.dest)) return value;
  }
  for (const auto& [own, nested] : kNested)
    if (own == key) return logged(nested);
  // In a group of its own: 'parallel': {'tp_size': 8}.
  const std::string tail = "." + std::string(key);
  const std::string* only = nullptr;
  for (const auto& [name, value] : args) {
    if (!name.ends_with(tail) || value == "None") continue;
    if (only != nullptr) return nullptr;  // whose it is, the log does not say
    only = &value;
  }
  return only;
}

// False: no value of the field's type, or outside its range.
bool take(Parallel& out, const ParallelField& field, std::string_view text) {
  if (field.integer != nullptr) {
    const std::optional<std::int64_t> value = integer(text);
    if (!value || *value < field.min || *value > field.max) return false;
    out.*field.integer = *value;
  } else if (field.boolean != nullptr) {
    if (text != "True" && text != "False") return false;
    if (text == "True") out.*field.boolean = true;  // False is every flag's default
  } else if (field.word != nullptr) {
    std::optional<std::string> value = word(text);
    if (!value) return false;
    out.*field.word = std::move(value);
  } else {
    std::optional<std::vector<std::int64_t>> values = integers(text, field);
    if (!values) return false;
    out.*field.list = std::move(*values);
  }
  return true;
}

void undo_division(LoggedDeployment& out) {
  Parallel& parallel = out.parallel;
  const std::int64_t replicas = parallel.attn_dp_size();
  if (replicas < 2 || !parallel.chunked_prefill_size || *parallel.chunked_prefill_size <= 0) return;
  const std::int64_t whole = *parallel.chunked_prefill_size * replicas;
  out.notes.push_back(fmt::format("chunked_prefill_size {} is printed after the division by dp_size {}: written as {}",
                                  *parallel.chunked_prefill_size, replicas, whole));
  parallel.chunked_prefill_size = std::min(whole, kMaxScenarioCount);
}

// What changes the all-to-all and has no field in a scenario's `parallel`.
void note_what_is_lost(const LoggedArgs& args, LoggedDeployment& out) {
  constexpr std::array<std::string_view, 12> lost = {"enable_prefill_cp",
                                                     "enable_nsa_prefill_context_parallel",
                                                     "enable_prefill_context_parallel",
                                                     "disable_attn_tp_gather",
                                                     "enable_attn_tp_input_scattered",
                                                     "ep_num_redundant_experts",
                                                     "elastic_ep_backend",
                                                     "cuda_graph_config",
                                                     "disable_decode_cuda_graph",
                                                     "enable_single_batch_overlap",
                                                     "dwdp_size",
                                                     "enable_waterfill"};
  for (const std::string_view key : lost) {
    const std::string* value = find(args, key);
    if (value == nullptr || *value == "False" || *value == "0" || (key == "dwdp_size" && *value == "1")) continue;
    if (key == "cuda_graph_config" && find(args, "cuda_graph_backend_decode") != nullptr) continue;  // read above
    out.notes.push_back(
        fmt::format("{}={} of the log has no field in a scenario: left out", key, one_line(*value, 60)));
  }
}

// Python's None, True and False, as JSON spells them too.
std::string_view in_python(std::string_view value) {
  if (value == "null") return "None";
  if (value == "true") return "True";
  return value == "false" ? "False" : value;
}

// name=value, .. up to a closing parenthesis, or 'name': value, .. up to a brace. Entries of a dictionary inside get
// names such as "outer.inner". What is behind the end is left in `rest`.
Result<void> read_fields(std::string_view& rest, bool is_dictionary, const std::string& prefix, LoggedArgs& args,
                         int depth) {
  const auto cut = [] { return unusable("server_args is not closed: the line is cut"); };
  const char end = is_dictionary ? '}' : ')';
  while (true) {
    rest = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.starts_with(end)) {
      rest.remove_prefix(1);
      return {};
    }
    std::size_t name_end = rest.find('=');
    if (is_dictionary) {
      const bool is_quoted = rest.starts_with('\'') || rest.starts_with('"');
      const std::size_t length = is_quoted ? literal_length(rest) : std::string_view::npos;
      name_end = length == std::string_view::npos ? length : rest.find(':', length);
    }
    if (name_end == std::string_view::npos) return cut();
    std::string_view name = trimmed(rest.substr(0, name_end));
    if (is_dictionary) name = name.substr(1, name.size() - 2);
    rest.remove_prefix(name_end + 1);
    rest = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.starts_with('{') && depth < kMostNested) {
      std::string_view inside = rest.substr(1);
      LoggedArgs nested;
      if (read_fields(inside, true, prefix + std::string(name) + ".", nested, depth + 1)) args.merge(nested);
    }
    const std::size_t length = value_length(rest);
    if (length == std::string_view::npos) return cut();
    args.emplace(prefix + std::string(name), in_python(trimmed(rest.substr(0, length))));
    rest.remove_prefix(length);
    if (rest.starts_with(','))
      rest.remove_prefix(1);
    else if (!rest.starts_with(end))
      return unusable("server_args has a bracket too many");
  }
}

}  // namespace

Result<std::optional<LoggedArgs>> read_server_args(std::string_view line) {
  const std::size_t start = line.find(kServerArgs);
  if (start == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(start + kServerArgs.size());
  constexpr std::string_view kClass = "ServerArgs(";
  const bool is_dictionary = rest.starts_with('{');
  if (!is_dictionary && !rest.starts_with(kClass)) return std::nullopt;
  rest.remove_prefix(is_dictionary ? 1 : kClass.size());
  LoggedArgs args;
  if (auto read = read_fields(rest, is_dictionary, "", args, 0); !read) return tl::unexpected(read.error());
  return args;
}

Result<LoggedDeployment> deployment_from(const LoggedArgs& args) {
  LoggedDeployment out;
  for (const ParallelField& field : parallel_fields()) {
    const std::string* value = field.flag.empty() ? nullptr : find(args, field.key);
    if (value == nullptr) continue;
    if (take(out.parallel, field, *value)) continue;
    if (field.word == nullptr)
      return unusable(
          fmt::format("{}={} in server_args is not what a scenario takes; give the launch command with "
                      "--launch",
                      field.key, one_line(*value, 60)));
    out.notes.push_back(
        fmt::format("{}={} of the log cannot stand in a scenario: left out", field.key, one_line(*value, 60)));
  }
  const std::string* backend = find(args, "cuda_graph_backend_decode");
  if (backend != nullptr && *backend == "'disabled'") out.parallel.disable_cuda_graph = true;
  if (const std::string* path = find(args, "model_path"); path != nullptr && path->size() >= 2)
    out.model_path = path->substr(1, path->size() - 2);
  if (const auto interval = args.find("decode_log_interval"); interval != args.end()) {
    const std::optional<std::int64_t> value = integer(interval->second);
    if (value && *value > 0) out.decode_log_interval = {*value, true};
  }
  const auto count = [&](std::string_view key) {
    const auto found = args.find(key);
    return found == args.end() ? std::nullopt : integer(found->second);
  };
  out.nodes = {count("nnodes").value_or(1), count("node_rank").value_or(0)};
  undo_division(out);
  note_what_is_lost(args, out);
  return out;
}

bool same_deployment(const LoggedArgs& a, const LoggedArgs& b) {
  return std::ranges::all_of(parallel_fields(), [&](const ParallelField& field) {
    const std::string* in_a = field.flag.empty() ? nullptr : find(a, field.key);
    const std::string* in_b = field.flag.empty() ? nullptr : find(b, field.key);
    return (in_a == nullptr) == (in_b == nullptr) && (in_a == nullptr || *in_a == *in_b);
  });
}

}  // namespace a2asim
