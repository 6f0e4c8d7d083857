// Servers of Python files, read as data, against Python itself, where stand-ins for the modules print what they get.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "model/launch/launch_file.h"
#include "model/launch/launch_text.h"
#include "tests/launch/shell_words.h"
#include "tests/main/skip.h"

using namespace a2asim;

namespace {

// A server is a line: the variables SGLANG_A and SGLANG_B where they are set, then its words, parted by |.
const std::string kStandIns = R"(
import json, os, subprocess, sys, types
def module(name, **members):
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(members)
    return made
def show(words, env):
    env = "".join(f"{name}={env[name]}|" for name in ("SGLANG_A", "SGLANG_B") if name in env)
    print(env + "".join(word + "|" for word in words))
def engine(**options):
    words = []
    for key, value in options.items():
        if value not in (False, None):
            values = [] if value is True else value if isinstance(value, list) else [value]
            words += ["--" + key.replace("_", "-"), *map(str, values)]
    show(words, os.environ)
def popen_launch_server(model, url, timeout=1, other_args=(), env=None):
    show(["--model-path", model, *other_args], {**os.environ, **(env or {})})
def flat(value, name):
    if isinstance(value, dict) and value:
        return [word for key in sorted(value) for word in flat(value[key], f"{name}.{key}" if name else key)]
    return ["--" + name + "=" + (value if isinstance(value, str) else json.dumps(value, separators=(",", ":")))]
def llm(model=None, **options):
    show(flat({"model": model, **options} if model is not None else options, ""), os.environ)
module("sglang", Engine=engine)
module("sglang.test")
module("sglang.test.test_utils", popen_launch_server=popen_launch_server)
module("tensorrt_llm", LLM=llm, MoeConfig=dict)
subprocess.Popen = lambda words, **options: show(words[3:], os.environ)
)";

std::string by_python(const std::string& text) {
  return test::printed_by("python3 -W ignore -c " + shell_quote(kStandIns + "exec(compile(sys.argv[1], '-', 'exec'))") +
                          " " + shell_quote(text) + " 2>&1 </dev/null");
}

std::string python_by_us(const std::string& text) {
  const auto servers = find_servers_in_file(text);
  if (!servers) return servers.error().message;
  std::string out;
  for (const LaunchedServer& server : *servers) {
    for (const std::string& word : server.command.unread) out += "not read: " + word;
    for (const char* name : {"SGLANG_A", "SGLANG_B"})
      if (const auto value = server.command.env.get(name)) out += name + ("=" + std::string(*value)) + "|";
    for (const std::string& word : server.command.argv) out += word + "|";
    out += "\n";
  }
  return out;
}

bool has_python() { return std::system("python3 -c 'import json' >/dev/null 2>&1") == 0; }

void check_as_python(const std::string& text) {
  const std::string expected = by_python(text);
  CAPTURE(text);
  CHECK(expected.size() > 1);
  CHECK(python_by_us(text) == expected);
}

// Ways to write one text, and one number.
const std::vector<std::string> kTexts = {
    "'a'",     "\"a b\"", "'a' 'b'", "'a\\'b'",  "\"a\\\"b\"", "'''a'b'''", "\"\"\"a\"b\"\"\"", "r'a\\d'", "u'a'",
    "f'a'",    "R\"a\"",  "'a # b'", "'(a, b]'", "'a\\\\b'",   "''",        "str('a')",         "NAME",    "'x=1'",
    "'a\\nb'", "'a\\tb'", "str(5)",  "str(-5)",  "'{a}'",      "'a\\\nb'"};
const std::string kImports =
    "import sglang\nimport subprocess, os\nfrom sglang.test.test_utils import popen_launch_server\n";

}  // namespace

TEST_CASE("python: texts, numbers and names are what they are in Python") {
  if (!has_python()) return test::skip("needs python3");
  std::string text = kImports + "NAME = 'one'  # a comment, 'quoted\nCOUNT = 4\nTWO = 'p' 'q'\n";
  for (const std::string& word : kTexts) {
    text += "subprocess.Popen(['python3', '-m', 'sglang.launch_server', '--a', " + word + ", '--b'])\n";
    text += "sglang.Engine(model_path=" + word + ", tp_size=COUNT)\n";
  }
  text +=
      "sglang.Engine(a=8, b=-8, c=0.5, d=True, e=False, f=None, g=[1, 2], h=['x', 'y', NAME], i=TWO, j=int(8), "
      "k_l_m=[],)\n";
  check_as_python(text);
}

TEST_CASE("python: lists are put together as in Python") {
  if (!has_python()) return test::skip("needs python3");
  std::string text =
      kImports +
      "common = ['--tp', '8']\nmore_args = common + ['--dp', '2']\nclass Values:\n    flags = ['--x']\n    name = 'v'\n"
      "third = common + more_args\ncommon_2 = [\n    '--y',  # of two ]\n    '1',\n]\n";
  for (const std::string& list : std::vector<std::string>{
           "['--a', '1']", "('--a', '1')", "[]", "common", "more_args", "third", "common_2", "common + ['--z']",
           "['--z'] + common", "[*common, '--z']", "[*common, *more_args]", "['--n', Values.name]",
           "Values.flags + common", "common + Values.flags + ['--q']", "[\n  '--a',\n  '1',\n]", "['--a', '1',]",
           "['--a'] + ['1'] + ['--b']", "['--j', '[1, 2]', '--k']"}) {
    text += "popen_launch_server('m', 'http://u', other_args=" + list + ")\n";
    text += "popen_launch_server('m', 'u', timeout=600, other_args=" + list +
            ", env={**os.environ, 'SGLANG_A': '1', 'SGLANG_B': str(2)})\n";
  }
  check_as_python(text);
}

TEST_CASE("python: variables reach the servers behind them") {
  if (!has_python()) return test::skip("needs python3");
  const std::string start = "sglang.Engine(model_path='m')\n";
  check_as_python(kImports + start + "os.environ['SGLANG_A'] = '1'\n" + start +
                  "os.environ['SGLANG_B'] = str(2)\nos.environ[\"SGLANG_A\"] = '3'\n" + start +
                  "popen_launch_server('m', 'u', other_args=['--a'], env={'SGLANG_B': '9'})\n" + start +
                  "subprocess.Popen(['python3', '-m', 'sglang.launch_server', '--b'])\n");
  check_as_python("#!/usr/bin/env python3\n\"\"\"Text: sglang.Engine(model_path='no')\"\"\"\n" + kImports + "#" +
                  start + "if COUNT == 4 if False else True:\n    " + start);
  check_as_python("# first\n\nfrom sglang.test.test_utils import popen_launch_server\nimport sglang\n" + start +
                  "def f(x):\n    return x == 1\n" + start);
}

TEST_CASE("python: the arguments of LLM(..) are data as in Python") {
  if (!has_python()) return test::skip("needs python3");
  const std::string imports =
      "from tensorrt_llm import LLM, MoeConfig\nNAME = 'one'\nsize = 8\nCONFIG = {'a': 1, 'b': {'c': [1, 2]}}\n";
  std::string text = imports;
  for (const std::string& word : std::vector<std::string>{"'a'", "\"a b\"", "'''a'b'''", "'a\\'b'", "r'ab'", "f'a'",
                                                          "'a # b'", "'(a, b]'", "NAME", "''"})
    text += "LLM(model=" + word + ", tp=size)\n";
  text +=
      "LLM('m', a=8, b=-8, c=0.5, d=True, e=False, f=None, g=[1, 2,], h=['x', NAME], i=1_000, j=(1, 2), k={}, l=[],)\n"
      "LLM('m', **CONFIG)\nLLM('m', **CONFIG, z={'x': {'y': True}, 'w': 'q'})\n"
      "LLM(model='m', moe_config=MoeConfig(backend='WIDEEP', max=4), list=[MoeConfig(x=1)])\n"
      "LLM(\n    # a comment, with )\n    'm',\n    tp = 8,  # more )\n    s='a,b',\n    t=['(', ')'],\n)\nllm = "
      "[LLM(model = 'n')]\n"
      "if size == 8 and NAME != 'two':\n    other = LLM('m', n=size)\n";
  check_as_python(text);
}
