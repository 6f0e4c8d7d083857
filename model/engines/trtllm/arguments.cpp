#include "model/engines/trtllm/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "model/base/json_reader.h"
#include "model/base/one_line.h"
#include "model/base/words.h"

namespace a2asim::trtllm {
namespace {

// Short names of options -> LlmArgs.
constexpr std::pair<std::string_view, std::string_view> kShort[] = {
    {"tp", "tensor_parallel_size"},
    {"tp_size", "tensor_parallel_size"},
    {"pp", "pipeline_parallel_size"},
    {"pp_size", "pipeline_parallel_size"},
    {"cp_size", "context_parallel_size"},
    {"ep", "moe_expert_parallel_size"},
    {"ep_size", "moe_expert_parallel_size"},
    {"expert_parallel_size", "moe_expert_parallel_size"},
    {"cluster_size", "moe_cluster_parallel_size"},
    {"kv_cache_free_gpu_memory_fraction", "kv_cache_config.free_gpu_memory_fraction"},
    {"kv_cache_free_gpu_mem_fraction", "kv_cache_config.free_gpu_memory_fraction"},
    {"free_gpu_memory_fraction", "kv_cache_config.free_gpu_memory_fraction"},
    {"model_path", "model"},
    {"server_role", "disaggregation_mode"},
    {"moe_backend", "moe_config.backend"},
    {"moe_max_num_tokens", "moe_config.max_num_tokens"},
    {"moe_load_balancer", "moe_config.load_balancer"},
    {"pytorch_backend_config.moe_backend", "moe_config.backend"},
    {"pytorch_backend_config.moe_max_num_tokens", "moe_config.max_num_tokens"},
    {"pytorch_backend_config.enable_attention_dp", "enable_attention_dp"},
    {"pytorch_backend_config.cuda_graph_padding_enabled", "cuda_graph_config.enable_padding"},
    {"cuda_graph_padding_enabled", "cuda_graph_config.enable_padding"},
    {"pytorch_backend_config.cuda_graph_batch_sizes", "cuda_graph_config.batch_sizes"},
    {"cuda_graph_batch_sizes", "cuda_graph_config.batch_sizes"},
    {"pytorch_backend_config.cuda_graph_max_batch_size", "cuda_graph_config.max_batch_size"},
    {"pytorch_backend_config.use_cuda_graph", "use_cuda_graph"},
    {"speculative_config.num_nextn_predict_layers", "speculative_config.max_draft_len"},
};

// Options without a value.
constexpr std::string_view kFlags =
    "trust_remote_code enable_chunked_prefill enable_attention_dp grpc fail_fast_on_attention_window_too_large "
    "disable_kv_cache_reuse publish_events_and_metrics skip_tokenizer_init enable_iter_req_stats print_iter_log "
    "use_cuda_graph enable_lm_head_tp_in_adp streaming enable_autotuner";

// What may change the answer, or is known to change nothing. The rest is named in a note.
constexpr std::string_view kKnown =
    "tensor_parallel_size pipeline_parallel_size context_parallel_size moe_expert_parallel_size "
    "moe_tensor_parallel_size moe_cluster_parallel_size enable_attention_dp enable_lm_head_tp_in_adp max_batch_size "
    "max_num_tokens max_seq_len max_beam_width max_input_len model tokenizer backend gpus_per_node trust_remote_code "
    "enable_chunked_prefill disaggregation_mode orchestrator_type use_cuda_graph host port log_level "
    "num_postprocess_workers "
    "reasoning_parser tool_parser custom_tokenizer served_model_name kv_cache_dtype revision hf_revision chat_template "
    "dtype load_format print_iter_log stream_interval disable_overlap_scheduler enable_iter_perf_stats "
    "enable_iter_req_stats allreduce_strategy custom_module_dirs metadata_server_config_file grpc media_io_kwargs "
    "otlp_traces_endpoint video_pruning_rate fail_fast_on_attention_window_too_large disable_kv_cache_reuse "
    "skip_tokenizer_init num_nodes enable_autotuner garbage_collection_gen0_threshold return_perf_metrics "
    "postprocess_tokenizer_dir attn_backend perf_metrics_max_requests guided_decoding_backend "
    "enable_layerwise_nvtx_marker "
    "enable_min_latency use_torch_sampler sampler_type enable_trtllm_sampler batch_wait_timeout_ms fast_build "
    "batch_wait_timeout_iters batch_wait_max_tokens_ratio disagg_cluster_uri hostname autotuner_enabled "
    "force_dynamic_quantization enable_prompt_adapter enable_lora streaming concurrency num_requests dataset";
constexpr std::string_view kKnownGroups =
    "moe_config cuda_graph_config speculative_config kv_cache_config pytorch_backend_config attention_dp_config "
    "cp_config cache_transceiver_config torch_compile_config scheduler_config quant_config build_config "
    "peft_cache_config "
    "lora_config sparse_attention_config nvfp4_gemm_config perfect_router disagg_cluster "
    "extended_runtime_perf_knob_config "
    "decoding_config calib_config ray_worker_extension_cls warp_decode multimodal_config";

bool is_among(std::string_view word, std::string_view words) {
  return std::ranges::count(split_words(words), word) > 0;
}

std::string normalized(std::string_view word) {
  std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
  const std::size_t dot = name.find('.');
  for (std::size_t i = 0; i < name.size(); ++i)
    if (name[i] == '-' && (dot == std::string::npos || i < dot)) name[i] = '_';
  for (const auto& [from, to] : kShort)
    if (name == from) return std::string(to);
  return name;
}

bool is_boolean(std::string_view word) {
  return word == "true" || word == "false" || word == "True" || word == "False" || word == "null" || word == "None";
}

// A value of JSON as one of ours: objects become dotted names.
void flatten(const nlohmann::json& value, const std::string& name, Arguments& out) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, out);
    if (value.empty() && !name.empty()) out.set(normalized(name), "{}");
  } else if (value.is_string()) {
    out.set(normalized(name), value.get<std::string>());
  } else {
    out.set(normalized(name), value.dump());
  }
}

class Reader {
 public:
  Reader(const FrontEnd* front_end, std::span<const std::string> argv) : argv_(argv) {
    strict_ = front_end == nullptr || front_end->is_server;
  }

  Result<Arguments> read() && {
    for (std::size_t at = 0; at < argv_.size(); ++at) {
      const std::string& word = argv_[at];
      if (word == "-tp" || word == "-ep" || word == "-pp" || word.starts_with("--")) {
        if (auto ok = option(word, at); !ok) return tl::unexpected(ok.error());
      } else if (!word.starts_with('-')) {
        positional(word);
      }
    }
    if (const auto model = out_.text("model")) out_.model = *model;
    if (!unknown_.empty())
      out_.notes.push_back({fmt::format("not known here, and taken to have no part in this: {}", unknown_), true});
    return std::move(out_);
  }

 private:
  void positional(const std::string& word) {
    if (is_among(word, "serve throughput latency build") && out_.model.empty()) return;
    if (out_.model.empty()) out_.model = word;
  }

  Result<void> option(const std::string& word, std::size_t& at) {
    const std::size_t equals = word.find('=');
    const std::string name = normalized(std::string_view(word).substr(0, equals));
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    const bool next_is_value = at + 1 < argv_.size() && !argv_[at + 1].starts_with("--");
    if (!value && is_among(name, kFlags)) {
      const bool says = next_is_value && is_boolean(argv_[at + 1]);
      value = says ? argv_[++at] : "true";
    } else if (!value && next_is_value) {
      value = argv_[++at];
    } else if (!value && strict_ && is_among(name, kKnown)) {
      return fail(ErrorKind::bad_input, fmt::format("option {} needs a value", one_line(word, 60)));
    }
    if (name == "override_engine_args" || name == "extra_llm_args") return overrides(value.value_or(""), word);
    const std::string group = name.substr(0, name.find('.'));
    const bool known = group == name ? is_among(name, kKnown) || is_among(name, kKnownGroups)
                                     : is_among(group, kKnownGroups) || is_among(name, kKnown);
    if (!known && strict_) unknown_ += (unknown_.empty() ? "" : " ") + one_line(name, 40);
    const bool is_map = value && value->starts_with('{');
    const auto map = is_map ? read_json(*value).value_or(nlohmann::json()) : nlohmann::json();
    if (map.is_object())
      flatten(map, name, out_);
    else
      out_.set(name, value.value_or("true"));
    return {};
  }

  // Dynamo's: a JSON object that is laid over everything else.
  Result<void> overrides(const std::string& text, const std::string& word) {
    const auto value = read_json(text).value_or(nlohmann::json());
    if (!value.is_object())
      return fail(ErrorKind::bad_input, fmt::format("option {} needs a JSON object", one_line(word, 60)));
    flatten(value, "", out_);
    return {};
  }

  std::span<const std::string> argv_;
  bool strict_ = true;
  Arguments out_;
  std::string unknown_;
};

}  // namespace

bool Arguments::is_null(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() && (found->second == "null" || found->second == "None" || found->second == "~");
}

std::optional<std::string> Arguments::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || is_null(name)) return std::nullopt;
  return found->second;
}

bool Arguments::flag(std::string_view name, bool otherwise) const {
  const auto value = text(name);
  if (!value) return otherwise;
  return *value == "true" || *value == "True" || *value == "1" || *value == "yes" || *value == "on";
}

Result<std::int64_t> Arguments::number(std::string_view name, std::int64_t otherwise, std::int64_t least,
                                       std::int64_t most) const {
  const auto value = text(name);
  if (!value) return otherwise;
  const PythonInt number = python_int(*value);
  if (number.status == PythonInt::Status::ok && number.value >= least && number.value <= most) return number.value;
  return fail(ErrorKind::bad_input,
              fmt::format("{} {}: give a whole number from {} to {}", name, one_line(*value, 60), least, most));
}

Result<std::vector<std::int64_t>> Arguments::numbers(std::string_view name) const {
  constexpr std::size_t kMost = 4096;
  std::vector<std::int64_t> out;
  const auto value = text(name);
  if (!value) return out;
  const auto list = read_json(*value).value_or(nlohmann::json());
  const bool is_list = list.is_array() && list.size() <= kMost &&
                       std::ranges::all_of(list, [](const auto& item) { return item.is_number_integer(); });
  if (!is_list)
    return fail(ErrorKind::bad_input, fmt::format("{} {}: give a list of whole numbers", name, one_line(*value, 60)));
  for (const auto& item : list) out.push_back(item.template get<std::int64_t>());
  return out;
}

std::optional<double> Arguments::real(std::string_view name) const {
  const auto value = text(name);
  double number = 0;
  if (!value) return std::nullopt;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), number);
  return error == std::errc{} && end == value->data() + value->size() ? std::optional(number) : std::nullopt;
}

std::vector<std::string> spellings_of(std::string_view option) {
  const std::string meant = normalized(option);
  std::vector<std::string> names = {meant}, out;
  for (const auto& [from, to] : kShort)
    if (to == meant) names.emplace_back(from);
  for (const std::string& name : names) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.begin() + static_cast<std::ptrdiff_t>(std::min(name.find('.'), name.size())),
                 '_', '-');
    out.insert(out.end(), {"--" + name, "--" + dashed});
    if (name.size() == 2) out.push_back("-" + name);
  }
  return out;
}

Result<Arguments> read_arguments(const FrontEnd* front_end, std::span<const std::string> argv) {
  return Reader(front_end, argv).read();
}

}  // namespace a2asim::trtllm
