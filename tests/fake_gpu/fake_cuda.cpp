#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fake_gpu/fake_gpu.h"

using Work = std::function<void()>;

struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool busy = false, ends = false;
  CUgraph_st* captured = nullptr;
  std::thread worker{[this] { run(); }};

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return ends || !queue.empty(); });
      if (queue.empty()) return;
      const Work work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      work();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
};

namespace {

struct Allocation {
  std::size_t bytes = 0;
  std::string name;  // of the shared memory
};

struct Runtime {
  std::mutex mutex;
  std::map<void*, Allocation> own, opened;
  int allocations = 0;
};

Runtime& runtime() {
  static Runtime& one = *new Runtime;
  return one;
}

thread_local int current = 0;
int refuses_captures = -1;
thread_local cudaError_t last = cudaSuccess;

int devices() {
  const char* given = std::getenv("A2ASIM_FAKE_GPUS");
  return given == nullptr ? 2 : std::atoi(given);
}

cudaError_t note(cudaError_t code) {
  if (code != cudaSuccess) last = code;
  return code;
}

void* map(const std::string& name, std::size_t bytes, int flags) {
  const int file = shm_open(name.c_str(), flags, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if ((flags & O_CREAT) == 0 || ftruncate(file, static_cast<off_t>(bytes)) == 0)
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Shared memory has names: those of this process go when it ends, and those of processes that were killed.
struct Cleaner {
  ~Cleaner() {
    for (const auto& [memory, allocation] : runtime().own) shm_unlink(allocation.name.c_str());
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none)) {
      int process = 0;
      const std::string name = entry.path().filename().string();
      const bool is_ours = std::sscanf(name.c_str(), "a2asim-fake-%d-", &process) == 1;
      if (is_ours && kill(process, 0) != 0) shm_unlink(("/" + name).c_str());
    }
  }
} cleaner;

CUstream_st& default_stream() {
  static CUstream_st& one = *new CUstream_st;
  return one;
}

CUstream_st& stream_of(cudaStream_t stream) { return stream == nullptr ? default_stream() : *stream; }

}  // namespace

namespace a2asim::fake {

void enqueue(cudaStream_t stream, Work work) {
  CUstream_st& at = stream_of(stream);
  const std::lock_guard lock(at.mutex);
  if (at.captured != nullptr) {
    at.captured->work.push_back(std::move(work));
    return;
  }
  at.queue.push_back(std::move(work));
  at.changed.notify_all();
}

void refuse_captures_on(int device) { refuses_captures = device; }

}  // namespace a2asim::fake

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return *count > 0 ? cudaSuccess : note(cudaErrorNoDevice);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 9;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return note(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int size, int device) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:%02x:00.0", device);
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t code) {
  static thread_local std::string text;
  text = "error " + std::to_string(static_cast<int>(code));
  return text.c_str();
}
cudaError_t cudaGetLastError() {
  const cudaError_t code = last;
  last = cudaSuccess;
  return code;
}
cudaError_t cudaDeviceCanAccessPeer(int* possible, int from, int to) {
  *possible = from != to ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  static std::map<int, std::map<int, bool>> enabled;
  const std::lock_guard lock(runtime().mutex);
  bool& is_enabled = enabled[current][peer];
  if (is_enabled) return note(cudaErrorPeerAccessAlreadyEnabled);
  is_enabled = true;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  Runtime& all = runtime();
  const std::lock_guard lock(all.mutex);
  const std::string name = "/a2asim-fake-" + std::to_string(getpid()) + "-" + std::to_string(all.allocations++);
  *memory = map(name, bytes + 1, O_CREAT | O_EXCL | O_RDWR);
  if (*memory == nullptr) return note(cudaErrorMemoryAllocation);
  std::memset(*memory, 0xcd, bytes);
  all.own[*memory] = {bytes + 1, name};
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  Runtime& all = runtime();
  const std::lock_guard lock(all.mutex);
  const auto found = all.own.find(memory);
  if (found == all.own.end()) return note(cudaErrorInvalidValue);
  shm_unlink(found->second.name.c_str());
  munmap(memory, found->second.bytes);
  all.own.erase(found);
  return cudaSuccess;
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  Runtime& all = runtime();
  const std::lock_guard lock(all.mutex);
  const auto found = all.own.find(memory);
  if (found == all.own.end()) return note(cudaErrorInvalidValue);
  std::memset(handle, 0, sizeof *handle);
  std::snprintf(handle->reserved, sizeof handle->reserved, "%s", found->second.name.c_str());
  return cudaSuccess;
}
cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  const std::string name = handle.reserved;
  if (name.find("-" + std::to_string(getpid()) + "-") != std::string::npos) return note(cudaErrorDeviceUninitialized);
  struct stat status = {};
  const int file = shm_open(name.c_str(), O_RDWR, 0600);
  if (file < 0) return note(cudaErrorInvalidResourceHandle);
  fstat(file, &status);
  close(file);
  *memory = map(name, static_cast<std::size_t>(status.st_size), O_RDWR);
  if (*memory == nullptr) return note(cudaErrorMapBufferObjectFailed);
  const std::lock_guard lock(runtime().mutex);
  runtime().opened[*memory] = {static_cast<std::size_t>(status.st_size), name};
  return cudaSuccess;
}
cudaError_t cudaIpcCloseMemHandle(void* memory) {
  const std::lock_guard lock(runtime().mutex);
  const auto found = runtime().opened.find(memory);
  if (found == runtime().opened.end()) return note(cudaErrorInvalidValue);
  munmap(memory, found->second.bytes);
  runtime().opened.erase(found);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  default_stream().wait();
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->wait();
  {
    const std::lock_guard lock(stream->mutex);
    stream->ends = true;
    stream->changed.notify_all();
  }
  stream->worker.join();
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream_of(stream).wait();
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (current == refuses_captures) return note(cudaErrorStreamCaptureUnsupported);
  stream->captured = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = std::exchange(stream->captured, nullptr);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (const Work& work : exec->work) a2asim::fake::enqueue(stream, work);
  return cudaSuccess;
}

}  // extern "C"
