// Inside launch reading: which words start a server.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/launch/launch_command.h"
#include "model/launch/shell_expand.h"

namespace a2asim {

// Where the server's arguments begin.
struct FoundServer {
  const FrontEnd* front_end = nullptr;
  std::size_t front = 0;      // first word of the front end: -m, the program, or the script
  std::size_t arguments = 0;  // first word behind it
};
std::optional<FoundServer> find_front_end(std::span<const ShellValue> words);

// Whether the text holds the words of one, anywhere.
bool names_a_server(std::string_view text);

// "vllm/vllm-openai:v0.12.0" and the like: whose server the image starts; nullptr: it is none that is known.
const FrontEnd* front_end_of_image(std::string_view word);

// Commands that start nothing, whatever they are given: echo, pkill, grep, ..
bool starts_nothing(std::span<const ShellValue> words);

// The word that another shell runs as a text of its own: of bash -c, ssh, sbatch --wrap, ..
std::optional<std::size_t> find_nested_text(std::span<const ShellValue> words);

// A shell that runs what it reads from its standard input: where the arguments for it begin.
std::optional<std::size_t> reads_script(std::span<const ShellValue> words);

// Whether the command hands its standard input, or a script that it names, to a shell.
bool runs_scripts(std::span<const ShellValue> words);

// `serve MODEL ..` names the model without a flag, and some options are the front end's own.
std::vector<std::string> server_arguments(const FrontEnd& front_end, std::span<const std::string> words);
// Whether some engine looks at a variable of this name.
bool is_variable_of_engines(std::string_view name);
// python3 -u FILE.py ARGS: where FILE stands; behind all words where Python runs what it reads, as python3 - ARGS does.
std::optional<std::size_t> python_source(std::span<const ShellValue> words);
// A file whose variables are of the shell, and none of a server's options.
bool sets_up_a_shell(std::string_view file);

// Where a script FILE stands that the words run: `bash -x FILE 8`, `A=1 ./FILE`, `srun -N2 FILE.sh`. Its word is open
// where only the outside knows which file it is.
std::optional<std::size_t> find_script(std::span<const ShellValue> words);
bool is_named_as_script(std::string_view word);
// Text, and its first line names no interpreter but a shell.
bool is_shell_script(std::string_view text);

std::string_view basename_of(std::string_view path);

}  // namespace a2asim
