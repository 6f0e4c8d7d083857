#include "tools/check/acceptance.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/base/nearest.h"
#include "model/base/one_line.h"
#include "model/check/finding_info.h"
#include "tools/program/input.h"

namespace a2asim {
namespace {

using ReadJson = nlohmann::json;

// Of any document: the values of "fingerprint" and "a2asim/v1", wherever they stand.
void collect(const ReadJson& node, Baseline& out, int depth = 0) {
  constexpr int kMostDeep = 32;
  if (depth > kMostDeep) return;
  if (node.is_object())
    for (const auto& [key, value] : node.items()) {
      if (value.is_string() && (key == "fingerprint" || key == "a2asim/v1")) out.insert(value.get<std::string>());
      collect(value, out, depth + 1);
    }
  if (node.is_array())
    for (const ReadJson& item : node) collect(item, out, depth + 1);
}

Result<FindingKind> kind_of(const Annotation& note, const CommandSource& source) {
  const std::string where = fmt::format("{}:{}: ", one_line(in_words(source)), note.line);
  const auto kind = parse_finding_kind(note.value);
  if (!kind) {
    std::vector<std::string_view> ids;
    for (const FindingInfo& info : findings()) ids.push_back(name(info.kind));
    const std::string_view meant = nearest(note.value, ids);
    return unusable(fmt::format("{}there is no finding '{}'{}; `a2asim explain` lists them", where,
                                one_line(note.value, 60),
                                meant.empty() ? "" : fmt::format(": did you mean '{}'?", meant)));
  }
  if (note.rest.empty())
    return unusable(fmt::format("{}ignore={} needs a reason: # a2asim: ignore={} WHY", where, note.value, note.value));
  return *kind;
}

}  // namespace

Result<Baseline> read_baseline(const std::string& path) {
  if (!std::filesystem::exists(path))
    return unusable(
        fmt::format("--baseline: file '{}' does not exist: `a2asim check --format json PATH.. > {}` writes "
                    "it",
                    one_line(path), one_line(path)));
  const Result<std::string> text = read_text_file(path);
  if (!text) return unusable("--baseline: " + text.error().message);
  const ReadJson document = ReadJson::parse(*text, nullptr, false);
  const auto holds = [&](const char* key) { return document.contains(key) && document[key].is_array(); };
  if (!document.is_object() || !(holds("servers") || holds("findings") || holds("runs")))
    return unusable(
        fmt::format("--baseline: '{}' is no output of `a2asim check --format json` or sarif", one_line(path)));
  Baseline out;
  collect(document, out);
  return out;
}

Result<void> mark_ignored(const LaunchText& text, const PreparedServer& prepared, const Baseline& baseline,
                          CheckedServer& checked) {
  checked.ignored.assign(checked.report.findings.size(), "");
  const auto ignore = [&](FindingKind kind, const std::string& reason) {
    for (std::size_t at = 0; at < checked.ignored.size(); ++at)
      if (checked.report.findings[at].kind == kind && checked.ignored[at].empty()) checked.ignored[at] = reason;
  };
  for (const Annotation& note : annotations_of(text.text)) {
    if (note.key != "ignore") continue;
    const Result<FindingKind> kind = kind_of(note, text.source);
    if (!kind) return tl::unexpected(kind.error());
    if (is_about(note, prepared.server, text)) ignore(*kind, note.rest);
  }
  for (const auto& [id, reason] : prepared.settings.ignored) ignore(*parse_finding_kind(id), reason);
  for (std::size_t at = 0; at < checked.ignored.size(); ++at)
    if (checked.ignored[at].empty() && baseline.contains(fingerprint(checked, checked.report.findings[at])))
      checked.ignored[at] = kInBaseline;
  return {};
}

}  // namespace a2asim
