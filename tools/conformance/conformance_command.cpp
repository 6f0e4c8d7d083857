// a2asim conformance: does a backend of the all-to-all do what it must?
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/base/one_line.h"
#include "sim/conformance/suite.h"
#include "tools/backends/backends.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/template.h"

namespace a2asim {
namespace {

using conformance::CaseOutcome;
using conformance::CaseResult;

struct ConformanceArguments {
  std::string backend = "sim";
  std::string only;
  std::string format = "text";
  std::string peer_memory = "auto";
  bool small = false;
  std::optional<std::string> gpus, call_timeout_s;
};

conformance::Subject subject_of(const Backend& backend) {
  return {backend.name,
          [&backend](const std::vector<AllToAllConfig>& configs, bool guard) -> Result<std::unique_ptr<Dispatcher>> {
            auto made = backend.create({configs, guard, {}, false});
            if (!made) return tl::unexpected(made.error());
            return std::unique_ptr<Dispatcher>(std::move(*made));
          }};
}

std::string capabilities_in_words(Capabilities can) {
  std::string has, lacks;
  for (int i = 0; i < kCapabilities; ++i) {
    std::string& list = can.has(static_cast<Capability>(i)) ? has : lacks;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", name(static_cast<Capability>(i)));
  }
  return fmt::format("  can    {}\n  lacks  {}\n", has.empty() ? "nothing beyond the minimum" : has,
                     lacks.empty() ? "nothing" : lacks);
}

std::string results_as_text(const Backend& backend, const std::vector<CaseResult>& results) {
  std::string out = fmt::format("conformance of {}\n{}", backend.name, capabilities_in_words(backend.capabilities));
  for (const CaseResult& one : results)
    out += fmt::format("{:<8} {}{}{}\n", name(one.outcome), one.name, one.why.empty() ? "" : ": ", one.why);
  return out + fmt::format("conformance: {}\n", conformance::summary(results));
}

nlohmann::ordered_json results_as_json(const Backend& backend, const std::vector<CaseResult>& results) {
  nlohmann::ordered_json out;
  out["tool"] = tool_as_json();
  out["backend"] = backend.name;
  out["capabilities"] = nlohmann::ordered_json::array();
  for (int i = 0; i < kCapabilities; ++i)
    if (backend.capabilities.has(static_cast<Capability>(i)))
      out["capabilities"].push_back(std::string(name(static_cast<Capability>(i))));
  for (const CaseOutcome outcome : {CaseOutcome::passed, CaseOutcome::failed, CaseOutcome::skipped})
    out["summary"][std::string(name(outcome))] = std::ranges::count(results, outcome, &CaseResult::outcome);
  out["cases"] = nlohmann::ordered_json::array();
  for (const CaseResult& one : results) {
    nlohmann::ordered_json row = {{"name", one.name}, {"result", name(one.outcome)}};
    row["why"] = one.why.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(one.why);
    row["lacks"] = one.lacks ? nlohmann::ordered_json(name(*one.lacks)) : nlohmann::ordered_json();
    out["cases"].push_back(std::move(row));
  }
  return out;
}

Result<int> run_conformance(const ConformanceArguments& options, const CommandLine& line, Io& io) {
  if (auto ok = refuse_launch(line); !ok) return tl::unexpected(ok.error());
  const auto format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  if (auto way = parse_choice("--peer-memory", options.peer_memory, {"auto", "nccl", "peer", "ipc"}); !way)
    return tl::unexpected(way.error());
  if (options.backend != "cuda" && (options.gpus || options.peer_memory != "auto"))
    return unusable(fmt::format("--gpus and --peer-memory are options of --backend cuda, not of {}: leave them out",
                                one_line(options.backend, 60)));
  BackendOptions with;
  with.cuda.peer_memory = options.peer_memory;
  if (options.gpus) {
    const auto gpus = parse_count("--gpus", *options.gpus, 1, kMaxRanks);
    if (!gpus) return tl::unexpected(gpus.error());
    with.cuda.gpus = static_cast<int>(*gpus);
  }
  if (options.call_timeout_s) {
    const auto seconds = parse_count("--call-timeout-s", *options.call_timeout_s, 1, 3'600);
    if (!seconds) return tl::unexpected(seconds.error());
    with.limits.call = std::chrono::seconds(*seconds);
  }
  std::vector<conformance::Case> chosen;
  for (const conformance::Case& one : conformance::cases())
    if (one.name.find(options.only) != std::string_view::npos && !(options.small && one.is_large))
      chosen.push_back(one);
  if (chosen.empty())
    return unusable(fmt::format("--only {}: no case has this in its name", one_line(options.only, 60)));
  const Result<Backend> backend = find_backend(options.backend, with);
  if (!backend) return tl::unexpected(backend.error());
  const conformance::Subject subject = subject_of(*backend);
  std::vector<CaseResult> results;
  for (const conformance::Case& one : chosen) {
    results.push_back(conformance::run(subject, one));
    if (const auto& ended = backend->session->ended())
      return unusable(fmt::format("{}; in the case '{}', after {} of {} cases", ended->message, one.name,
                                  results.size() - 1, chosen.size()));
  }
  if (backend->reports)
    io.out << (*format == 1 ? print(results_as_json(*backend, results)) : results_as_text(*backend, results));
  const bool failed =
      std::ranges::any_of(results, [](const CaseResult& one) { return one.outcome == CaseOutcome::failed; });
  return failed ? kErrorFound : kNothingWrong;
}

void add_options(CLI::App& command, ConformanceArguments& options) {
  add_value(command, "--backend", options.backend, "BACKEND", "sim, cuda, or the path of a plug-in; default sim");
  add_value(command, "--only", options.only, "TEXT", "Only the cases with this in their names");
  command.add_flag("--small", options.small, "Leave out the cases that move many megabytes");
  add_value(command, "--gpus", options.gpus, "N", "Of cuda: use the first so many GPUs; default all");
  add_value(command, "--peer-memory", options.peer_memory, "WAY",
            "auto, nccl, peer or ipc: how GPUs of --backend cuda reach each other; default auto");
  add_value(command, "--call-timeout-s", options.call_timeout_s, "S",
            "How long a plug-in may take for one call before it is ended; default 60");
  add_value(command, "--format", options.format, "FORMAT", "text or json; default text");
  command.footer(help_text("conformance.help"));
}

}  // namespace

void add_conformance(CLI::App& program, CommandLine& line) {
  add_command<ConformanceArguments>(program, line, "conformance", "Does a backend of the all-to-all do what it must?",
                                    add_options, run_conformance);
}

}  // namespace a2asim
