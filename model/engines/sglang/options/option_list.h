// Every command-line option of SGLang, version by version, as ServerArgs.add_cli_args registers it on its
// argparse.ArgumentParser (python/sglang/srt/server_args.py). Each list is a text file of this folder, built in: the
// first is whole, every other says what changed against the one that it comes after. README.md explains a line.
//   const OptionSet& options = option_set(generation.options);
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "model/launch/argparse.h"

namespace a2asim {

struct OptionList {
  std::string_view name;        // "pr30450": its file, and the version that it was taken from
  std::string_view until = {};  // the list after it: a state between the two, which may have what either has
  bool operator==(const OptionList&) const = default;
};

std::span<const OptionList> option_lists();    // oldest first
std::string description(OptionList list);      // "July 2026 (ca8f15cd70)", for messages
const OptionSet& option_set(OptionList list);  // read when it is first asked for
std::string_view date_of(OptionList list);     // YYYY-MM-DD, of its state
// Where a name is known, in words: "v0.5.16 (July 2026) to v0.5.18 (August 2026)"; "" where it is in no list.
std::string lists_with(std::string_view option);
// The options of a day that a version's list was in force: its own, or those of later releases by then, and where the
// day lies between two lists, both.
OptionList options_at(OptionList list, std::string_view date);

}  // namespace a2asim
