// The program, run in this process: everything but the process itself (that is process_test.cpp).
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tools/program/caller.h"
#include "tools/program/program.h"

namespace a2asim {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline Outcome run(const std::vector<std::string>& args, const std::string& input = "", bool in_is_terminal = false) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  Io io{in, out, err, in_is_terminal, false};
  Caller patient;
  patient.rule_patience = std::chrono::seconds(100);  // on a machine that is busy with other things, too
  const int exit_code = run_program(args, io, patient);
  return {exit_code, out.str(), err.str()};
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// A file that is gone at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name, std::string_view text = "")
      : path(
            (std::filesystem::temp_directory_path() / ("a2asim_" + std::to_string(std::random_device{}()) + "_" + name))
                .string()) {
    std::ofstream(path, std::ios::binary) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path); }

  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }

  const std::string path;
};

}  // namespace a2asim
