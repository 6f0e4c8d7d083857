// Laws over texts: what is printed is read back, and any bytes give a value or one clear error.
#include <fmt/format.h>

#include "model/engines/sglang/start/server_args.h"
#include "model/launch/launch_command.h"
#include "property_tests/law.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim::props {
namespace {

std::string unclear(const Error& error, std::string_view what) {
  if (error.message.empty()) return fmt::format("{}: an error without a word", what);
  if (error.message.find('\n') != std::string::npos) return fmt::format("{}: an error of several lines", what);
  return "";
}

// Some bytes of the text changed, dropped, doubled or put elsewhere.
std::string damaged(std::string text, Random& random) {
  const std::int64_t times = random.between(1, 4);
  for (std::int64_t i = 0; i < times && !text.empty(); ++i) {
    const auto at = static_cast<std::size_t>(random.below(static_cast<std::uint32_t>(text.size())));
    const auto length = static_cast<std::size_t>(random.between(1, 9));
    switch (random.below(5)) {
      case 0:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      case 3:
        text.insert(at, 1, "\"'\\\n{}[]:#$ -=&|\t0"[random.below(19)]);
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

std::string judge_scenario_text(const std::string& text, const Product& product) {
  const Result<Scenario> scenario = parse_scenario(text, "f");
  if (!scenario) return unclear(scenario.error(), "scenario");
  const std::string printed = product.to_yaml(*scenario);
  const Result<Scenario> again = parse_scenario(printed, "f");
  if (!again) return "scenario: what was printed is refused: " + again.error().message;
  if (!(*again == *scenario)) return "scenario: what was printed is read as another one";
  return product.to_yaml(*again) == printed ? "" : "scenario: printing is not stable";
}

std::string judge_command_text(const std::string& text, const Generation& generation) {
  const Result<LaunchCommand> command = parse_launch_command(text);
  if (!command) return unclear(command.error(), "command");
  const std::string printed = print(*command);
  const Result<LaunchCommand> again = parse_launch_command(printed);
  if (!again) return "command: what was printed is refused: " + again.error().message;
  if (!(*again == *command)) return "command: what was printed is read as another one: " + printed;
  if (print(*again) != printed) return "command: printing is not stable: " + printed;
  const auto parsed = parse_server_args(generation.options, command->argv, ParseMode::lenient);
  return parsed ? "" : unclear(parsed.error(), "arguments");
}

}  // namespace

std::string texts_are_stable(const Scenario& world, Trial& trial) {
  const Product& product = trial.bench.product();
  const Result<GenerationMatch> generation = find_generation(*world.version);
  Random random(world.seed * 7919 + static_cast<std::uint64_t>(size_of(world)));
  std::string scenario = product.to_yaml(world), command = launch_text(world);
  for (const auto& [key, value] : launch_env(world)) command = key + "=" + value + " " + command;
  Scenario named = world;
  constexpr std::string_view odd = "a Z0\"'\\:#{}[]&*!|>%@,?-~`=";
  for (std::int64_t i = random.between(0, 12); i > 0; --i)
    named.name += odd[random.below(static_cast<std::uint32_t>(odd.size()))];
  if (random.chance(1, 2))
    named.name += "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x90\x8D";  // two, three and four bytes a character
  const Result<Scenario> same = parse_scenario(product.to_yaml(named), "f");
  if (!same) return "a drawn world is refused: " + same.error().message;
  if (!(*same == named)) return "a drawn world is read as another one, of the name " + same->name;
  for (int i = 0; i < 4; ++i) {
    if (std::string wrong = judge_scenario_text(scenario, product); !wrong.empty()) return wrong;
    if (std::string wrong = judge_command_text(command, *generation->generation); !wrong.empty()) return wrong;
    scenario = damaged(scenario, random);
    command = damaged(command, random);
    ++trial.marks[parse_scenario(scenario, "f") ? "a damaged scenario is read" : "a damaged scenario is refused"];
    ++trial.marks[parse_launch_command(command) ? "a damaged command is read" : "a damaged command is refused"];
  }
  return "";
}

}  // namespace a2asim::props
