#include "tools/program/commands.h"

#include <array>

namespace a2asim {

std::span<const AddCommand> commands() {
  static constexpr std::array kCommands = {
      add_check,    add_upgrade, add_replay,  add_explore,  add_merge,    add_conform,    add_plan,  add_from_log,
      add_validate, add_conformance, add_learn,   add_explain, add_versions, add_glossary, add_completion, add_man,
  };
  return kCommands;
}

Result<void> refuse_launch(const CommandLine& line) {
  if (line.after_dashes) return fail(ErrorKind::bad_input, "takes no launch command: leave out `--` and what follows");
  return {};
}

}  // namespace a2asim
