// Servers in Python tests, read as data.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/launch/launch_file.h"
#include "tests/launch/described.h"

using namespace a2asim;
using test::described;
using Words = std::vector<std::string>;

namespace {

std::vector<LaunchedServer> python_servers(const std::string& text) {
  auto servers = find_servers_in_file(text);
  REQUIRE_MESSAGE(servers, (servers ? "" : servers.error().message));
  return std::move(*servers);
}

const std::string kServerImports = "import os\nfrom sglang.test.test_utils import popen_launch_server\n";

}  // namespace

TEST_CASE("python: commands in strings") {
  const std::string head = "import os, subprocess, shlex\n";
  CHECK(described(head + "os.system('sglang serve --tp 8')\n") == "2|--tp|8\n");
  CHECK(described(head + "subprocess.Popen('A=1 sglang serve '\n  '--tp 8', shell=True)\n") == "2 A=1|--tp|8\n");
  CHECK(described(head + "c = 'sglang serve --tp 4'\nsubprocess.run(c, shell=True)\n") == "3|--tp|4\n");
  CHECK(described(head + "subprocess.run(shlex.split('sglang serve --tp 2'))\n") == "2|--tp|2\n");
  CHECK(described(head + "os.system(f'sglang serve --tp {tp}')\n").find("not read: the f-string in line 2") !=
        std::string::npos);
  CHECK(described(head + "os.system('pkill -f \"sglang serve\"')\n") == "none");
}

TEST_CASE("python: the options of popen_launch_server") {
  const auto servers = python_servers(kServerImports + R"(
MODEL = "org/model"
class TestOne(CustomTestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = popen_launch_server(
            MODEL, cls.base_url, timeout=600,
            other_args=[
                "--tp", "8",  # a comment, with ]
                '--moe-a2a-backend', 'deepep',
                "--max-running-requests", str(64),
                "--served-model-name", "a" "b",
            ],
            env={**os.environ, "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK": "256"},
        )
)");
  REQUIRE(servers.size() == 1);
  CHECK(servers[0].command.argv == Words{"--model-path", "org/model", "--tp", "8", "--moe-a2a-backend", "deepep",
                                         "--max-running-requests", "64", "--served-model-name", "ab"});
  CHECK(servers[0].command.env.get("SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK") == "256");
  CHECK(servers[0].name == "TestOne");
  CHECK(servers[0].line == 8);
}

TEST_CASE("python: lists are put together") {
  const auto servers = python_servers(kServerImports + R"(
common_args = ["--tp", "4", "--dp", "4"]
def launch(extra):
    a = common_args + ["--enable-dp-attention"]
    popen_launch_server("m", URL, other_args=[*a, "--moe-a2a-backend", "flashinfer"])
)");
  REQUIRE(servers.size() == 1);
  CHECK(servers[0].command.argv == Words{"--model-path", "m", "--tp", "4", "--dp", "4", "--enable-dp-attention",
                                         "--moe-a2a-backend", "flashinfer"});
}

TEST_CASE("python: commands, engines, and lists that a base class takes") {
  CHECK(python_servers("import subprocess\nos.environ['SGLANG_A'] = '1'\n"
                       "subprocess.Popen(['python3', '-m', 'sglang.launch_server', '--tp', '2'])\n")
            .front()
            .command.argv == Words{"--tp", "2"});
  CHECK(python_servers("import sglang as sgl\nllm = sgl.Engine(model_path='m', tp_size=2, enable_dp_attention=True, "
                       "trust_remote_code=False, cuda_graph_bs=[1, 2])\n")
            .front()
            .command.argv ==
        Words{"--model-path", "m", "--tp-size", "2", "--enable-dp-attention", "--cuda-graph-bs", "1", "2"});
  const auto bases = python_servers(kServerImports +
                                    "class A(Base):\n    other_args = ['--tp', '2']\n"
                                    "class B(Base):\n    extra_args = ['--tp', '4']\n");
  REQUIRE(bases.size() == 2);
  CHECK(bases[0].name == "A");
  CHECK(bases[1].command.argv == Words{"--tp", "4"});
}

TEST_CASE("python: what nothing in the text sets stays open") {
  const auto open = python_servers(kServerImports + "popen_launch_server(m, u, other_args=['--tp', tp, *more])\n");
  REQUIRE(open.size() == 1);
  CHECK(open[0].command.argv.back() == "$tp");
  REQUIRE(open[0].command.unread.size() == 1);
  CHECK(open[0].command.unread[0].starts_with("$more"));
  CHECK_FALSE(find_servers_in_file("import os\nprint('--tp')\n").has_value());
  CHECK(find_servers_in_file("import os\npopen_launch_server(m, u, other_args=['--tp'").error().message ==
        "the Python text ends inside a bracket");
  CHECK(python_servers("Text.\n\n```python\nimport sglang\nsglang.Engine(model_path='m', tp_size=8)\n```\n")
            .front()
            .line == 5);
}

TEST_CASE("yaml: components of Dynamo and AIConfigurator") {
  const auto options = python_servers(
      "Common:\n  served_model_name: x\nSGLangWorker:\n  model-path: m\n  tp: 8\n  enable-dp-attention: true\n"
      "  ServiceArgs:\n    workers: 1\n");
  REQUIRE(options.size() == 1);
  CHECK(options[0].name == "SGLangWorker");
  CHECK(options[0].command.front_end->module == "dynamo.sglang");
  CHECK(options[0].command.argv == Words{"--model-path", "m", "--tp", "8", "--enable-dp-attention"});
  const auto args = python_servers(
      "spec:\n  services:\n    Frontend:\n      args: ['--router-mode kv']\n    SGLangDecodeWorker:\n"
      "      args: ['--model-path m', --tp, 8]\n      env: [{name: SGLANG_X, value: '1'}]\n");
  REQUIRE(args.size() == 1);
  CHECK(args[0].command.argv == Words{"--model-path", "m", "--tp", "8"});
  CHECK(args[0].command.env.get("SGLANG_X") == "1");
}

TEST_CASE("yaml: a component with the engine's own image is one server, of that image") {
  const auto own = python_servers(
      "decode:\n  containers:\n  - name: vllm\n    image: vllm/vllm-openai:v0.11.0\n    args: [--model, m]\n");
  REQUIRE(own.size() == 1);
  CHECK(own[0].command.argv == Words{"--model", "m"});
  const auto other = python_servers(
      "decode:\n  containers:\n  - name: sglang\n    image: lmsysorg/sglang:v0.5.13\n    args: [--model-path, m]\n");
  REQUIRE(other.size() == 1);
  CHECK(other[0].images == Words{"lmsysorg/sglang:v0.5.13"});
}

TEST_CASE("yaml: scripts of GitLab, sflow and GitHub's workflows") {
  const auto sflow = python_servers(
      "variables:\n  TP: {description: d, value: 8}\nworkflow:\n  tasks:\n  - name: front\n    script: [sleep 1]\n"
      "  - name: agg\n    script:\n    - set -x\n    - |-\n      python3 -m dynamo.sglang --model-path m \\\n"
      "        --tp ${{ variables.TP }}\n");
  REQUIRE(sflow.size() == 1);
  CHECK(sflow[0].name == "agg");
  CHECK(sflow[0].line == 9);  // its first command
  CHECK(sflow[0].command.argv == Words{"--model-path", "m", "--tp", "8"});
  const auto gitlab = python_servers(
      "variables: {TP: '4'}\nserve:\n  image: lmsysorg/sglang:v0.5.13\n  variables: {DP: '2'}\n  script:\n"
      "  - python3 -m sglang.launch_server --tp $TP --dp ${DP}\n");
  REQUIRE(gitlab.size() == 1);
  CHECK(gitlab[0].images == Words{"lmsysorg/sglang:v0.5.13"});
  CHECK(gitlab[0].command.argv == Words{"--tp", "4", "--dp", "2"});
  const auto github = python_servers(
      "jobs:\n  a:\n    steps:\n    - run: echo hello\n    - name: start\n      env: {TP: 8}\n      run: |\n"
      "        if true; then\n          sglang serve --tp $TP --dp ${{ matrix.dp }}\n        fi\n");
  REQUIRE(github.size() == 1);
  CHECK(github[0].name == "start");
  CHECK(github[0].command.argv == Words{"--tp", "8", "--dp", "${matrix_dp}"});
}

TEST_CASE("python: what a command's text or list is added up from is read, or said not to be") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"os.system('sglang serve ' + '--tp 8')", "2|--tp|8\n"},
      {"os.system('sglang serve ' '--tp ' + '8' + ' --dp 2')", "2|--tp|8|--dp|2\n"},
      {"os.system('sglang serve ' + x)", "2 not read: what line 2 adds to the text of the command\n"},
      {"os.system('sglang serve --tp {}'.format(4))",
       "2|--tp|{} not read: what line 2 adds to the text of the command\n"},
      {"c = 'sglang serve --tp 4'\nos.system(c)", "3|--tp|4\n"},
      {"c = 'sglang serve --tp 4'\nos.system(c + ' --dp 2')",
       "3|--tp|4 not read: what line 3 adds to the text of the command\n"},
      {"run(['sglang', 'serve'] + ['--tp', '8'])", "2|--tp|8\n"},
      {"run(['sglang', 'serve'] + ['--tp', '8'] + more, check=True)", "2|--tp|8 not read: $more in line 2\n"},
      {"more = ['--tp', '2']\nrun(['sglang', 'serve'] + more)", "3|--tp|2\n"},
      {"run(['sglang', 'serve'] + x.split())", "2 not read: $x_split__ in line 2\n"},
      {"c = ['sglang', 'serve'] + ['--tp', '8']\nrun(c)", "2|--tp|8\n"},
      {"c = ['sglang', 'serve']\nc += ['--tp', '8']\nrun(c)", "2 not read: what line 3 does to c\n"},
      {"c = ['sglang', 'serve']\nif x:\n  c.extend(['--tp', '8'])\nrun(c)", "2 not read: what line 4 does to c\n"},
      {"c = ['sglang', 'serve']\nc.append('-x'), c.insert(2, 'y')\nrun(c)",
       "2 not read: what line 3 does to c not read: what line 3 does to c\n"},
      {"c = ['sglang', 'serve']\nc[0] = 'x'\nrun(c)", "2 not read: what line 3 does to c\n"},
      {"c = ['sglang', 'serve']\nrun(c)\nc = []\nc += ['a']", "2\n"},
      {"c = ['sglang', 'serve']\nif c == 1: pass\nx = c[0]\nif c[0] == 'x' or d.c[0] == 1: pass\nrun(c)", "2\n"},
      {"c = 'sglang serve --tp 4'\nc += ' --dp 2'\nos.system(c)", "4|--tp|4 not read: what line 3 does to c\n"},
      {"c = 'sglang serve --tp 4'\nos.system(c)\nc = 'x'\nc += 'y'", "3|--tp|4\n"},
      {"args = ['--tp', '8']\nargs += ['--dp', '2']\nrun(['sglang', 'serve'] + args)",
       "4|--tp|8 not read: what line 3 does to args\n"},
      {"args = ['--tp', '8']\nargs.append('-x')\npopen_launch_server('M', url, other_args=args)",
       "4|--model-path|M|--tp|8 not read: what line 3 does to args\n"},
      {"args = ['--tp', '8']\npopen_launch_server('M', url, other_args=args)", "3|--model-path|M|--tp|8\n"},
      {"cls.args = ['--tp', '8']\ncls.args += ['-x']\npopen_launch_server('M', url, other_args=cls.args)",
       "4|--model-path|M|--tp|8 not read: what line 3 does to args\n"},
      {"args = ['--tp', '8']\nx.args.pop()\npopen_launch_server('M', url, other_args=args)\ndef f(args):\n  args += "
       "[1]",
       "4|--model-path|M|--tp|8\n"},
      {"run(['sglang', 'serve', '--tp', '8'][0:4])", "none"},
      {"run(['sglang', 'serve', '--tp', str(8), '--dp', int('2'), '--x', -1])", "2|--tp|8|--dp|2|--x|-1\n"},
      {"run(['sglang', 'serve', '--tp', str()])", "2|--tp|$value_\n"},
      {"run(['sglang', 'serve', *['--tp', '8'], *rest])", "2|--tp|8 not read: $rest in line 2\n"},
  };
  for (const auto& [text, expected] : rows) {
    CAPTURE(text);
    CHECK(described("import os\n" + text + "\n") == expected);
  }
}

// Time that grows with the square of the text would not end here.
TEST_CASE("python: names and brackets by the hundred thousand are read") {
  std::string names = "import os\n", brackets = names, calls = names + "run(['sglang', 'serve', '--tp', ";
  for (int i = 0; i < 50'000; ++i) {
    names += "a" + std::to_string(i) + " = 'x'\n";
    brackets += "[";
    calls += "str(";
  }
  CHECK(described(names) == "none");
  CHECK(described(brackets) == "the Python text ends inside a bracket");
  CHECK(described(calls + "8" + std::string(50'000, ')') + "])\n") == "2|--tp|8\n");
}
