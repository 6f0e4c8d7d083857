#include "tools/backends/plugin_session.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <new>

#include "model/base/check_invariant.h"
#include "model/base/one_line.h"
#include "tools/backends/plugin_child.h"

namespace a2asim {
namespace {

constexpr std::size_t kReserved_bytes = std::size_t{32} << 30;  // of addresses; pages come when they are written
constexpr std::size_t kAlignment_bytes = 128;

}  // namespace

SharedMemory::SharedMemory() {
  void* memory =
      ::mmap(nullptr, kReserved_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  base_ = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) ::munmap(base_, kReserved_bytes);
}

void* SharedMemory::take_bytes(std::int64_t count, std::size_t size) {
  if (base_ == nullptr || count < 0 || static_cast<std::size_t>(count) > kReserved_bytes / size) return nullptr;
  const std::size_t bytes =
      (static_cast<std::size_t>(count) * size + kAlignment_bytes) / kAlignment_bytes * kAlignment_bytes;
  if (bytes > kReserved_bytes - used_) return nullptr;
  void* piece = base_ + used_;
  used_ += bytes;
  return piece;
}

PluginSession::PluginSession(std::string label) : label_(std::move(label)) {}
PluginSession::~PluginSession() = default;

Result<std::shared_ptr<PluginSession>> PluginSession::in_process(const a2asim_backend_v1& table) {
  return start(table.name, nullptr, &table, {});
}

Result<std::shared_ptr<PluginSession>> PluginSession::in_child(const a2asim_backend_v1& table,
                                                               const PluginLimits& limits) {
  return start("the plug-in", "", &table, limits);
}

Result<std::shared_ptr<PluginSession>> PluginSession::load(const std::string& path, const PluginLimits& limits) {
  std::error_code error;
  const auto whole = std::filesystem::canonical(path, error);
  const std::string label = fmt::format("plug-in {}", one_line(path, 200));
  if (error) return fail(ErrorKind::bad_input, fmt::format("{}: {}", label, error.message()));
  return start(label, whole.c_str(), nullptr, limits);
}

// path: nullptr for a table of this process; "": this table, but in a child.
Result<std::shared_ptr<PluginSession>> PluginSession::start(std::string label, const char* path,
                                                            const a2asim_backend_v1* table,
                                                            const PluginLimits& limits) {
  std::shared_ptr<PluginSession> made(new PluginSession(std::move(label)));
  made->limits_ = limits;
  made->call_ = made->memory_.take<PluginCall>(1);
  if (made->call_ == nullptr) return fail(ErrorKind::bad_input, made->label_ + ": no addresses for its memory");
  made->memory_.keep();
  new (made->call_) PluginCall;
  if (path == nullptr) {
    made->table_ = table;
  } else {
    PluginCall* call = made->call_;
    auto child = PluginChild::start([call, path, table]() {
      static const a2asim_backend_v1* used = table;
      if (used == nullptr) used = open_library(path, *call);
      if (used != nullptr) perform(used, *call);
    });
    if (!child) return fail(ErrorKind::bad_input, made->label_ + ": " + child.error().message);
    made->child_ = std::make_unique<PluginChild>(std::move(*child));
  }
  if (auto ok = made->greet(); !ok) return fail(ErrorKind::bad_input, ok.error().message);
  return made;
}

Result<void> PluginSession::greet() {
  PluginCall& call = begin(PluginOp::load);
  if (auto ok = run(call); !ok) return ok;
  capabilities_ = Capabilities(call.capabilities);
  name_ = one_line(std::string(call.text, ::strnlen(call.text, kPluginTextBytes)), 60);
  return capabilities_.bits() == (capabilities_.bits() & Capabilities::all().bits()) ? Result<void>()
                                                                                     : distrust("unknown capabilities");
}

PluginCall& PluginSession::begin(PluginOp op) {
  memory_.begin();
  *call_ = PluginCall{};
  call_->op = op;
  return *call_;
}

Result<void> PluginSession::run(PluginCall& call) {
  A2ASIM_INVARIANT(&call == call_, "a call is the one that began");
  if (ended_) return tl::unexpected(*ended_);
  const PluginOp op = call.op;
  if (child_ != nullptr) {
    if (auto ok = ask_child(op); !ok) return ok;
  } else {
    perform(table_, call);
  }
  if (call.code == 0) return {};
  Error error;
  error.kind = call.error_kind >= 0 && call.error_kind <= static_cast<std::int32_t>(ErrorKind::bad_input)
                   ? static_cast<ErrorKind>(call.error_kind)
                   : ErrorKind::runtime_error;
  error.message = one_line(std::string(call.text, ::strnlen(call.text, kPluginTextBytes)), kPluginTextBytes);
  if (error.message.empty()) error.message = fmt::format("{} failed without a word", a2asim::name(op));
  if (child_ != nullptr && op == PluginOp::load) error.message = fmt::format("{}: {}", label_, error.message);
  for (std::int32_t i = 0; i < call.num_facts && i < kPluginFacts; ++i)
    error.facts.push_back(std::to_array(call.facts[i]));
  return tl::unexpected(std::move(error));
}

Result<void> PluginSession::ask_child(PluginOp op) {
  A2ASIM_INVARIANT(child_ != nullptr, "a child is asked");
  switch (child_->ask(limits_.call)) {
    case PluginChild::Answer::done:
      return {};
    case PluginChild::Answer::late:
      return end(fmt::format("no answer to {} within {} ms", a2asim::name(op), limits_.call.count()));
    case PluginChild::Answer::ended:
      break;
  }
  return end(fmt::format("{{}} in {}", a2asim::name(op)));
}

tl::unexpected<Error> PluginSession::distrust(const std::string& what) { return end("gives what cannot be: " + what); }

// `{}` in `why` stands for how the child ended.
tl::unexpected<Error> PluginSession::end(const std::string& why) {
  std::string how, words;
  if (child_ != nullptr) {
    how = child_->stop(why.starts_with("{}"));
    words = child_->last_words();
  }
  std::string text = why.starts_with("{}") ? (how.empty() ? "ended" : how) + why.substr(2) : why;
  if (!words.empty()) text += fmt::format("; its last line: {}", words);
  ended_ = Error{ErrorKind::bad_input, fmt::format("{}: {}", label_, text)};
  return tl::unexpected(*ended_);
}

void PluginSession::object_gone() {
  A2ASIM_INVARIANT(objects_ > 0, "an object that goes was made");
  if (--objects_ > 0) return;
  memory_.drop();
  call_ = memory_.take<PluginCall>(1);
  memory_.keep();
}

}  // namespace a2asim
