// Every command-line option of SGLang, version by version, as ServerArgs.add_cli_args registers it on its
// argparse.ArgumentParser (python/sglang/srt/server_args.py). Each list is a text file of this folder, built in: the
// first is whole, every other says what changed against the one that it comes after. README.md explains a line.
//   const OptionSet& options = option_set(generation.options);
#pragma once

#include <span>
#include <string_view>

#include "model/launch/argparse.h"

namespace a2asim {

struct OptionList {
  std::string_view name;  // "pr30450": its file, and the version that it was taken from
  bool operator==(const OptionList&) const = default;
};

std::span<const OptionList> option_lists();     // oldest first
std::string_view description(OptionList list);  // "July 2026 (ca8f15cd70)", for messages
const OptionSet& option_set(OptionList list);   // read when it is first asked for

}  // namespace a2asim
