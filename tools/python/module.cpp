// The Python module a2asim._program: the program's own entry (tools/program/caller.h), with a rule written in Python.
//
// A run has a thread of its own, without Python's lock. The calling thread waits for it, and meanwhile looks for
// Ctrl-C and shows the progress; a rule takes the lock for each view that it has not seen.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tools/program/caller.h"
#include "tools/program/program.h"

namespace py = pybind11;

namespace a2asim {
namespace {

// RankView, owning its list; a rule may keep it.
struct View {
  int ep_size = 1, ep_rank = 0;
  std::optional<std::vector<std::int64_t>> dp_global;
  std::int64_t rows = 0;
  bool capture = false, extend = false, require_mlp_tp_gather = false, enable_dp_attention = false;
  int attn_tp_size = 1;
  std::int64_t max_num_tokens = 0;
};

View to_view(const RankView& view) {
  View out{view.ep_size, view.ep_rank, {}, view.rows, view.capture, view.extend,
           view.require_mlp_tp_gather == GatherPredicate::yes, view.enable_dp_attention, view.attn_tp_size,
           view.max_num_tokens};
  if (view.dp_global) out.dp_global.emplace(view.dp_global->begin(), view.dp_global->end());
  return out;
}

py::object list_of(const View& view) {
  if (!view.dp_global) return py::none();
  py::tuple list(view.dp_global->size());
  for (std::size_t i = 0; i < view.dp_global->size(); ++i) list[i] = (*view.dp_global)[i];
  return list;
}

py::dict as_dict(const View& view) {
  using namespace py::literals;
  return py::dict("ep_size"_a = view.ep_size, "ep_rank"_a = view.ep_rank, "dp_global"_a = list_of(view),
                  "rows"_a = view.rows, "capture"_a = view.capture, "extend"_a = view.extend,
                  "require_mlp_tp_gather"_a = view.require_mlp_tp_gather,
                  "enable_dp_attention"_a = view.enable_dp_attention, "attn_tp_size"_a = view.attn_tp_size,
                  "max_num_tokens"_a = view.max_num_tokens);
}

// Standard error of a run: what is flushed behind a carriage return is progress, all else a message.
class Messages : public std::stringbuf {
 public:
  std::string progress() {
    const std::lock_guard lock(mutex_);
    return progress_;
  }

 protected:
  int sync() override {
    std::string text = str();
    const std::size_t start = text.rfind('\r');
    if (start == std::string::npos) return 0;
    str("");
    std::string words = text.substr(start + 1);
    if (const std::size_t erase = words.find("\x1b[K"); erase != std::string::npos) words.erase(erase, 3);
    const std::lock_guard lock(mutex_);
    progress_ = words;
    return 0;
  }

 private:
  std::mutex mutex_;
  std::string progress_;
};

class Running {
 public:
  Running(py::object rule, py::object on_progress) : rule_(std::move(rule)), on_progress_(std::move(on_progress)) {}

  // Python's lock guards all members but stopped_.
  Result<SizingDecision> ask(const RankView& view) {
    const py::gil_scoped_acquire lock;
    if (stopped_) return fail(ErrorKind::runtime_error, "was stopped");
    asked_in_ = PyThread_get_thread_ident();
    Result<SizingDecision> answer = call(view);
    asked_in_ = 0;
    return answer;
  }

  void watch(Messages& messages) {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) return stop(py::error_already_set());
    if (on_progress_.is_none() || stopped_) return;
    const std::string words = messages.progress();
    if (words == shown_) return;
    shown_ = words;
    try {
      on_progress_(words);
    } catch (py::error_already_set& error) {
      stop(std::move(error));
    }
  }

  bool is_stopped() const { return stopped_; }
  void raise_if_stopped() {
    if (!error_) return;
    py::error_already_set error = std::move(*error_);
    error_.reset();
    throw error;
  }

 private:
  Result<SizingDecision> call(const RankView& view) {
    try {
      const py::object answer = rule_(to_view(view));
      const bool is_whole = PyIndex_Check(answer.ptr()) != 0 && !PyBool_Check(answer.ptr());
      int overflow = 0;
      const auto size = is_whole ? PyLong_AsLongLongAndOverflow(py::int_(answer).ptr(), &overflow) : -1;
      if (!is_whole || overflow != 0)
        return fail(ErrorKind::runtime_error, "answered " + py::repr(answer).cast<std::string>() +
                                                  ", which is no size: a rule returns an int of 0 or more");
      return SizingDecision{.runtime_max_tokens_per_rank = size, .dispatched_rows = view.rows};
    } catch (py::error_already_set& error) {
      const std::string words = py::str(error.value()).cast<std::string>();
      if (error.matches(PyExc_AssertionError)) return fail(ErrorKind::assertion_error, words);
      stop(std::move(error));
      return fail(ErrorKind::runtime_error, "raised " + words);
    }
  }

  // A rule that never returns is ended by an exception in its thread.
  void stop(py::error_already_set error) {
    if (!error_) error_.emplace(std::move(error));
    stopped_ = true;
    if (asked_in_ != 0 && asked_in_ != PyThread_get_thread_ident())
      PyThreadState_SetAsyncExc(asked_in_, PyExc_KeyboardInterrupt);
  }

  py::object rule_, on_progress_;
  unsigned long asked_in_ = 0;  // the thread in which the rule runs; 0: none
  std::string shown_;
  std::optional<py::error_already_set> error_;
  std::atomic<bool> stopped_ = false;
};

py::tuple run(const std::vector<std::string>& args, const std::string& input, const py::object& rule,
              const std::string& rule_name, const py::object& on_progress) {
  constexpr std::chrono::milliseconds kLook{50};
  Running running(rule, on_progress);
  Messages messages;
  std::istringstream in(input);
  std::ostringstream out;
  std::ostream err(&messages);
  Io io{in, out, err};
  io.err_is_terminal = !on_progress.is_none();
  Caller caller;
  caller.rule_name = rule_name;
  caller.stopped = [&] { return running.is_stopped(); };
  if (!rule.is_none()) caller.rule = [&](const RankView& view) { return running.ask(view); };
  int exit_code = 0;
  {
    const py::gil_scoped_release unlocked;
    std::future<int> done = std::async(std::launch::async, [&] { return run_program(args, io, caller); });
    while (done.wait_for(kLook) != std::future_status::ready) running.watch(messages);
    exit_code = done.get();
  }
  running.raise_if_stopped();
  return py::make_tuple(exit_code, out.str(), messages.str());
}

}  // namespace
}  // namespace a2asim

PYBIND11_MODULE(_program, module) {
  using a2asim::View;
  using namespace py::literals;
  module.def("version", [] { return std::string(a2asim::program_version()); });
  module.def("run", &a2asim::run, "args"_a, "input"_a = "", "rule"_a = py::none(), "rule_name"_a = "rule",
             "on_progress"_a = py::none());
  py::class_<View>(module, "View", "What one rank knows when it sizes the all-to-all.")
      .def(py::init([](int ep_size, int ep_rank, std::optional<std::vector<std::int64_t>> dp_global, std::int64_t rows,
                       bool capture, bool extend, bool require_mlp_tp_gather, bool enable_dp_attention,
                       int attn_tp_size, std::int64_t max_num_tokens) {
             return View{ep_size, ep_rank, std::move(dp_global), rows, capture, extend, require_mlp_tp_gather,
                         enable_dp_attention, attn_tp_size, max_num_tokens};
           }),
           py::kw_only(), "ep_size"_a = 1, "ep_rank"_a = 0, "dp_global"_a = py::none(), "rows"_a = 0,
           "capture"_a = false, "extend"_a = false, "require_mlp_tp_gather"_a = false, "enable_dp_attention"_a = false,
           "attn_tp_size"_a = 1, "max_num_tokens"_a = 0)
      .def_readonly("ep_size", &View::ep_size)
      .def_readonly("ep_rank", &View::ep_rank)
      .def_property_readonly("dp_global", &a2asim::list_of)
      .def_readonly("rows", &View::rows)
      .def_readonly("capture", &View::capture)
      .def_readonly("extend", &View::extend)
      .def_readonly("require_mlp_tp_gather", &View::require_mlp_tp_gather)
      .def_readonly("enable_dp_attention", &View::enable_dp_attention)
      .def_readonly("attn_tp_size", &View::attn_tp_size)
      .def_readonly("max_num_tokens", &View::max_num_tokens)
      .def("as_dict", &a2asim::as_dict)
      .def("__repr__", [](const View& view) {
        std::string fields;
        for (const auto& [name, value] : a2asim::as_dict(view))
          fields += (fields.empty() ? "" : ", ") + name.cast<std::string>() + "=" + py::repr(value).cast<std::string>();
        return "View(" + fields + ")";
      });
}
