// A plug-in that is being run: in a process of its own, or, for the tables of this program, in this one. Calls are the
// same; what a child process does to itself ends the session with one line, in bounded time, and leaves no process.
//
//   auto session = PluginSession::load("./libmine.so", {});     // or in_process(table)
//   PluginCall& call = (*session)->begin(PluginOp::dispatch);   // in shared memory; what it points to comes from
//   memory() if (auto ok = (*session)->run(call); !ok) ..
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "model/alltoall/dispatcher.h"
#include "tools/backends/plugin_call.h"

namespace a2asim {

struct PluginLimits {
  std::chrono::milliseconds call{60'000};
};

// Memory at one address in all processes of a session. Pieces live until the next call begins, kept ones until all
// objects are gone.
class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // [count] of T, aligned to 128 bytes; nullptr: there is no room.
  template <class T>
  T* take(std::int64_t count) {
    return static_cast<T*>(take_bytes(count, sizeof(T)));
  }
  void keep() { kept_ = used_; }      // all that was taken so far
  void drop() { used_ = kept_ = 0; }  // all that was kept
  void begin() { used_ = kept_; }
  // What is kept for a while, between two of its calls.
  std::size_t mark() const { return kept_; }
  void release(std::size_t mark) { used_ = kept_ = mark; }

 private:
  void* take_bytes(std::int64_t count, std::size_t size);
  std::byte* base_ = nullptr;
  std::size_t used_ = 0, kept_ = 0;
};

class PluginChild;

class PluginSession {
 public:
  // Errors are bad_input: it cannot be loaded, its version is unknown, it crashed or hung while it was loaded.
  static Result<std::shared_ptr<PluginSession>> load(const std::string& path, const PluginLimits& limits);
  // A table of this program, the same in a child process: for tests of what a plug-in may do.
  static Result<std::shared_ptr<PluginSession>> in_child(const a2asim_backend_v1& table, const PluginLimits& limits);
  static Result<std::shared_ptr<PluginSession>> in_process(const a2asim_backend_v1& table);
  ~PluginSession();
  PluginSession(const PluginSession&) = delete;
  PluginSession& operator=(const PluginSession&) = delete;

  const std::string& name() const { return name_; }  // by the plug-in
  Capabilities capabilities() const { return capabilities_; }
  SharedMemory& memory() { return memory_; }

  // Forgets the call before.
  PluginCall& begin(PluginOp op);
  // The plug-in's own errors leave the session usable; see ended().
  Result<void> run(PluginCall& call);
  // What the plug-in gave cannot be: the session is over.
  tl::unexpected<Error> distrust(const std::string& what);
  const std::optional<Error>& ended() const { return ended_; }

  // Objects that live; with the last one their memory is given back.
  void object_made() { ++objects_; }
  void object_gone();

 private:
  explicit PluginSession(std::string label);
  static Result<std::shared_ptr<PluginSession>> start(std::string label, const char* path,
                                                      const a2asim_backend_v1* table, const PluginLimits& limits);
  Result<void> greet();
  Result<void> ask_child(PluginOp op);
  tl::unexpected<Error> end(const std::string& why);

  std::string label_;  // what a person named
  std::string name_;
  Capabilities capabilities_;
  SharedMemory memory_;
  PluginCall* call_ = nullptr;
  const a2asim_backend_v1* table_ = nullptr;  // of this process
  std::unique_ptr<PluginChild> child_;
  PluginLimits limits_;
  std::optional<Error> ended_;
  int objects_ = 0;
};

}  // namespace a2asim
