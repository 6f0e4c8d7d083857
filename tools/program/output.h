// Files that a command writes: each appears whole or not at all, and none takes the place of what the command reads.
#pragma once

#include <optional>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

struct OutputPath {
  std::string_view option;  // "--report"
  std::optional<std::string> path;
};

// Those of the paths that were given; words of a command (--rule-cmd) may be paths, too.
std::vector<std::string> given(const std::vector<std::optional<std::string>>& paths,
                               const std::optional<std::string>& command = {});

// To be asked before the work. Errors: bad_input, for an output that is one of the inputs, another output, or where
// standard output goes. Devices and pipes may be given twice. An input "-" is standard input.
Result<void> check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::string>& inputs);

// Written beside `path` and renamed, so that a full disk or a stop leaves what was there; a device or a pipe is written
// as it is. Errors: bad_input, one line that names the option and the system's reason.
Result<void> write_output(std::string_view option, const std::string& path, std::string_view content);

// What is written reaches `to` escaped (model/base/one_line.h), line by line, but for `own`: sequences of the program
// itself, such as colours.
class EscapingBuffer : public std::streambuf {
 public:
  EscapingBuffer(std::ostream& to, std::vector<std::string_view> own) : to_(to), own_(std::move(own)) {}
  ~EscapingBuffer() override { EscapingBuffer::sync(); }
  EscapingBuffer(const EscapingBuffer&) = delete;
  EscapingBuffer& operator=(const EscapingBuffer&) = delete;

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override;

 private:
  void forward(std::size_t bytes);

  std::ostream& to_;
  std::vector<std::string_view> own_;
  std::string waiting_;
};

}  // namespace a2asim
