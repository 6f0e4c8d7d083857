#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <ostream>
#include <streambuf>
#include <string>
#include <vector>

#include "tools/program/program.h"

namespace {

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (term != nullptr && std::strcmp(term, "dumb") == 0);
  return !refused && isatty(STDOUT_FILENO) == 1;
}

// Standard output, with the reason why it could not be written: a std::ostream keeps none.
class StandardOutput : public std::streambuf {
 public:
  int reason() const { return reason_; }  // errno of the first write that failed, or 0

 protected:
  int_type overflow(int_type c) override {
    const char one = traits_type::to_char_type(c);
    return traits_type::eq_int_type(c, traits_type::eof()) || xsputn(&one, 1) == 1 ? traits_type::not_eof(c)
                                                                                   : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    std::streamsize done = 0;
    while (done < size && reason_ == 0) {
      const ssize_t written = ::write(STDOUT_FILENO, text + done, static_cast<std::size_t>(size - done));
      if (written >= 0)
        done += written;
      else if (errno != EINTR)
        reason_ = errno;
    }
    return done;
  }

 private:
  int reason_ = 0;
};

// A file that is opened later must not become standard output, input or error.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) == -1)
      static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));  // still of no use
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);  // `a2asim .. | head` is no crash: writes fail instead, see below
  StandardOutput buffer;
  std::ostream out(&buffer);
  a2asim::Io io{std::cin,
                out,
                std::cerr,
                isatty(STDIN_FILENO) == 1,
                wants_colour(),
                isatty(STDERR_FILENO) == 1,
                isatty(STDOUT_FILENO) == 1};
  const int exit_code = a2asim::run_program({argv + (argc > 0 ? 1 : 0), argv + argc}, io);
  if (buffer.reason() == 0 || buffer.reason() == EPIPE) return exit_code;
  std::cerr << "a2asim: cannot write to standard output: " << std::strerror(buffer.reason())
            << "; the result is lost\n";
  return a2asim::kUnusableInput;
}
