// golden_check FILE.jsonl..: compares ours with rows that the real functions produced; the file's name tells the table.
// Exit code 0: every row equal, 1: some mismatch, 2: a file that cannot be checked.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tests/golden/table.h"

namespace {

using a2asim::golden::json;

constexpr int kShownMismatches = 10;
constexpr std::size_t kShownChars = 400;

std::string shortened(std::string text) {
  if (text.size() > kShownChars) text = text.substr(0, kShownChars) + "..";
  return text;
}

struct Unusable {
  std::string why;
};

struct Count {
  int rows = 0;
  int mismatches = 0;
};

json parse_row(const std::string& path, int line_number, const std::string& line) {
  json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (row.is_discarded())
    throw Unusable{fmt::format("{}:{}: not JSON (one object a line is needed)", path, line_number)};
  return row;
}

// Whether the first row names a kind of question, as all rows of a recording do.
bool is_recorded(const std::string& path) {
  std::ifstream input(path);
  std::string line;
  std::getline(input, line);
  const json row = json::parse(line, nullptr, false);
  return row.is_object() && row.contains("in") && row.at("in").is_object() && row.at("in").contains("kind");
}

Count check_file(const std::string& path) {
  const std::filesystem::path file(path);
  if (!std::filesystem::is_regular_file(file)) throw Unusable{path + ": no such file, or not a regular one"};
  const std::string name = file.stem().string();
  const a2asim::golden::Table* table = a2asim::golden::find_table(name);
  if (table == nullptr && is_recorded(path)) table = &a2asim::golden::recorded_table();
  if (file.extension() != ".jsonl" || table == nullptr)
    throw Unusable{
        fmt::format("{}: no table is called \"{}\"; the file's name without .jsonl must be one", path, name)};
  std::ifstream input(file);
  if (!input) throw Unusable{path + ": cannot be read"};

  Count count;
  std::string details;
  int line_number = 0;
  for (std::string line; std::getline(input, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json row = parse_row(path, line_number, line);
    ++count.rows;
    const auto what = a2asim::golden::mismatch(*table, row);
    if (!what) continue;
    if (++count.mismatches > kShownMismatches) continue;
    const json in = row.is_object() && row.contains("in") ? row.at("in") : row;
    details += fmt::format("  row {}: {}\n    {}\n", line_number, shortened(in.dump()), shortened(*what));
  }
  if (count.rows == 0) throw Unusable{path + ": has no rows"};
  fmt::print("{}: {} rows, {} mismatches\n{}", name, count.rows, count.mismatches, details);
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: golden_check FILE.jsonl..\n");
    return 2;
  }
  int exit_code = 0;
  for (const std::string& path : std::vector<std::string>(argv + 1, argv + argc)) {
    try {
      if (check_file(path).mismatches > 0 && exit_code == 0) exit_code = 1;
    } catch (const Unusable& unusable) {
      fmt::print(stderr, "golden_check: {}\n", unusable.why);
      exit_code = 2;
    }
  }
  return exit_code;
}
