#include "model/engines/sglang/start/server_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "model/base/json_reader.h"
#include "model/base/nearest.h"
#include "model/base/one_line.h"
#include "model/launch/argparse.h"

namespace a2asim {
namespace {

using What = ArgparseProblem::What;

// ---- from argparse's namespace to ServerArgs

template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

void assign_list(ServerArgs::OptionalInts& target, const Value& value) {
  if (!value.is_list) return target.reset();
  target.emplace();
  for (const Scalar& item : value.list)
    if (const auto* number = std::get_if<std::int64_t>(&item)) target->push_back(*number);
}

// None leaves an optional empty; a field that cannot be None keeps its default.
template <class T>
void assign_scalar(T& target, const Scalar& scalar) {
  if constexpr (is_optional<T>::value) {
    target.reset();
    typename T::value_type value{};
    if (std::holds_alternative<std::monostate>(scalar)) return;
    assign_scalar(value, scalar);
    target = value;
  } else if constexpr (std::is_same_v<T, double>) {
    if (const auto* number = std::get_if<double>(&scalar)) target = *number;
    if (const auto* number = std::get_if<std::int64_t>(&scalar)) target = static_cast<double>(*number);
  } else {
    if (const auto* value = std::get_if<T>(&scalar)) target = *value;
  }
}

void assign(ServerArgs& args, const ServerArgsField& field, const Value& value) {
  std::visit(
      [&](auto member) {
        auto& target = args.*member;
        if constexpr (std::is_same_v<std::remove_reference_t<decltype(target)>, ServerArgs::OptionalInts>)
          assign_list(target, value);
        else
          assign_scalar(target, value.scalar);
      },
      field.member);
}

ServerArgs to_server_args(const OptionSet& options, const ParsedNamespace& parsed) {
  ServerArgs args;
  for (const ServerArgsField& field : server_args_fields()) {
    const auto given = parsed.values.find(field.dest);
    const auto standard = options.defaults().find(field.dest);
    if (given != parsed.values.end())
      assign(args, field, given->second);
    else if (standard != options.defaults().end())
      assign(args, field, standard->second);
  }
  return args;
}

// ---- lenient reading: what argparse cannot say clearly, and what a person's command may hold

// A value like $TP, `nproc` or <TP> was meant to be filled in by a shell or a person.
bool is_unfilled(std::string_view text) {
  return text.find_first_of("$`") != std::string_view::npos || (text.starts_with('<') && text.ends_with('>'));
}

// Kept in ServerArgs, but no verdict needs them; or a missing value leaves a limit open, which is said in a note.
constexpr std::string_view kMayBeUnknown[] = {
    "model_path",          "context_length",       "nnodes",       "node_rank",
    "page_size",           "mem_fraction_static",  "max_total_tokens", "schedule_conservativeness",
    "load_balance_method", "max_running_requests", "cuda_graph_max_bs", "cuda_graph_max_bs_decode",
};
// No fields of their own, but read: see read_graph_aliases.
constexpr std::string_view kNeededAliases[] = {"decode_cuda_graph_backend", "prefill_cuda_graph_backend"};

bool verdict_needs(std::string_view dest) {
  if (std::ranges::find(kNeededAliases, dest) != std::end(kNeededAliases)) return true;
  return find_server_args_field(dest) != nullptr && std::ranges::find(kMayBeUnknown, dest) == std::end(kMayBeUnknown);
}

constexpr std::size_t kMostShown = 1000;  // bytes of a message that quotes the command

Error explain(const ArgparseProblem& full, OptionList list) {
  const ArgparseProblem problem{full.what, one_line(full.text, kMostShown), full.argument};
  if (is_unfilled(problem.argument))
    return {ErrorKind::bad_input,
            fmt::format("{}; the command does not set this shell variable: write its value, which the "
                        "verdict needs", problem.text)};
  switch (problem.what) {
    case What::invalid_choice:
      return {ErrorKind::parse_error,
              fmt::format("SGLang of {} refuses to start: {}", description(list), problem.text)};
    case What::ambiguous:
      return {ErrorKind::bad_input, problem.text + "; write the option out"};
    case What::invalid_value:
      return {ErrorKind::bad_input, problem.text + "; give it a value of that kind"};
    case What::missing_value:
      return {ErrorKind::bad_input, problem.text + "; write the value behind it"};
    case What::too_large:
      return {ErrorKind::bad_input, problem.text + "; write a smaller number"};
    case What::unexpected_value:
      return {ErrorKind::bad_input, problem.text + "; the option takes no value: write it alone"};
    case What::help:
      return {ErrorKind::bad_input, "the command only asks for help: it starts no server"};
    default:
      return {ErrorKind::bad_input, problem.text};
  }
}

struct Bound {
  std::string_view dest;
  ServerArgs::Int ServerArgs::* member;
};
constexpr Bound kSizes[] = {
    {"tp_size", &ServerArgs::tp_size},           {"dp_size", &ServerArgs::dp_size},
    {"ep_size", &ServerArgs::ep_size},           {"pp_size", &ServerArgs::pp_size},
    {"attn_cp_size", &ServerArgs::attn_cp_size}, {"moe_dp_size", &ServerArgs::moe_dp_size},
    {"dcp_size", &ServerArgs::dcp_size},         {"nnodes", &ServerArgs::nnodes},
};
constexpr std::int64_t kMostRanks = 65536;         // far above any cluster; keeps later sums inside int64
constexpr std::int64_t kMostGraphBatch = 1 << 20;  // one graph a bucket: nobody captures this many
constexpr std::int64_t kMostCount = std::numeric_limits<std::int32_t>::max();

std::string option_of(std::string_view dest) {
  std::string option = "--" + std::string(dest);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

std::optional<Error> outside(std::string_view dest, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return std::nullopt;
  return Error{ErrorKind::bad_input,
               fmt::format("{} {}: give a number from {} to {}", option_of(dest), value, least, most)};
}

std::optional<Error> check_numbers(const ServerArgs& args) {
  for (const Bound& size : kSizes)
    if (auto error = outside(size.dest, args.*size.member, 1, kMostRanks)) return error;
  if (args.moe_dense_tp_size)
    if (auto error = outside("moe_dense_tp_size", *args.moe_dense_tp_size, 1, kMostRanks)) return error;
  for (const auto* sizes : {&args.cuda_graph_bs, &args.cuda_graph_bs_prefill})
    for (const std::int64_t size : sizes->value_or(std::vector<std::int64_t>{}))
      if (auto error = outside("cuda_graph_bs", size, 1, kMostGraphBatch)) return error;
  for (const auto& size : {args.cuda_graph_max_bs, args.cuda_graph_max_bs_prefill})
    if (auto error = outside("cuda_graph_max_bs", size.value_or(0), 0, kMostGraphBatch)) return error;
  for (const ServerArgsField& field : server_args_fields()) {
    std::int64_t value = 0;
    if (const auto* plain = std::get_if<ServerArgs::Int ServerArgs::*>(&field.member)) value = args.**plain;
    if (const auto* optional = std::get_if<ServerArgs::OptionalInt ServerArgs::*>(&field.member))
      value = (args.**optional).value_or(0);
    if (auto error = outside(field.dest, value, -kMostCount, kMostCount)) return error;
  }
  return std::nullopt;
}

Note note_unknown(std::string_view word, OptionList list) {
  const std::string_view option = word.substr(0, word.find('='));
  if (const std::string others = lists_with(option); !others.empty())
    return {fmt::format("{} does not exist in SGLang of {}, only in {}: ignored", option, description(list), others)};
  std::vector<std::string_view> names;
  for (const OptionSet::Option& known : option_set(list).options()) names.push_back(known.string);
  const std::string_view meant = nearest(option, names);
  return {fmt::format("{} is no option that is known here{}: ignored", one_line(option),
                      meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant))};
}

constexpr std::size_t kMostNoted = 20;

// What argparse calls unrecognized: options nobody knows with their values, and stray words.
void note_extras(const ParsedNamespace& parsed, OptionList list, ParsedArgs& result) {
  const auto given = [&](std::string_view dest) { return result.given.contains(dest); };
  std::set<std::string_view> noted;
  bool after_unknown = false;
  for (const std::string& word : parsed.extras) {
    if (word == "--enable-deepep-moe") {  // until autumn 2025
      if (!given("moe_a2a_backend")) result.args.moe_a2a_backend = "deepep";
      result.notes.push_back({"--enable-deepep-moe is an old spelling: read as --moe-a2a-backend deepep"});
    } else if (word == "--enable-ep-moe") {
      if (!given("ep_size") && !given("expert_parallel_size")) result.args.ep_size = result.args.tp_size;
      result.notes.push_back(
          {"--enable-ep-moe is an old spelling: read as expert parallelism over all of tp_size, "
           "without an all-to-all"});
    } else if (word.starts_with("-") && word != "--") {
      // Each is compared with every option that there is: of very many the first say enough.
      if (noted.size() < kMostNoted && noted.insert(word).second) result.notes.push_back(note_unknown(word, list));
      result.unrecognized.push_back(word);
      after_unknown = true;
      continue;
    } else if (is_unfilled(word) && !after_unknown) {
      result.notes.push_back({fmt::format("{} is not set in the command: whatever options it holds are not known here, "
                                          "and have no part in the verdict",
                                          one_line(word)),
                              true});
    } else if (!after_unknown) {
      result.notes.push_back({fmt::format("{} belongs to no option: ignored", one_line(python_repr(word)))});
      result.unrecognized.push_back(word);
    }
    after_unknown = after_unknown && !word.starts_with("-");
  }
}

void note_repeated(const ParsedNamespace& parsed, ParsedArgs& result) {
  std::set<std::string_view> noted;
  for (auto use = parsed.uses.begin(); use != parsed.uses.end(); ++use) {
    const auto same = [&](const FlagUse& other) { return other.flag->dest == use->flag->dest; };
    if (use->flag->nargs == FlagNargs::zero || noted.contains(use->flag->dest)) continue;
    if (std::none_of(use + 1, parsed.uses.end(), same)) continue;
    noted.insert(use->flag->dest);
    result.notes.push_back({fmt::format("{} is given {} times: the last one counts", use->option_string,
                                        std::count_if(parsed.uses.begin(), parsed.uses.end(), same))});
  }
}

void read_phase(const nlohmann::json& phase, ServerArgs::OptionalString& backend, ServerArgs::OptionalInt& max_bs,
                ServerArgs::OptionalInts& bs) {
  if (!phase.is_object()) return;
  const auto is_count = [](const nlohmann::json& value) {
    return value.is_number_integer() && value >= 0 && value <= kMostCount;
  };
  if (const auto found = phase.find("backend"); !backend && found != phase.end() && found->is_string())
    backend = found->get<std::string>();
  if (const auto found = phase.find("max_bs"); !max_bs && found != phase.end() && is_count(*found))
    max_bs = found->get<std::int64_t>();
  if (const auto found = phase.find("bs"); !bs && found != phase.end() && found->is_array()) {
    bs.emplace();
    for (const auto& size : *found)
      if (is_count(size)) bs->push_back(size.get<std::int64_t>());
  }
}

// --cuda-graph-config and the option names that only June had say what the per-phase options say; those win.
void read_graph_aliases(const ParsedNamespace& parsed, ServerArgs& args) {
  const auto string = [&](std::string_view dest) -> std::optional<std::string> {
    const auto found = parsed.values.find(dest);
    const auto* text = found == parsed.values.end() ? nullptr : std::get_if<std::string>(&found->second.scalar);
    return text ? std::optional(*text) : std::nullopt;
  };
  if (!args.cuda_graph_backend_decode) args.cuda_graph_backend_decode = string("decode_cuda_graph_backend");
  if (!args.cuda_graph_backend_prefill) args.cuda_graph_backend_prefill = string("prefill_cuda_graph_backend");
  if (!args.cuda_graph_config) return;
  const Result<nlohmann::json> config = read_json(*args.cuda_graph_config);
  if (!config || !config->is_object()) return;
  read_phase(config->value("decode", nlohmann::json()), args.cuda_graph_backend_decode, args.cuda_graph_max_bs,
             args.cuda_graph_bs);
  read_phase(config->value("prefill", nlohmann::json()), args.cuda_graph_backend_prefill,
             args.cuda_graph_max_bs_prefill, args.cuda_graph_bs_prefill);
}

Result<ParsedArgs> finish_lenient(OptionList list, const ParsedNamespace& parsed, ParsedArgs result) {
  note_extras(parsed, list, result);
  note_repeated(parsed, result);
  read_graph_aliases(parsed, result.args);
  if (result.given.contains("config"))
    result.notes.push_back({"--config: the file is not read; give its options here"});
  if (!result.args.model_path) result.notes.push_back({"--model-path is missing: SGLang needs it to start"});
  if (auto error = check_numbers(result.args)) return tl::unexpected<Error>(std::move(*error));
  return result;
}

}  // namespace

Result<ParsedArgs> parse_server_args(OptionList list, std::span<const std::string> argv, ParseMode mode) {
  const bool strict = mode == ParseMode::strict;
  const OptionSet& options = option_set(list);
  std::vector<Note> unknown;
  const Excuse leave_out = [&](const Flag& flag, const ArgparseProblem& problem) {
    if (!is_unfilled(problem.argument) || verdict_needs(flag.dest)) return false;
    unknown.push_back({fmt::format("{} {}: the command does not set this value; the option is left out",
                                   display_name(flag), one_line(problem.argument))});
    return true;
  };
  const auto parsed = parse_known_args(options, argv, strict ? RequiredCheck::yes : RequiredCheck::no,
                                       strict ? Excuse() : leave_out);
  if (!parsed)
    return tl::unexpected<Error>(strict ? Error{ErrorKind::parse_error, "launch_server: error: " + parsed.error().text}
                                        : explain(parsed.error(), list));
  if (strict && !parsed->extras.empty())
    return fail(ErrorKind::parse_error,
                fmt::format("launch_server: error: unrecognized arguments: {}", fmt::join(parsed->extras, " ")));
  ParsedArgs result;
  result.args = to_server_args(options, *parsed);
  for (const FlagUse& use : parsed->uses) result.given.emplace(use.flag->dest);
  if (strict) return result;
  result.notes = std::move(unknown);
  return finish_lenient(list, *parsed, std::move(result));
}

}  // namespace a2asim
