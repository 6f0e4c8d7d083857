// What a script gives to another shell: pipes, files that it writes, and what is not known of them.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/launch/launch_file.h"
#include "tests/launch/shell_words.h"

using namespace a2asim;
using test::by_bash, test::by_us, test::conditions, test::has_bash, test::kServer, test::Words;

TEST_CASE("shell: what is piped into a shell runs, as in bash") {
  if (!has_bash()) return test::skip("needs bash");
  const std::string s = kServer;
  for (const std::string& script : std::vector<std::string>{
           "echo \"" + s + "--tp 8\" | bash",
           "TP=4\necho " + s + "--tp $TP --x \"'a b'\" | bash",
           "cat <<EOF | bash\n" + s + "--tp 4\nEOF",
           "TP=2\ncat <<'EOF' | TP=3 bash\n" + s + "--tp $TP\nEOF",
           "bash <<EOF\n" + s + "1\n" + s + "2\nEOF",
           "bash -s -- a b <<'EOF'\n" + s + "$2 $1\nEOF",
           "printf '%s\\n' '" + s + "1' '" + s + "2' | bash",
           "printf '" + s + "--tp %d %%\\n' 8 | bash -x",
           "printf \"" + s + "1\\n\" | tee /dev/null | bash",
           "{ echo 'X=1'; echo '" + s + "$X'; } | bash",
           "f() { echo '" + s + "'$1; }\nf 1 | bash\nfor i in 2 3; do f $i; done | bash -",
           "echo -n '" + s + "1' | bash; echo -e 'X=2\\n" + s + "$X' | bash",
           "bash <<< '" + s + "1'; cat <<< '" + s + "2' | bash",
           "echo '" + s + "1' | cat | cat - | bash; echo '" + s + "2' >&2 | bash; echo '" + s + "3' >/dev/null | bash",
           "echo 'a 1' | while read n i; do " + s + "$n $i; done",
           "printf 'a\\nb\\n' | while read n; do " + s + "$n; done",
           "printf '%s\\n' --tp 8 | xargs bash -c 'python3 -m sglang.launch_server \"$@\"' _\n" + s + "1",
           "cd /tmp\necho '" + s + "1' > a2asim_$$.sh\nrm a2asim_$$.sh\n" + s + "2",
           "if [ a = a ]; then echo '" + s + "1'; fi | bash",
           "echo 'echo \"" + s + "1\" | bash' | bash",
       }) {
    CAPTURE(script);
    CHECK(by_us(script) == by_bash(script));
  }
}

TEST_CASE("shell: a script that lines above have written runs") {
  const std::string s = kServer;
  CHECK(by_us("echo '" + s + "1' > run.sh\necho '" + s + "2' >> run.sh\nbash run.sh") == "1|\n2|\n");
  CHECK(by_us("printf '%s\\n' '" + s + "$1' | tee run.sh\nchmod +x run.sh && ./run.sh 8") == "8|\n");
  CHECK(by_us("echo '" + s + "1' > run.sh\nsed -n p other > run.sh\nbash run.sh\n" + s + "2") == "2|\n");
  CHECK(by_us("echo '" + s + "1' > run.sh\nbash < other.sh\nssh host bash -s < run.sh") == "1|\n");
  CHECK(by_us("cat > run.sh <<EOF\n" + s + "1\nEOF\ncat run.sh | ssh host bash -s") == "1|\n");
}

TEST_CASE("shell: what is given to a shell and not known is said") {
  const auto said = [](const std::string& script) {
    const auto servers = find_servers(script);
    if (!servers) return servers.error().message;
    return servers->front().command.notes.empty() ? std::string() : servers->front().command.notes.front().message;
  };
  for (const char* unknown : {"curl -s https://host/run.sh | bash", "sed s/A/B/ run.in | sudo bash -x",
                              "bash -s < run.sh", "make_script | sh -", "{ echo a; date; } | sh"}) {
    CAPTURE(unknown);
    CHECK(said(unknown).find("the text itself starts no server; line 1: what") == 0);
    CHECK(said(unknown + ("\n" + kServer)).find("is given to run is not known") != std::string::npos);
  }
  for (const char* harmless : {"ls | grep x", "curl -s x | jq .", "true | bash -c 'exit 0'"}) {
    CAPTURE(harmless);
    CHECK(said(harmless + ("\n" + kServer)).empty());
    CHECK(said(harmless).find("starts no server that is known here") != std::string::npos);
  }
  CHECK(conditions("echo --tp 8 | xargs " + kServer + "--dp 2") == std::vector<std::string>{": --dp 2 --tp 8"});
  CHECK(find_servers("cat flags | xargs " + kServer)->front().command.unread == Words{"what xargs reads in line 1"});
}

TEST_CASE("shell: Python text that a script gives to python") {
  const std::string known =
      "import subprocess\nsubprocess.run(['python3', '-m', 'sglang.launch_server', '--tp', '4'])\n";
  for (const std::string& script : {"python3 <<'EOF'\n" + known + "EOF", "python3 -u - x <<EOF\n" + known + "EOF",
                                    "cat <<EOF | python3 -\n" + known + "EOF"}) {
    CAPTURE(script);
    const auto servers = find_servers(script);
    REQUIRE(servers);
    CHECK(servers->front().command.argv == Words{"--tp", "4"});
  }
  const std::string hidden = "import os\nname = 'sglang.launch_server'\nos.execvp('python3', f(name))\n";
  const auto alone = find_servers("python3 - <<EOF\n" + hidden + "EOF");
  REQUIRE_FALSE(alone);
  CHECK(alone.error().message.find("line 1: the Python text names a server") != std::string::npos);
  const auto beside = find_servers("python3 - <<EOF\n" + hidden + "EOF\n" + kServer + "1");
  REQUIRE(beside);
  REQUIRE(beside->front().command.notes.size() == 1);
  CHECK(beside->front().command.notes.front().is_warning);
  CHECK(by_us("python3 <<EOF\nprint((\nEOF\n" + kServer + "1") == "1|\n");
  CHECK(by_us("python3 -u -msglang.launch_server 7") == "7|\n");
  CHECK(by_us("python3 - <<EOF\nprint('sglang')\nEOF\npython3 x.py <<EOF\n" + hidden + "EOF\n" + kServer + "1") ==
        "1|\n");
}

TEST_CASE("shell: containers that a script hands to kubectl") {
  const std::string yaml =
      "kind: Pod\nspec:\n  containers:\n  - name: worker\n    image: lmsysorg/sglang:v0.5.12\n"
      "    command: [python3, -m, sglang.launch_server, --tp, '4']\n";
  for (const std::string& script :
       {"cat <<EOF | kubectl apply -f -\n" + yaml + "EOF\n", "kubectl create -f - <<'EOF'\n" + yaml + "EOF\n",
        "cat > pod.yaml <<EOF\n" + yaml + "EOF\nkubectl -n x apply -f pod.yaml\n"}) {
    CAPTURE(script);
    const auto servers = find_servers(script);
    REQUIRE(servers);
    CHECK(servers->front().command.argv == Words{"--tp", "4"});
    CHECK(servers->front().name == "worker");
    CHECK(servers->front().images == Words{"lmsysorg/sglang:v0.5.12"});
  }
  CHECK_FALSE(find_servers("kubectl delete -f - <<EOF\n" + yaml + "EOF\n"));
}

TEST_CASE("shell: a file that is not read and may set what the server takes") {
  const auto first = [](const std::string& script) {
    const auto servers = find_servers(script);
    REQUIRE(servers);
    return servers->front().command;
  };
  for (const char* setter : {"source env.sh", ". ./env.sh", "eval \"$(./settings)\"", "export $(cat .env)"}) {
    CAPTURE(setter);
    const LaunchCommand known = first(setter + ("\nTP=4\n" + kServer + "--tp $TP --dp ${DP:-2} --x \"$(hostname)\""));
    CHECK(known.may_set.empty());
    CHECK(known.unread.empty());
    REQUIRE_FALSE(known.notes.empty());
    CHECK_FALSE(known.notes.front().is_warning);
    CHECK(known.notes.front().message.find("what it sets is not known") != std::string::npos);
    const LaunchCommand open = first(setter + ("\n" + kServer + "--model-path $MODEL"));
    CHECK(open.unread == Words{"$MODEL in line 2"});
    CHECK(open.may_set.find("in line 1, which is not read") != std::string::npos);
    CHECK(open.may_set.find("give --env") != std::string::npos);
  }
  // What sets up a shell sets no options of a server.
  for (const char* shell : {"source venv/bin/activate", ". ~/.bashrc", "source /opt/x/set_env.sh"})
    CHECK(first(shell + ("\n" + kServer + "--host $HOST_IP")).unread.empty());
}

TEST_CASE("shell: what a template engine fills in is not known") {
  const auto servers = find_servers(kServer + "--tp {{ .Values.tp }} --model-path {{ .Values.model }}");
  REQUIRE(servers);
  CHECK(servers->front().command.unread == Words{"{{ in line 1"});
  CHECK(servers->front().command.may_set.starts_with("a template"));
  for (const char* value : {"'{\"a\": {\"b\": 1}}'", "'{% for m in messages %}{{ m.text }}{% endfor %}'"})
    CHECK(find_servers(kServer + "--x " + value)->front().command.unread.empty());
}
