#include "sim/explore/explore_space.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "model/base/check_invariant.h"
#include "model/base/words.h"

namespace a2asim {
namespace {

constexpr std::array<std::string_view, kExploreLayouts> kLayouts = {"one_rank", "tensor_parallel", "dp_attention",
                                                                    "attn_tp",  "collapsed",       "collapsed_attn_tp"};
constexpr std::array<std::string_view, kExploreExtras> kExtras = {"", "speculative", "small_cap", "skip_all_gather",
                                                                  "lane"};

struct Ranks {
  std::int64_t tp_size, dp_size;
  bool dp_attention;
};
constexpr Ranks kRanks[] = {{1, 1, false}, {2, 1, false}, {2, 2, false}, {2, 2, true}, {4, 1, false}, {4, 2, true},
                            {4, 4, true},  {8, 1, false}, {8, 2, true},  {8, 4, true}, {8, 8, true}};

// A setting and its values; the first is the plain one.
struct Setting {
  using Apply = void (*)(ExploreConfiguration&);
  enum class For : std::uint8_t { every, dp_attention, decode, prefill };
  For matters;  // where it has no effect only the plain value is walked
  std::vector<Apply> values;
};

using Config = ExploreConfiguration;
constexpr Setting::Apply kPlain = [](Config&) {};

const std::vector<Setting>& settings() {
  using For = Setting::For;
  static const std::vector<Setting> all = {
      {For::every,
       {kPlain, [](Config& c) { c.parallel.disaggregation_mode = "prefill"; },
        [](Config& c) { c.parallel.disaggregation_mode = "decode"; }}},
      {For::dp_attention, {kPlain, [](Config& c) { c.parallel.moe_dense_tp_size = 1; }}},
      {For::dp_attention, {kPlain, [](Config& c) { c.parallel.enable_dp_lm_head = true; }}},
      {For::decode,  // CUDA graphs
       {[](Config& c) { c.parallel.cuda_graph_max_bs = 4; }, [](Config& c) { c.parallel.cuda_graph_max_bs = 8; },
        [](Config& c) {
          c.parallel.cuda_graph_bs = {1, 3, 6};
        },
        [](Config& c) { c.parallel.disable_cuda_graph = true; }}},
      {For::decode,
       {[](Config& c) { c.parallel.max_running_requests = 64; },
        [](Config& c) { c.parallel.max_running_requests = 16; }}},
      {For::prefill,
       {[](Config& c) { c.parallel.chunked_prefill_size = 64; },
        [](Config& c) { c.parallel.chunked_prefill_size = 16; }}},
      {For::every,
       {kPlain,
        [](Config& c) {
          c.parallel.speculative_algorithm = "EAGLE";
          c.parallel.speculative_num_steps = 1;
          c.parallel.speculative_eagle_topk = 1;
          c.parallel.speculative_num_draft_tokens = 2;
        }}},
      {For::every, {kPlain, [](Config& c) { c.parallel.max_num_tokens = 4; }}},
      {For::every, {kPlain, [](Config& c) { c.env[std::string(engines().front()->skip_exchange)] = "1"; }}},
  };
  return all;
}

bool matters(Setting::For where, const Config& config) {
  const auto& mode = config.parallel.disaggregation_mode;
  switch (where) {
    case Setting::For::every:
      return true;
    case Setting::For::dp_attention:
      return config.parallel.enable_dp_attention.value_or(false);
    case Setting::For::decode:
      return mode != "prefill";
    case Setting::For::prefill:
      return mode != "decode";
  }
  return true;
}

// Of an engine that has settings of its own: the planned command of each number of ranks with every combination.
struct OwnSpace {
  const Engine& engine;
  const Version& version;
  std::vector<std::pair<int, Config>> made;  // with how many settings changed

  void walk(std::size_t at, int changed, std::size_t extra, const Config& config) {
    A2ASIM_INVARIANT(at <= engine.explore_settings.size() && config.launch, "a walk ends at the last setting");
    if (at == engine.explore_settings.size()) {
      const ExploreLayout layout = *config.parallel.tp_size > 1 ? ExploreLayout::dp_attention : ExploreLayout::one_rank;
      made.emplace_back(changed, config);
      made.back().second.exploring_class = static_cast<std::size_t>(layout) * kExploreExtras + extra;
      return;
    }
    const ExploreSetting& setting = engine.explore_settings[at];
    for (std::size_t value = 0; value < setting.size(); ++value) {
      Config next = config;
      *next.launch += setting[value].words;
      for (const std::string_view assignment : split_words(setting[value].env)) {
        const std::size_t equals = assignment.find('=');
        next.env[std::string(assignment.substr(0, equals))] = assignment.substr(equals + 1);
      }
      const auto own = static_cast<std::size_t>(std::ranges::find(kExtras, setting[value].extra) - kExtras.begin());
      walk(at + 1, changed + (value > 0 ? 1 : 0), std::max(extra, own), next);
    }
  }
};

std::vector<Config> own_space(const Engine& engine, const Version& version) {
  constexpr std::int64_t kTokens = 64;
  std::vector<Config> space;
  for (const Ranks& ranks : kRanks) {
    if (ranks.dp_size != ranks.tp_size || (ranks.tp_size > 1 && !ranks.dp_attention)) continue;
    Config config;
    config.parallel.tp_size = config.parallel.dp_size = ranks.tp_size;
    PlannedServer server;
    server.ep_size = ranks.tp_size;
    server.max_num_tokens = kTokens;
    config.launch = engine.plan_command(version, server);
    OwnSpace own{engine, version, {}};
    own.walk(0, 0, 0, config);
    std::ranges::stable_sort(own.made, {}, &std::pair<int, Config>::first);
    for (auto& [changed, made] : own.made) space.push_back(std::move(made));
  }
  for (std::size_t at = 0; at < space.size(); ++at) space[at].ordinal = static_cast<std::int64_t>(at);
  return space;
}

std::size_t class_of(const Config& config) {
  A2ASIM_INVARIANT(config.parallel.dp_size && config.parallel.tp_size, "a configuration has ranks");
  const Parallel& p = config.parallel;
  const bool spread = *p.dp_size < *p.tp_size;
  ExploreLayout layout = ExploreLayout::one_rank;
  if (p.enable_dp_attention.value_or(false)) {
    layout = p.moe_dense_tp_size && p.enable_dp_lm_head
                 ? (spread ? ExploreLayout::collapsed_attn_tp : ExploreLayout::collapsed)
                 : (spread ? ExploreLayout::attn_tp : ExploreLayout::dp_attention);
  } else if (*p.tp_size > 1) {
    layout = ExploreLayout::tensor_parallel;
  }
  const ExploreExtra extra = !config.env.empty()       ? ExploreExtra::skip_all_gather
                             : p.max_num_tokens        ? ExploreExtra::small_cap
                             : p.speculative_algorithm ? ExploreExtra::speculative
                                                       : ExploreExtra::none;
  return static_cast<std::size_t>(layout) * kExploreExtras + static_cast<std::size_t>(extra);
}

Config plain_configuration(const Ranks& ranks, std::string_view runner) {
  A2ASIM_INVARIANT(ranks.tp_size >= ranks.dp_size && !runner.empty(), "replicas are made of ranks");
  Config config;
  config.parallel.tp_size = ranks.tp_size;
  config.parallel.dp_size = ranks.dp_size;
  config.parallel.ep_size = ranks.tp_size;
  if (ranks.dp_attention) config.parallel.enable_dp_attention = true;
  config.parallel.moe_a2a_backend = "flashinfer";
  config.parallel.moe_runner_backend = runner;
  return config;
}

struct Sized {
  int changed = 0;
  std::size_t walked = 0;  // settles ties
  Config config;
};

// All values of settings()[at..] on top of `sized`.
void walk(std::size_t at, const Sized& sized, std::vector<Sized>& out) {
  A2ASIM_INVARIANT(at <= settings().size(), "a walk ends at the last setting");
  if (at == settings().size()) {
    out.push_back(sized);
    out.back().walked = out.size();
    return;
  }
  const Setting& setting = settings()[at];
  const std::size_t values = matters(setting.matters, sized.config) ? setting.values.size() : 1;
  for (std::size_t value = 0; value < values; ++value) {
    Sized next = sized;
    setting.values[value](next.config);
    next.changed += value == 0 ? 0 : 1;
    walk(at + 1, next, out);
  }
}

}  // namespace

std::string class_name(std::size_t exploring_class) {
  A2ASIM_INVARIANT(exploring_class < kExploreLayouts * kExploreExtras, "a class has a name");
  const std::string_view extra = kExtras[exploring_class % kExploreExtras];
  std::string name(kLayouts[exploring_class / kExploreExtras]);
  return extra.empty() ? name : name + '+' + std::string(extra);
}

std::vector<ExploreConfiguration> explore_space(const Version& version) {
  if (!engine_of(version).explore_settings.empty()) return own_space(engine_of(version), version);
  const std::string_view runner = engine_of(version).alltoall_runner(version);
  std::vector<ExploreConfiguration> space;
  std::vector<Sized> sized;
  std::int64_t tp_size = 1;
  const auto take = [&] {
    std::ranges::sort(sized, {}, [](const Sized& one) { return std::pair(one.changed, one.walked); });
    for (Sized& next : sized) space.push_back(std::move(next.config));
    sized.clear();
  };
  for (const Ranks& ranks : kRanks) {
    if (ranks.tp_size != tp_size) take();
    tp_size = ranks.tp_size;
    walk(0, {.config = plain_configuration(ranks, runner)}, sized);
  }
  take();
  for (std::size_t at = 0; at < space.size(); ++at) {
    space[at].ordinal = static_cast<std::int64_t>(at);
    space[at].exploring_class = class_of(space[at]);
  }
  return space;
}

ScenarioModel explore_model() { return {.num_experts = 16, .top_k = 2, .hidden_size = 64, .layers = 1}; }

Scenario explore_scenario(const Version& version, const ExploreConfiguration& configuration) {
  A2ASIM_INVARIANT(configuration.parallel.tp_size.has_value(), "a configuration has ranks");
  Scenario scenario;
  scenario.engine = engine_of(version).name;
  scenario.version = name_of_state(version);
  scenario.parallel = configuration.parallel;
  scenario.env = configuration.env;
  if (configuration.launch) {
    scenario.parallel.reset();
    scenario.launch = configuration.launch;
  } else {
    scenario.launch = launch_text(scenario);
  }
  scenario.env = launch_env(scenario);
  scenario.parallel.reset();
  scenario.model = explore_model();
  return scenario;
}

Result<std::unique_ptr<Deployment>> explore_deployment(const Version& version,
                                                       const ExploreConfiguration& configuration, SizingRule rule) {
  Scenario scenario;
  scenario.parallel = configuration.parallel;
  scenario.env = configuration.env;
  scenario.engine = engine_of(version).name;
  LaunchCommand launch;
  if (configuration.launch) {
    Result<LaunchCommand> read = parse_launch_command(*configuration.launch);
    if (!read) return tl::unexpected(read.error());
    launch = std::move(*read);
    scenario.parallel.reset();
  } else {
    launch.front_end = &engine_of(version).syntax->front_ends.front();
    launch.argv = to_argv(*scenario.parallel, engine_of(version), version);
  }
  const ScenarioModel model = explore_model();
  DeployOptions options;
  options.version.version = &version;
  for (const auto& [name, value] : launch_env(scenario)) options.env.set(name, value);
  options.model = ModelShape{model.num_experts, model.top_k, model.hidden_size};
  options.rule = std::move(rule);
  Result<DeployedCommand> deployed = deploy_command(std::move(launch), options);
  if (!deployed) return tl::unexpected(deployed.error());
  if (deployed->refused) return tl::unexpected(*deployed->refused);
  return std::move(deployed->deployment);
}

}  // namespace a2asim
