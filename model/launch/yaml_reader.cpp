#include "model/launch/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <map>
#include <sstream>

#include "model/base/one_line.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostDeepYaml = 64;
constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostYamlBytes = std::size_t{4} << 20;

struct Excess {
  int line;
  std::string what;
};

// What a part of the text comes to when every alias is written out.
struct Size {
  std::size_t nodes = 0, bytes = 0;
};

// Reads the events of a text once, before anybody builds nodes of it.
class Scale : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override { anchors_.clear(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor, 0); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    leaf(mark, anchor, value.size());
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw Excess{mark.line, "an alias stands inside what it names"};
    grow(mark, found->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YAML::anchor_t anchor;
    Size before;
  };

  void grow(const YAML::Mark& mark, Size by) {
    sum_.nodes += by.nodes;
    sum_.bytes += by.bytes;
    if (sum_.nodes > kMostNodes || sum_.bytes > kMostYamlBytes)
      throw Excess{mark.line, "more nodes or bytes, aliases written out, than any launch has"};
  }
  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor, std::size_t bytes) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = {1, bytes};
    grow(mark, {1, bytes});
  }
  void open(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (open_.size() == kMostDeepYaml) throw Excess{mark.line, fmt::format("nested more than {} deep", kMostDeepYaml)};
    open_.push_back({anchor, sum_});
    grow(mark, {1, 0});
  }
  void close() {
    const Open& own = open_.back();
    if (own.anchor != YAML::NullAnchor)
      anchors_[own.anchor] = {sum_.nodes - own.before.nodes, sum_.bytes - own.before.bytes};
    open_.pop_back();
  }

  Size sum_;  // of all documents
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Size> anchors_;  // of what is closed
};

}  // namespace

Result<std::vector<YAML::Node>> read_yaml(const std::string& text) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Scale scale;
    std::size_t read = 0;  // some texts give yaml-cpp empty documents forever
    while (parser.HandleNextDocument(scale))
      if (++read > kMostNodes) throw Excess{0, "more documents than any launch has"};
    return YAML::LoadAll(text);
  } catch (const Excess& much) {
    return fail(ErrorKind::bad_input, fmt::format("the YAML has at line {} {}: write it out, or give a part of it",
                                                  much.line + 1, much.what));
  } catch (const YAML::Exception& broken) {
    return fail(ErrorKind::bad_input,
                fmt::format("line {} is no YAML: {}", broken.mark.line + 1, one_line(broken.msg, 200)));
  }
}

}  // namespace a2asim
