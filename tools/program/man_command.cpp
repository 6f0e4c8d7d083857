// a2asim man: the manual page, made of the same texts as --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/program/commands.h"
#include "tools/program/program.h"

namespace a2asim {
namespace {

// Text for roff: dashes that can be copied, and no line that is taken for a request.
std::string roff_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool starts_line = out.empty() || out.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) out += "\\&";
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '^':
        out += "\\(ha";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Lines that begin with a blank stay as they are, an empty line ends a paragraph, others are filled.
std::string paragraphs(std::string_view text) {
  std::string out;
  bool verbatim = false, fresh = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool wants_verbatim = line.starts_with(' ');
    if (wants_verbatim != verbatim) out += wants_verbatim ? ".PP\n.nf\n" : ".fi\n";
    if (line.empty() || (verbatim && !wants_verbatim)) fresh = true;
    verbatim = wants_verbatim;
    if (line.empty()) continue;
    if (!verbatim && fresh) out += ".PP\n";
    fresh = verbatim;
    out += roff_escaped(line) + '\n';
  }
  return out + (verbatim ? ".fi\n" : "");
}

std::string man_options(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const bool takes_value = option->get_items_expected_max() > 0 && !option->get_positional();
    const std::string head = option->get_positional() ? option->get_type_name() : option->get_name(false, true);
    out += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff_escaped(head),
                       takes_value ? fmt::format(" \\fI{}\\fR", roff_escaped(option->get_type_name())) : "",
                       roff_escaped(option->get_description()));
  }
  return out;
}

// The line that --help begins with: one text for both.
std::string usage_of(const CLI::App& app, const std::string& name) {
  const auto formatter = std::dynamic_pointer_cast<CLI::Formatter>(app.get_formatter());
  const std::string usage = formatter->make_usage(&app, name);
  const std::size_t begin = std::string_view("Usage: ").size();
  return roff_escaped(usage.substr(begin, usage.find('\n') - begin));
}

std::string manual_page(const CLI::App& program) {
  std::string out = fmt::format(".TH A2ASIM 1 \"\" \"a2asim {}\" \"User Commands\"\n", program_version());
  out += fmt::format(".SH NAME\na2asim \\- {}\n",
                     "check the size of the all\\-to\\-all of mixture\\-of\\-experts serving");
  out += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR\n", usage_of(program, program.get_name()));
  out += fmt::format(".SH DESCRIPTION\n{}\n", roff_escaped(program.get_description()));
  out += paragraphs(program.get_footer());
  out += ".SH OPTIONS\n" + man_options(program) + ".SH COMMANDS\n";
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    const std::string name = program.get_name() + ' ' + command->get_name();
    out += fmt::format(".SS {}\n{}\n", usage_of(*command, name), roff_escaped(command->get_description()));
    out += man_options(*command) + paragraphs(command->get_footer());
  }
  return out;
}

}  // namespace

void add_man(CLI::App& program, CommandLine& line) {
  CLI::App* command = program.add_subcommand("man", "Print the manual page, for man(1)");
  command->footer("Example:\n  a2asim man > a2asim.1 && man ./a2asim.1\n\nExit code: 0.");
  command->callback([&program, &line] {
    line.run = [&program, &line](Io& io) -> Result<int> {
      if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
      io.out << manual_page(program);
      return kNothingWrong;
    };
  });
}

}  // namespace a2asim
