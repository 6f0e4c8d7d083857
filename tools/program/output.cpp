#include "tools/program/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "model/base/one_line.h"
#include "model/base/words.h"

namespace a2asim {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> cannot_write(std::string_view option, const std::string& path, int reason) {
  return fail(ErrorKind::bad_input, fmt::format("{}: cannot write '{}': {}; give a path that can be written", option,
                                                one_line(path), std::strerror(reason)));
}

// Where a file lies: two paths of one place are equal, whether a file is there or not.
struct OutputPlace {
  bool is_file = true;  // false: a device, a pipe, a folder: shared by whoever names it
  dev_t device = 0;
  ino_t number = 0;
  std::string path;  // where nothing is yet

  bool same_as(const OutputPlace& other) const {
    return is_file && other.is_file && number == other.number && device == other.device && path == other.path;
  }
};

OutputPlace place_of(const struct stat& status) { return {S_ISREG(status.st_mode), status.st_dev, status.st_ino, ""}; }

OutputPlace place_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return place_of(status);
  std::error_code ignored;
  return {true, 0, 0, fs::weakly_canonical(path, ignored).string()};
}

struct KnownPlace {
  OutputPlace place;
  std::string what;
};

// A temporary file beside `path`, or -1. The number makes its name one that nobody else uses.
int open_beside(const std::string& path, std::string& made) {
  for (int number = 0; number < 100; ++number) {
    made = fmt::format("{}.{}-{}.part", path, ::getpid(), number);
    const int file = ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

// 0, or why not everything could be written; closes the file.
int write_and_close(int file, std::string_view content) {
  int reason = 0;
  while (!content.empty() && reason == 0) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written >= 0)
      content.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      reason = errno;
  }
  if (::close(file) != 0 && reason == 0) reason = errno;
  return reason;
}

}  // namespace

std::vector<std::string> given(const std::vector<std::optional<std::string>>& paths,
                               const std::optional<std::string>& command) {
  std::vector<std::string> out;
  for (const auto& path : paths)
    if (path) out.push_back(*path);
  if (command)
    for (const std::string_view word : split_words(*command)) out.emplace_back(word);
  return out;
}

Result<void> check_outputs(const std::vector<OutputPath>& outputs, const std::vector<std::string>& inputs) {
  std::vector<KnownPlace> known;
  struct stat status {};
  for (const std::string& input : inputs) {
    if (input != "-")
      known.push_back({place_of(input), fmt::format("the input '{}'", one_line(input))});
    else if (::fstat(STDIN_FILENO, &status) == 0)
      known.push_back({place_of(status), "standard input"});
  }
  if (::fstat(STDOUT_FILENO, &status) == 0) known.push_back({place_of(status), "where standard output goes"});
  for (const OutputPath& output : outputs) {
    if (!output.path) continue;
    OutputPlace place = place_of(*output.path);
    for (const KnownPlace& other : known)
      if (place.same_as(other.place))
        return fail(ErrorKind::bad_input, fmt::format("{}: '{}' is {}, which it would replace; give another path",
                                                      output.option, one_line(*output.path), other.what));
    known.push_back({std::move(place), fmt::format("the output of {}", output.option)});
  }
  return {};
}

Result<void> write_output(std::string_view option, const std::string& path, std::string_view content) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const int reason = file < 0 ? errno : write_and_close(file, content);
    if (reason != 0) return cannot_write(option, path, reason);
    return {};
  }
  std::error_code ignored;
  const std::string target = exists ? fs::canonical(path, ignored).string() : path;  // a link stays one
  std::string beside;
  const int file = open_beside(target, beside);
  if (file < 0) return cannot_write(option, path, errno);
  if (exists) static_cast<void>(::fchmod(file, status.st_mode & 07777));
  int reason = write_and_close(file, content);
  if (reason == 0 && ::rename(beside.c_str(), target.c_str()) != 0) reason = errno;
  if (reason == 0) return {};
  ::unlink(beside.c_str());
  return cannot_write(option, path, reason);
}

EscapingBuffer::int_type EscapingBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::streamsize EscapingBuffer::xsputn(const char* text, std::streamsize size) {
  waiting_.append(text, static_cast<std::size_t>(size));
  const std::size_t end = waiting_.rfind('\n');
  if (end != std::string::npos) forward(end + 1);
  return to_ ? size : 0;
}

int EscapingBuffer::sync() {
  forward(waiting_.size());
  to_.flush();
  return to_ ? 0 : -1;
}

void EscapingBuffer::forward(std::size_t bytes) {
  std::string_view text = std::string_view(waiting_).substr(0, bytes);
  std::string out;
  while (!text.empty()) {
    const auto own =
        std::ranges::find_if(own_, [text](std::string_view sequence) { return text.starts_with(sequence); });
    const std::size_t taken = own != own_.end() ? own->size() : std::min(text.find_first_of("\x1b\r", 1), text.size());
    out += own != own_.end() ? std::string(*own) : escaped(text.substr(0, taken), LineEnds::kept);
    text.remove_prefix(taken);
  }
  waiting_.erase(0, bytes);
  to_ << out;
}

}  // namespace a2asim
