// A fix takes an option out of a file in whatever form the option stands there, and leaves every other byte alone.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/cli/launches.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

struct EditForm {
  const char* name;
  std::string before, after;
};

std::string listed_words(const std::string& between) {
  std::string out;
  for (const std::string& word : with_words({}, kAgreeing)) out += "\"" + word + "\"" + between;
  return out;
}

std::string item_lines() {
  std::string out;
  for (const std::string& word : with_words({}, kAgreeing)) out += "      - \"" + word + "\"\n";
  return out;
}

}  // namespace

TEST_CASE("fix: an option goes with what joined it to the others, in every form") {
  const std::string dense = "--moe-dense-tp-size 1", head = "--enable-dp-lm-head";
  const std::string service = "services:\n  decode:\n    command: ", items = "services:\n  decode:\n    command:\n";
  const std::string dense_items = "      - \"--moe-dense-tp-size\"\n      - \"1\"\n";
  const std::vector<EditForm> table = {
      {"inside a line", kAgreeing + " " + head + " " + dense + "\n", kAgreeing + " " + dense + "\n"},
      {"at the end of a line", kAgreeing + " " + dense + " " + head + "\n", kAgreeing + " " + dense + "\n"},
      {"before a comment", kAgreeing + " " + dense + " " + head + "  # why\n", kAgreeing + " " + dense + "  # why\n"},
      {"a joined line of its own", kAgreeing + " \\\n  " + head + " \\\n  " + dense + "\n",
       kAgreeing + " \\\n  " + dense + "\n"},
      {"the last joined line", kAgreeing + " \\\n  " + dense + " \\\n  " + head + "\n",
       kAgreeing + " \\\n  " + dense + "\n"},
      {"the first of a joined line", kAgreeing + " \\\n  " + head + " " + dense + "\nexit\n",
       kAgreeing + " \\\n  " + dense + "\nexit\n"},
      {"a list with blanks", service + "[" + listed_words(", ") + "\"" + head + "\", \"--moe-dense-tp-size\", \"1\"]\n",
       service + "[" + listed_words(", ") + "\"--moe-dense-tp-size\", \"1\"]\n"},
      {"a list without blanks", service + "[" + listed_words(",") + "\"" + head + "\",\"--moe-dense-tp-size\",\"1\"]\n",
       service + "[" + listed_words(",") + "\"--moe-dense-tp-size\",\"1\"]\n"},
      {"a list with many blanks",
       service + "[" + listed_words(" ,  ") + "\"" + head + "\" ,  \"--moe-dense-tp-size\" ,  \"1\"]\n",
       service + "[" + listed_words(" ,  ") + "\"--moe-dense-tp-size\" ,  \"1\"]\n"},
      {"the end of a list", service + "[" + listed_words(", ") + "\"--moe-dense-tp-size\", \"1\", \"" + head + "\"]\n",
       service + "[" + listed_words(", ") + "\"--moe-dense-tp-size\", \"1\"]\n"},
      {"an item", items + item_lines() + "      - \"" + head + "\"\n" + dense_items,
       items + item_lines() + dense_items},
      {"the last item", items + item_lines() + dense_items + "      - \"" + head + "\"\n",
       items + item_lines() + dense_items},
      {"an item without quotes", items + item_lines() + "      - " + head + "\n" + dense_items,
       items + item_lines() + dense_items},
  };
  for (const EditForm& form : table) {
    CAPTURE(form.name);
    const TemporaryFile file("launch", form.before);
    const Outcome outcome = run({"check", "--sglang", "v0.5.13", "--fix", file.path});
    CAPTURE(outcome.err);
    CHECK(file.text() == form.after);
    CHECK(run({"check", "--sglang", "v0.5.13", file.path}).exit_code == kNothingWrong);
  }
}

}  // namespace a2asim
