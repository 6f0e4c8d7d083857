// a2asim glossary: the words that the program uses, each said once.
#include "tools/program/commands.h"
#include "tools/program/template.h"

namespace a2asim {
namespace {

struct GlossaryArguments {};

Result<int> run_glossary(const GlossaryArguments&, const CommandLine& line, Io& io) {
  if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
  io.out << help_text("glossary.help") << '\n';
  return kNothingWrong;
}

}  // namespace

void add_glossary(CLI::App& program, CommandLine& line) {
  add_command<GlossaryArguments>(
      program, line, "glossary", "The words that a2asim uses", [](CLI::App&, GlossaryArguments&) {}, run_glossary);
}

}  // namespace a2asim
