#include "tools/program/settings.h"

#define TOML_HEADER_ONLY 1
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "model/base/nearest.h"
#include "model/base/one_line.h"
#include "model/check/finding_info.h"
#include "model/step/engine.h"
#include "tools/check/launches.h"
#include "tools/program/input.h"

namespace a2asim {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFile = "a2asim.toml";

class Reader {
 public:
  Reader(std::string file, const toml::table& root) : file_(std::move(file)), root_(root) {}

  Result<Settings> settings(const std::string& path_below) const {
    Settings out;
    out.file = file_;
    if (auto read = read_table(root_, true, out); !read) return tl::unexpected(read.error());
    const toml::node* per_path = root_.get("per-path");
    if (per_path == nullptr) return out;
    if (!per_path->is_array_of_tables()) return wrong(*per_path, "per-path is a list of tables: [[per-path]]");
    for (const toml::node& node : *per_path->as_array()) {
      const toml::table& own = *node.as_table();
      const auto pattern = own["path"].value<std::string>();
      if (!pattern) return wrong(own, "[[per-path]] needs path = \"PATTERN\"");
      Settings scratch;  // errors are told whether or not the path fits
      const bool fits = matches_path(path_below, *pattern) || matches_path(path_below, *pattern + "/**");
      if (auto read = read_table(own, false, fits ? out : scratch); !read) return tl::unexpected(read.error());
    }
    return out;
  }

 private:
  tl::unexpected<Error> wrong(const toml::node& node, std::string_view what) const {
    return unusable(fmt::format("{}: line {}: {}", one_line(file_), node.source().begin.line, what));
  }

  Result<void> read_table(const toml::table& table, bool is_root, Settings& out) const {
    for (const auto& [key, value] : table)
      if (auto read = read_key(std::string(key.str()), value, is_root, out); !read) return read;
    return {};
  }

  Result<void> read_key(const std::string& key, const toml::node& value, bool is_root, Settings& out) const {
    const std::pair<std::string_view, std::optional<std::string>*> texts[] = {
        {"model", &out.shape.model}, {"model-config", &out.shape.model_config}, {"num-experts", &out.shape.num_experts},
        {"top-k", &out.shape.top_k}, {"hidden-size", &out.shape.hidden_size},   {"gpu-memory", &out.gpu_memory},
        {"gpu", &out.gpu},           {"nvlink-domain", &out.nvlink_domain}};
    for (const auto& [name, to] : texts)
      if (key == name) return read_text(key, value, *to);
    for (const Engine* engine : engines())
      if (key == engine->name) {
        std::optional<std::string> version;
        auto read = read_text(key, value, version);
        if (read) out.versions[key] = *version;
        return read;
      }
    if (key == "env") return read_env(value, out);
    if (key == "ignore") return read_ignored(value, out);
    if (is_root && key == "paths") return read_list(key, value, out.paths);
    if (is_root && key == "exclude") return read_list(key, value, out.excluded);
    if (is_root && key == "strict") {
      out.strict = value.value<bool>();
      if (!value.is_boolean()) return wrong(value, "strict is true or false");
      return {};
    }
    if (is_root ? key == "per-path" : key == "path") return {};
    constexpr std::array<std::string_view, 3> kOfAll = {"paths", "exclude", "strict"};
    if (!is_root && std::ranges::find(kOfAll, key) != kOfAll.end())
      return wrong(value, key + " is for all paths: put it above the first [[per-path]]");
    std::vector<std::string_view> known = {"env", "ignore", is_root ? "per-path" : "path"};
    if (is_root) known.insert(known.end(), kOfAll.begin(), kOfAll.end());
    for (const auto& [name, to] : texts) known.push_back(name);
    for (const Engine* engine : engines()) known.push_back(engine->name);
    const std::string_view meant = nearest(key, known);
    return wrong(value, fmt::format("unknown key {}{}", one_line(key, 60),
                                    meant.empty() ? "" : fmt::format(": did you mean {}?", meant)));
  }

  Result<void> read_text(const std::string& key, const toml::node& value, std::optional<std::string>& to) const {
    if (value.is_string())
      to = value.value<std::string>();
    else if (value.is_integer())
      to = fmt::format("{}", *value.value<std::int64_t>());
    else if (value.is_floating_point())
      to = fmt::format("{}", *value.value<double>());
    else
      return wrong(value, key + " is a text or a number");
    return {};
  }

  Result<void> read_list(const std::string& key, const toml::node& value, std::vector<std::string>& to) const {
    const bool is_list =
        value.is_array() && (value.as_array()->empty() || value.is_homogeneous(toml::node_type::string));
    if (!is_list) return wrong(value, key + " is a list of texts");
    for (const toml::node& item : *value.as_array()) to.push_back(*item.value<std::string>());
    return {};
  }

  Result<void> read_env(const toml::node& value, Settings& out) const {
    if (!value.is_table()) return wrong(value, "env is a table: env = { NAME = \"VALUE\" }");
    for (const auto& [name, text] : *value.as_table()) {
      std::optional<std::string> own;
      if (auto read = read_text(std::string(name.str()), text, own); !read) return read;
      out.env[std::string(name.str())] = *own;
    }
    return {};
  }

  Result<void> read_ignored(const toml::node& value, Settings& out) const {
    constexpr std::string_view kForm = "ignore is a list: ignore = [{ id = \"ID\", reason = \"WHY\" }]";
    if (!value.is_array()) return wrong(value, kForm);
    for (const toml::node& item : *value.as_array()) {
      const toml::table* own = item.as_table();
      const auto id = own == nullptr ? std::nullopt : (*own)["id"].value<std::string>();
      const auto reason = own == nullptr ? std::nullopt : (*own)["reason"].value<std::string>();
      if (!id || !reason || reason->empty()) return wrong(value, kForm);
      if (!parse_finding_kind(*id))
        return wrong(value, fmt::format("there is no finding '{}': `a2asim explain` lists them", one_line(*id, 60)));
      out.ignored.emplace_back(*id, *reason);
    }
    return {};
  }

  std::string file_;
  const toml::table& root_;
};

}  // namespace

struct SettingsFiles::Parsed {
  toml::table table;
};

SettingsFiles::SettingsFiles() = default;
SettingsFiles::~SettingsFiles() = default;

Result<Settings> SettingsFiles::of(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path.empty() ? "." : path, error);
  if (error) return Settings{};
  const bool is_folder = fs::is_directory(whole, error);
  for (fs::path folder = is_folder ? whole : whole.parent_path();; folder = folder.parent_path()) {
    const std::string file = (folder / kFile).string();
    if (fs::is_regular_file(file, error)) {
      std::unique_ptr<Parsed>& parsed = parsed_[file];
      if (!parsed) {
        const Result<std::string> text = read_text_file(file);
        if (!text) return tl::unexpected(text.error());
        try {
          parsed = std::make_unique<Parsed>(toml::parse(*text, file));
        } catch (const toml::parse_error& broken) {
          return unusable(fmt::format("{}: line {}: {}", one_line(file), broken.source().begin.line,
                                      one_line(broken.description(), 200)));
        }
      }
      const std::string below = whole.lexically_relative(folder).string();
      Result<Settings> settings = Reader(file, parsed->table).settings(below);
      if (settings && settings->shape.model_config && fs::path(*settings->shape.model_config).is_relative())
        settings->shape.model_config = (folder / *settings->shape.model_config).string();
      return settings;
    }
    if (folder == folder.parent_path()) return Settings{};
  }
}

}  // namespace a2asim
