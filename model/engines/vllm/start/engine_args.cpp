#include "model/engines/vllm/start/engine_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/nearest.h"
#include "model/base/one_line.h"
#include "model/engines/vllm/start/options.h"

namespace a2asim::vllm {
namespace {

using Json = nlohmann::json;
using What = ArgparseProblem::What;

constexpr std::int64_t kMostRanks = 4096;
constexpr std::int64_t kMostCount = (std::int64_t{1} << 31) - 1;

Json parse_json(const std::string& text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

// --compilation-config.cudagraph_mode FULL, or -cc.cudagraph_mode=FULL: parts of the option's JSON value.
struct Dotted {
  std::map<std::string, Json> values;  // by option, as written up to the dot

  void set(std::string_view option, std::string_view path, const std::string& text) {
    Json value = parse_json(text);
    if (value.is_discarded()) value = text;
    Json* at = &values.try_emplace(std::string(option), Json::object()).first->second;
    while (!path.empty()) {
      const std::size_t dot = path.find('.');
      at = &(*at)[std::string(path.substr(0, dot))];
      path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
      if (!path.empty() && !at->is_object()) *at = Json::object();
    }
    *at = std::move(value);
  }
};

// Underscores of the name up to its first dot become dashes.
std::string with_dashes(std::string word) {
  const std::size_t end = std::min(word.find('='), word.find('.'));
  std::replace(word.begin() + 2, word.begin() + static_cast<std::ptrdiff_t>(std::min(end, word.size())), '_', '-');
  return word;
}

// The words as argparse gets them.
std::vector<std::string> processed(std::span<const std::string> argv) {
  std::vector<std::string> words;
  Dotted dotted;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    std::string word = argv[i];
    if (word.starts_with("--") && word.size() > 2) word = with_dashes(std::move(word));
    const std::size_t equals = word.find('=');
    const std::size_t dot = word.find('.');
    const bool is_level = word.starts_with("-O") && word.size() > 2 && word[2] != '.';
    const std::string_view before = words.empty() ? "" : std::string_view(words.back());
    if (word == "--max-model-len=auto" || (word == "auto" && before == "--max-model-len")) {
      words.emplace_back(word == "auto" ? "-1" : "--max-model-len=-1");  // both mean: what fits into memory
    } else if (is_level) {
      words.insert(words.end(), {"--optimization-level", word.substr(word[2] == '=' ? 3 : 2)});
    } else if (word == "-O" && i + 1 < argv.size() && argv[i + 1].size() == 1 && std::isdigit(argv[i + 1][0]) != 0) {
      words.emplace_back("--optimization-level");
    } else if (word.starts_with('-') && word.size() > 1 && std::isalpha(word[1] == '-' ? word[2] : word[1]) != 0 &&
               dot < equals && (equals != std::string::npos || i + 1 < argv.size())) {
      const std::string name = word.substr(0, equals);
      dotted.set(name.substr(0, dot), std::string_view(name).substr(dot + 1),
                 equals != std::string::npos ? word.substr(equals + 1) : argv[++i]);
    } else {
      words.push_back(std::move(word));
    }
  }
  for (const auto& [option, value] : dotted.values) words.insert(words.end(), {option, value.dump()});
  return words;
}

// A value like $TP or <TP> was meant to be filled in.
bool is_unfilled(std::string_view text) {
  return text.find_first_of("$`") != std::string_view::npos || (text.starts_with('<') && text.ends_with('>'));
}

// One command as it is read into fields.
class Reader {
 public:
  Reader(const Generation& generation, const LaunchCommand& command)
      : generation_(generation), is_server_(command.front_end == nullptr || command.front_end->is_server) {
    out_.args.batch.is_offline = command.front_end != nullptr && command.front_end->subcommand == "bench";
    takes_model_ = command.front_end != nullptr && !command.front_end->model_option.empty();
  }

  Result<ReadArgs> read(std::span<const std::string> argv) {
    const std::vector<std::string> words = processed(argv);
    const Excuse leave_out = [&](const Flag& flag, const ArgparseProblem& problem) {
      if (!is_unfilled(problem.argument) || needed(flag.dest)) return false;
      note(fmt::format("--{} {}: the command does not set this value; the option is left out", flag.dest,
                       one_line(problem.argument, 60)));
      return true;
    };
    auto parsed = parse_known_args(options(), words, RequiredCheck::no, leave_out);
    if (!parsed) return explain(parsed.error());
    parsed_ = std::move(*parsed);
    if (auto error = take_extras()) return tl::unexpected<Error>(std::move(*error));
    refuse_options_of_other_versions();
    if (auto error = take_fields()) return tl::unexpected<Error>(std::move(*error));
    return std::move(out_);
  }

 private:
  static bool needed(std::string_view dest) {
    constexpr std::string_view kNeeded[] = {"tensor-parallel-size", "data-parallel-size", "pipeline-parallel-size",
                                            "prefill-context-parallel-size"};
    return std::ranges::find(kNeeded, dest) != std::end(kNeeded);
  }

  void note(std::string message, bool is_warning = false) { out_.notes.push_back({std::move(message), is_warning}); }

  Result<ReadArgs> explain(const ArgparseProblem& problem) {
    const std::string text = one_line(problem.text, 300);
    if (is_unfilled(problem.argument))
      return fail(ErrorKind::bad_input, text +
                                            "; the command does not set this shell variable: write its value, which "
                                            "the verdict needs");
    switch (problem.what) {
      case What::help:
        return fail(ErrorKind::bad_input, "the command only asks for help: it starts no server");
      case What::ambiguous:
        return fail(ErrorKind::bad_input, text + "; write the option out");
      case What::missing_value:
        return fail(ErrorKind::bad_input, text + "; write the value behind it");
      case What::too_large:
        return fail(ErrorKind::bad_input, text + "; write a smaller number");
      default:
        return fail(ErrorKind::bad_input, text + "; give it a value of that kind");
    }
  }

  // Plain words: the model of `vllm serve MODEL`, or nothing that argparse takes. Unknown options: an error where the
  // version is the newest known one, else the parser of that version refuses them.
  std::optional<Error> take_extras() {
    std::vector<std::string> unknown;
    bool behind_unknown = false;
    for (const std::string& word : parsed_.extras) {
      const bool is_option = word.starts_with('-') && word.size() > 1;
      if (is_option) {
        unknown.push_back(word);
        behind_unknown = true;
      } else if (takes_model_ && out_.args.model.empty() && !text("model") && !behind_unknown) {
        out_.args.model = word;
      } else if (!behind_unknown && is_server_) {
        unknown.push_back(word);
      }
    }
    if (unknown.empty()) return std::nullopt;
    const std::string words = one_line(fmt::format("{}", fmt::join(unknown, " ")), 200);
    if (!is_server_) {
      note(fmt::format("{}: not an option of the engine, and has no part in the verdict", words));
      return std::nullopt;
    }
    return Error{ErrorKind::bad_input, fmt::format("{} is no option of vLLM up to {}: {}", words,
                                                   generations().back().name, meant_instead(unknown.front()))};
  }

  static std::string meant_instead(std::string_view option) {
    std::vector<std::string_view> names;
    for (const OptionSet::Option& known : options().options()) names.push_back(known.string);
    const std::string_view meant = nearest(option.substr(0, option.find('=')), names);
    return meant.empty() ? "leave it out" : fmt::format("did you mean {}?", meant);
  }

  void refuse_options_of_other_versions() {
    for (const FlagUse& use : parsed_.uses) {
      if (knows(generation_, use.flag->dest) || !is_server_) continue;
      out_.refused = Error{ErrorKind::parse_error,
                           fmt::format("vllm serve: error: unrecognized arguments: {}", use.option_string)};
      return;
    }
  }

  const Value* find(std::string_view dest) const {
    const auto found = parsed_.values.find(dest);
    return found == parsed_.values.end() ? nullptr : &found->second;
  }
  std::optional<std::int64_t> number(std::string_view dest) const {
    const Value* value = find(dest);
    const auto* number = value == nullptr ? nullptr : std::get_if<std::int64_t>(&value->scalar);
    return number == nullptr ? std::nullopt : std::optional(*number);
  }
  std::optional<std::string> text(std::string_view dest) const {
    const Value* value = find(dest);
    const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->scalar);
    return text == nullptr ? std::nullopt : std::optional(*text);
  }
  bool flag(std::string_view dest) const {
    const Value* value = find(dest);
    const auto* set = value == nullptr ? nullptr : std::get_if<bool>(&value->scalar);
    return set != nullptr && *set;
  }
  std::optional<std::vector<std::int64_t>> numbers(std::string_view dest) const {
    const Value* value = find(dest);
    if (value == nullptr) return std::nullopt;
    std::vector<std::int64_t> out;
    for (const Scalar& item : value->list)
      if (const auto* number = std::get_if<std::int64_t>(&item)) out.push_back(*number);
    if (const auto* number = std::get_if<std::int64_t>(&value->scalar)) out.push_back(*number);
    return out;
  }

  // An option whose value is a JSON object. Errors: it is none.
  Result<Json> object(std::string_view dest) const {
    const auto given = text(dest);
    if (!given) return Json::object();
    Json value = parse_json(*given);
    if (value.is_number_integer() && dest == "compilation-config") return Json{{"level", value}};
    if (value.is_object()) return value;
    return fail(ErrorKind::bad_input,
                fmt::format("--{} {}: give a JSON object, as in '{{\"key\": 1}}'", dest, one_line(*given, 60)));
  }
  // pydantic takes "32" for 32.
  static std::optional<std::int64_t> number_in(const Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return std::nullopt;
    if (found->is_number_integer()) return found->get<std::int64_t>();
    if (!found->is_string()) return std::nullopt;
    const PythonInt value = python_int(found->get<std::string>());
    return value.status == PythonInt::Status::ok ? std::optional(value.value) : std::nullopt;
  }

  std::optional<Error> take_sizes() {
    struct Bound {
      std::string_view dest;
      std::int64_t* into;
    };
    ParallelArgs& p = out_.args.parallel;
    const Bound sizes[] = {{"tensor-parallel-size", &p.sizes.tp},
                           {"pipeline-parallel-size", &p.sizes.pp},
                           {"data-parallel-size", &p.sizes.dp},
                           {"prefill-context-parallel-size", &p.sizes.pcp},
                           {"decode-context-parallel-size", &p.sizes.dcp},
                           {"nnodes", &out_.args.nnodes}};
    for (const Bound& size : sizes) {
      *size.into = number(size.dest).value_or(1);
      if (*size.into < 1 || *size.into > kMostRanks)
        return Error{ErrorKind::bad_input,
                     fmt::format("--{} {}: give a number from 1 to {}", size.dest, *size.into, kMostRanks)};
    }
    if (p.sizes.flat() * p.sizes.pp > kMostRanks)
      return Error{ErrorKind::bad_input,
                   fmt::format("{} ranks: give at most {}", p.sizes.flat() * p.sizes.pp, kMostRanks)};
    for (const std::string_view dest : {"max-num-seqs", "max-num-batched-tokens", "max-model-len"})
      if (const auto value = number(dest);
          value && (*value < (dest == "max-model-len" ? -1 : 1) || *value > kMostCount))
        return Error{ErrorKind::bad_input,
                     fmt::format("--{} {}: give a number from 1 to {}", dest, *value, kMostCount)};
    return std::nullopt;
  }

  std::optional<Error> take_fields() {
    EngineArgs& args = out_.args;
    if (auto error = take_sizes()) return error;
    if (const auto model = text("model")) args.model = *model;
    ParallelArgs& p = args.parallel;
    p.all2all_backend = text("all2all-backend");
    p.enable_expert_parallel = flag("enable-expert-parallel");
    p.enable_eplb = flag("enable-eplb");
    p.enable_dbo = flag("enable-dbo");
    p.external_lb = flag("data-parallel-external-lb");
    p.hybrid_lb = flag("data-parallel-hybrid-lb");
    p.enable_elastic_ep = flag("enable-elastic-ep");
    p.ubatch_size = number("ubatch-size").value_or(0);
    args.dp_size_local = number("data-parallel-size-local");
    args.dp_start_rank = number("data-parallel-start-rank");
    args.dp_rank = number("data-parallel-rank");
    args.headless = flag("headless");
    args.node_rank = number("node-rank").value_or(0);
    args.batch.max_num_batched_tokens = number("max-num-batched-tokens");
    args.batch.max_num_seqs = number("max-num-seqs");
    args.batch.max_model_len = std::max<std::int64_t>(number("max-model-len").value_or(0), 0);
    args.batch.performance_mode = text("performance-mode").value_or("balanced");
    args.enforce_eager = flag("enforce-eager");
    args.dbo_decode_threshold = number("dbo-decode-token-threshold").value_or(32);
    args.dbo_prefill_threshold = number("dbo-prefill-token-threshold").value_or(512);
    args.quantization = text("quantization");
    args.moe_backend = text("moe-backend");
    if (auto error = take_redundant()) return error;
    if (auto error = take_compilation()) return error;
    return take_speculation();
  }

  std::optional<Error> take_redundant() {
    const Result<Json> eplb = object("eplb-config");
    if (!eplb) return eplb.error();
    std::int64_t& redundant = out_.args.parallel.num_redundant_experts;
    redundant = number_in(*eplb, "num_redundant_experts").value_or(number("num-redundant-experts").value_or(0));
    if (redundant >= 0 && redundant <= kMostCount) return std::nullopt;
    return Error{ErrorKind::bad_input,
                 fmt::format("num_redundant_experts {}: give a number from 0 to {}", redundant, kMostCount)};
  }

  std::optional<Error> take_compilation() {
    EngineArgs& args = out_.args;
    const Result<Json> config = object("compilation-config");
    if (!config) return config.error();
    const auto level = text("optimization-level");
    const auto by_level = level ? number_in(Json{{"level", *level}}, "level") : number_in(*config, "level");
    args.compiles = by_level.value_or(3) != 0 && number_in(*config, "mode").value_or(3) != 0;
    if (by_level == 1) args.cudagraph_mode = "PIECEWISE";
    if (const auto full = config->find("full_cuda_graph"); full != config->end() && full->is_boolean() && *full)
      args.cudagraph_mode = "FULL";
    if (const auto mode = config->find("cudagraph_mode"); mode != config->end()) {
      constexpr std::string_view kByNumber[] = {"NONE", "PIECEWISE", "FULL"};
      std::string name = mode->is_string() ? mode->get<std::string>() : "";
      if (mode->is_number_integer() && *mode >= 0 && *mode <= 2) name = kByNumber[mode->get<std::size_t>()];
      const GraphSetting* const setting = find_graph_setting(name);
      if (setting == nullptr)
        return Error{ErrorKind::bad_input,
                     fmt::format("cudagraph_mode {}: give NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or "
                                 "FULL_AND_PIECEWISE",
                                 one_line(mode->dump(), 60))};
      args.cudagraph_mode = setting->name;
    }
    args.capture_sizes = numbers("cudagraph-capture-sizes");
    if (!args.capture_sizes) args.capture_sizes = numbers("cuda-graph-sizes");
    if (const auto sizes = config->find("cudagraph_capture_sizes"); sizes != config->end() && sizes->is_array()) {
      args.capture_sizes.emplace();
      for (const Json& size : *sizes)
        if (size.is_number_integer()) args.capture_sizes->push_back(size.get<std::int64_t>());
    }
    args.max_capture_size = number("max-cudagraph-capture-size");
    if (const auto most = number_in(*config, "max_cudagraph_capture_size")) args.max_capture_size = most;
    const auto sizes = args.capture_sizes.value_or(std::vector<std::int64_t>{});
    constexpr std::int64_t kMostSize = 1 << 20;
    if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 1 || size > kMostSize; }) ||
        (args.max_capture_size && *args.max_capture_size < 0))
      return Error{ErrorKind::bad_input, fmt::format("capture sizes: give numbers from 1 to {}", kMostSize)};
    return std::nullopt;
  }

  std::optional<Error> take_speculation() {
    const Result<Json> config = object("speculative-config");
    if (!config) return config.error();
    EngineArgs& args = out_.args;
    args.num_speculative_tokens =
        number_in(*config, "num_speculative_tokens").value_or(number("spec-tokens").value_or(0));
    if (args.num_speculative_tokens < 0 || args.num_speculative_tokens > 1024)
      return Error{ErrorKind::bad_input,
                   fmt::format("num_speculative_tokens {}: give a number from 0 to 1024", args.num_speculative_tokens)};
    if (const auto method = config->find("method"); method != config->end() && method->is_string())
      args.speculative_method = method->get<std::string>();
    if (const auto method = text("spec-method")) args.speculative_method = *method;
    return std::nullopt;
  }

  const Generation& generation_;
  bool is_server_;
  bool takes_model_ = false;
  ParsedNamespace parsed_;
  ReadArgs out_;
};

}  // namespace

Result<ReadArgs> read_engine_args(const Generation& generation, const LaunchCommand& command) {
  return Reader(generation, command).read(command.argv);
}

std::string fix_for_options(const Generation& generation, std::span<const std::string> argv) {
  const std::vector<std::string> words = processed(argv);
  const auto parsed = parse_known_args(options(), words, RequiredCheck::no);
  if (!parsed) return "";
  for (const FlagUse& use : parsed->uses) {
    if (knows(generation, use.flag->dest)) continue;
    for (const Generation& other : generations())
      if (other.date > generation.date && knows(other, use.flag->dest))
        return fmt::format("leave out --{}, which vLLM has from {} on{}; or name the version that runs", use.flag->dest,
                           other.date, use.flag->dest == "all2all-backend" ? ", and set VLLM_ALL2ALL_BACKEND" : "");
    return fmt::format("leave out --{}, which vLLM of {} does not have any more", use.flag->dest, generation.date);
  }
  return "";
}

}  // namespace a2asim::vllm
