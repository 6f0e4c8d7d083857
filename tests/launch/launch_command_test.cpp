#include "model/launch/launch_command.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace a2asim;
using Words = std::vector<std::string>;

namespace {

LaunchCommand read(std::string_view text) {
  const auto command = parse_launch_command(text);
  REQUIRE_MESSAGE(command, (command ? "" : command.error().message));
  CHECK(*parse_launch_command(print(*command)) == *command);
  return *command;
}

std::string bad(std::string_view text) {
  const auto command = parse_launch_command(text);
  REQUIRE_FALSE(command);
  CHECK(command.error().kind == ErrorKind::bad_input);
  CHECK(command.error().message.find('\n') == std::string::npos);
  return command.error().message;
}

bool has_note(const LaunchCommand& command, std::string_view part) {
  for (const Note& note : command.notes)
    if (note.message.find(part) != std::string::npos) return true;
  return false;
}

const std::string kStarts = "python3 -m sglang.launch_server ";

}  // namespace

TEST_CASE("launch command: front ends") {
  const std::pair<const char*, std::string> front_ends[] = {
      {"python -m sglang.launch_server --tp 8", "python3 -m sglang.launch_server"},
      {"/opt/venv/bin/python3.11 -u -m sglang.launch_server --tp 8", "python3 -m sglang.launch_server"},
      {"python3 /sgl-workspace/sglang/python/sglang/launch_server.py --tp 8", "python3 -m sglang.launch_server"},
      {"sglang serve --tp 8", "sglang serve"},
      {"/usr/local/bin/sglang serve --tp 8", "sglang serve"},
      {"python3 -m sglang_router.launch_server --tp 8", "python3 -m sglang_router.launch_server"},
      {"python3 -m dynamo.sglang --tp 8", "python3 -m dynamo.sglang"},
      {"python3 -m dynamo.sglang.decode_worker --tp 8", "python3 -m dynamo.sglang"},
      {"python3 -m vllm.entrypoints.openai.api_server --tp 8", "python3 -m vllm.entrypoints.openai.api_server"},
      {"python /opt/vllm/entrypoints/openai/api_server.py --tp 8", "python3 -m vllm.entrypoints.openai.api_server"},
      {"vllm serve --tp 8", "vllm serve"},
      {"vllm bench --tp 8", "vllm bench"},
      {"python3 -m dynamo.vllm --tp 8", "python3 -m dynamo.vllm"},
      {"python3 -m dynamo.vllm.worker --tp 8", "python3 -m dynamo.vllm"},
      {"trtllm-serve --tp 8", "trtllm-serve"},
      {"/usr/bin/trtllm-bench --tp 8", "trtllm-bench"},
      {"python3 -m dynamo.trtllm --tp 8", "python3 -m dynamo.trtllm"},
  };
  for (const auto& [text, front_end] : front_ends) {
    CAPTURE(text);
    CHECK(read(text).front_end->command == front_end);
    CHECK(read(text).argv == Words{"--tp", "8"});
  }
}

TEST_CASE("launch command: behind launchers, inside other words") {
  for (const char* text : {
           "nohup python3 -m sglang.launch_server --tp 8 > log 2>&1 &",
           "numactl --cpunodebind=0 --membind=0 python3 -m sglang.launch_server --tp 8 | tee log",
           "srun -N 2 --ntasks-per-node=1 python3 -m sglang.launch_server --tp 8",
           "cd /x && exec python3 -m sglang.launch_server --tp 8; echo done",
           "if true; then python3 -m sglang.launch_server --tp 8; fi",
           "docker run --gpus all lmsysorg/sglang:latest bash -c 'python3 -m sglang.launch_server --tp 8'",
           "ssh host \"nohup bash -lc 'python3 -m sglang.launch_server --tp 8' &\"",
           "echo \"don't use sglang serve here\"\npython3 -m sglang.launch_server --tp 8",
       }) {
    CAPTURE(text);
    CHECK(read(text).argv == Words{"--tp", "8"});
  }
}

TEST_CASE("launch command: quotes and backslashes") {
  CHECK(read(kStarts + "'a b' \"c d\" e\\ f g'h'i").argv == Words{"a b", "c d", "e f", "ghi"});
  CHECK(read(kStarts + "'it'\\''s' \"a\\\"b\\$c\\d\" '' \"\"").argv == Words{"it's", "a\"b$c\\d", "", ""});
  CHECK(read(kStarts + "--x '{\"a\": [1, 2]}'").argv == Words{"--x", "{\"a\": [1, 2]}"});
}

TEST_CASE("launch command: lines, continuations and comments") {
  CHECK(read("# start\n" + kStarts + "--tp 8 \\\n  --dp 4 # both\n--ep 2").argv == Words{"--tp", "8", "--dp", "4"});
  CHECK(read(kStarts + "--tp 8 \\\r\n --dp 4\r\n").argv == Words{"--tp", "8", "--dp", "4"});
  CHECK(read(kStarts + "a#b").argv == Words{"a#b"});
  const LaunchCommand slip = read(kStarts + "--tp 8 \\  \n --dp 4");
  CHECK(slip.argv == Words{"--tp", "8", "--dp", "4"});
  CHECK(has_note(slip, "followed by blanks"));
}

TEST_CASE("launch command: environment") {
  const LaunchCommand command =
      read("export A=1 B='x y'\nexport C\nC=3\nD=4\nunset A\nE=5 env F=6 " + kStarts + "--tp 8");
  CHECK(command.env.get("A") == std::nullopt);
  CHECK(command.env.get("B") == "x y");
  CHECK(command.env.get("C") == "3");
  CHECK(command.env.get("D") == std::nullopt);  // set, but not exported
  CHECK(command.env.get("E") == "5");
  CHECK(command.env.get("F") == "6");
  const LaunchCommand docker = read("docker run -e A=1 --env B=2 --env=C=3 image sh -c 'export D=4; sglang serve'");
  for (const char* name : {"A", "B", "C", "D"}) CHECK(docker.env.is_set(name));
  CHECK(has_note(read("SGLANG_X=1\n" + kStarts), "SGLANG_X is set without export"));
  CHECK_FALSE(read(kStarts + "--tp 8\nexport A=1").env.is_set("A"));
}

TEST_CASE("launch command: variables") {
  CHECK(read("TP=8\n" + kStarts + "--tp $TP --dp=${TP} --ep \"$TP\" '$TP'").argv ==
        Words{"--tp", "8", "--dp=8", "--ep", "8", "$TP"});
  CHECK(read("A='--tp 8'\n" + kStarts + "$A \"$A\"").argv == Words{"--tp", "8", "--tp 8"});
  // An open value stays the value of its option; what stands alone may be any options, and is no word of the command.
  const LaunchCommand open = read(kStarts + "--tp $TP ${DP:-4} --x $(nproc --all) --y=`a b` $ ${X%y} `c d`");
  CHECK(open.argv == Words{"--tp", "$TP", "4", "--x", "$(nproc --all)", "--y=`a b`", "$"});
  CHECK(open.unread == Words{"${X%y} in line 1", "`c d` in line 1"});
}

TEST_CASE("launch command: the default of a variable counts, with a note") {
  const LaunchCommand command = read("TP=8\n" + kStarts + "--tp ${TP:-2} --dp ${DP:-4} --port ${P-1} --ep ${E:=2}");
  CHECK(command.argv == Words{"--tp", "8", "--dp", "4", "--port", "1", "--ep", "2"});
  CHECK(has_note(command, "the default written there counts: DP=4, E=2, P=1"));
  CHECK(read("S=3\n" + kStarts + "--node-rank ${RANK:-$S} --x ${A:-${B:-7}} --c ${C:-$D} --tp ${TP:?give it}").argv ==
        Words{"--node-rank", "3", "--x", "7", "--c", "$D", "--tp", "${TP:?give it}"});
  CHECK(read("A=\n" + kStarts + "${A:-1} \"${A-2}\"").argv == Words{"1", ""});
  std::string deep = kStarts;
  for (int i = 0; i < 2000; ++i) deep += "${A:-";
  CHECK(bad(deep + std::string(2000, '}')).find("expansion ${") != std::string::npos);  // nests too deep to be followed
}

TEST_CASE("launch command: arrays") {
  CHECK(read("ARGS=(--tp 4 # ranks\n  --name 'a b')\nARGS+=(--dp 2)\n" + kStarts + "\"${ARGS[@]}\" --ep 1").argv ==
        Words{"--tp", "4", "--name", "a b", "--dp", "2", "--ep", "1"});
  CHECK(read("A=('a b' c)\n" + kStarts + "${A[@]} \"${A[*]}\" x\"${A[@]}\"y ${A[1]} $A").argv ==
        Words{"a", "b", "c", "a b c", "xa b", "cy", "c", "a", "b"});
  const LaunchCommand unknown = read("declare -a A=(--tp 4)\nB=()\n" + kStarts + "\"${A[@]}\" \"${B[@]}\" \"${N[@]}\"");
  CHECK(unknown.argv == Words{"--tp", "4"});
  CHECK(unknown.unread == Words{"${N[@]} in line 3"});
  CHECK(read("if true; then\n  A+=(--tp 4)\nfi\n" + kStarts + "${A[@]}").argv == Words{"--tp", "4"});
  CHECK(bad("A=(--tp 4\n" + kStarts + "${A[@]}").find("the array that begins at byte 2 has no end") !=
        std::string::npos);
  std::string doubling = "A=(\"\" \"\")\n";
  for (int i = 0; i < 40; ++i) doubling += "A=(\"${A[@]}\" \"${A[@]}\")\n";
  CHECK(bad(doubling + kStarts).find("1 MiB") != std::string::npos);
}

TEST_CASE("launch command: text is appended, then and do stand in front of what they run") {
  CHECK(read("A='--tp 4'\nA+=' --dp 2'\n" + kStarts + "$A").argv == Words{"--tp", "4", "--dp", "2"});
  CHECK(read("if true; then TP=4; fi\n" + kStarts + "--tp $TP").argv == Words{"--tp", "4"});
  CHECK(read("declare -x X=1\nlocal TP=4\n" + kStarts + "--tp $TP").env.get("X") == "1");
}

TEST_CASE("launch command: options on a line of their own are lost, and that is said") {
  const auto lost = [](const std::string& text, std::string_view why) {
    CAPTURE(text);
    const LaunchCommand command = read(kStarts + text);
    CHECK(command.argv == Words{"--tp", "8"});
    REQUIRE_FALSE(command.notes.empty());
    CHECK(command.notes.back().is_warning);
    CHECK(has_note(command, why));
    CHECK(has_note(command, "--moe-a2a-backend deepep"));
  };
  lost("\\\n--tp 8\n--moe-a2a-backend deepep", "line 3");
  lost("\\\n--tp 8\n--moe-a2a-backend deepep", "is a backslash missing at the end of line 2?");
  lost("--tp 8 \\\n# ranks\n--moe-a2a-backend deepep", "the comment in line 2 ends the command");
  lost("--tp 8 \\\n\n --moe-a2a-backend deepep", "the empty line 2 ends the command");
  lost("--tp 8\n--dp 4\n--moe-a2a-backend deepep", "line 2: --dp 4 --moe-a2a-backend deepep is not part");
  CHECK(read(kStarts + "--tp 8\necho x\n--not-directly-behind").notes.empty());
  CHECK(read("--before\n" + kStarts + "--tp 8 \\\n --dp 8\n").notes.empty());
}

TEST_CASE("launch command: a setting of SGLang that nobody filled in") {
  CHECK(has_note(read("export SGLANG_X=$CAP\n" + kStarts), "SGLANG_X=$CAP is not set in the command"));
}

TEST_CASE("launch command: redirections go, placeholders stay") {
  CHECK(read(kStarts + "--tp 8 >log 2>&1 <in --dp 4 &> all").argv == Words{"--tp", "8", "--dp", "4"});
  CHECK(read(kStarts + "--model-path <MODEL_PATH> --tp 8").argv == Words{"--model-path", "<MODEL_PATH>", "--tp", "8"});
}

TEST_CASE("launch command: sglang serve names its model without a flag") {
  CHECK(read("sglang serve org/model --tp 8").argv == Words{"--model-path", "org/model", "--tp", "8"});
  CHECK(read("sglang serve --model-type llm org/model").argv == Words{"--model-path", "org/model"});
}

TEST_CASE("launch command: several servers") {
  const LaunchCommand command = read(kStarts + "--tp 8 &\n" + kStarts + "--tp 4");
  CHECK(command.argv == Words{"--tp", "8"});
  CHECK(has_note(command, "starts 2 servers"));
}

TEST_CASE("launch command: bad input") {
  CHECK(bad("").starts_with("no command"));
  CHECK(bad(" \n ").starts_with("no command"));
  CHECK(bad("--tp 8 --dp 8").find("starts no server that is known here") != std::string::npos);
  CHECK(bad(kStarts + "\n'abc").find("line 2 of the command: the quote '") != std::string::npos);
  CHECK(bad(kStarts + "\"abc").find("quote \"") != std::string::npos);
  CHECK(bad(kStarts + "$(abc").find("$(") != std::string::npos);
  CHECK(bad(kStarts + "${abc").find("${") != std::string::npos);
  CHECK(bad("bash -c 'python -m sglang.launch_server \"x'").find("quote") != std::string::npos);
  CHECK(bad(std::string("python\0-m", 9)).find("byte 0x00 at offset 6") != std::string::npos);
  CHECK(bad("\xff\xfe").find("no text") != std::string::npos);
  CHECK(bad(kStarts + "\xed\xa0\x80").find("no text") != std::string::npos);  // a surrogate
  CHECK(bad(kStarts + "\xe2\x82").find("no text") != std::string::npos);
  CHECK(bad(kStarts + std::string(10'000'000, 'x')).find("1 MiB") != std::string::npos);
  std::string many = kStarts;
  for (int i = 0; i < 30000; ++i) many += "--x ";
  CHECK(bad(many).find("30000 words") != std::string::npos);
  std::string doubling = "A=xxxxxxxx\n";
  for (int i = 0; i < 40; ++i) doubling += "A=$A$A\n";
  CHECK(bad(doubling + kStarts + "$A").find("1 MiB") != std::string::npos);
}

TEST_CASE("launch command: words that a shell has split already") {
  const auto command = parse_launch_words(Words{"A=1", "python3", "-m", "sglang.launch_server", "--x", "a b", "$TP"});
  REQUIRE(command);
  CHECK(command->env.get("A") == "1");
  CHECK(command->argv == Words{"--x", "a b", "$TP"});
  const auto with_default = parse_launch_words(Words{"sglang", "serve", "--node-rank=${RANK:-0}x${A}", "${B:-}"});
  CHECK(with_default->argv == Words{"--node-rank=0x${A}", ""});
  CHECK(has_note(*with_default, "RANK is not set"));
  CHECK(parse_launch_words(Words{"python3 -m sglang.launch_server --tp 8"})->argv == Words{"--tp", "8"});
  CHECK(parse_launch_words(Words{"lmdeploy", "serve"}).error().kind == ErrorKind::bad_input);
  CHECK_FALSE(parse_launch_words(Words{}));
}

TEST_CASE("launch command: printed so that a shell reads it back") {
  LaunchCommand command;
  command.front_end = &launch_syntaxes().front()->front_ends.front();
  command.env.set("A", "it's");
  command.env.set("B", "");
  command.argv = {"--model-path", "a b", "", "$X", "#", "~", "tab\there"};
  CHECK(print(command) ==
        "A='it'\\''s' B= python3 -m sglang.launch_server --model-path 'a b' '' '$X' '#' '~' 'tab\there'");
  CHECK(*parse_launch_command(print(command)) == command);
}
