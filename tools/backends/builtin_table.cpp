#include "tools/backends/builtin_table.h"

#include <algorithm>
#include <cstring>

#include "sim/alltoall/sim_alltoall.h"
#include "tools/backends/backends.h"

namespace a2asim {
namespace {

struct Object {
  std::unique_ptr<Device> device;
  std::vector<AllToAllConfig> configs;
  std::vector<int> local_ranks;
  std::vector<Received> received;               // by local rank, since the last dispatch
  std::vector<std::vector<std::byte>> results;  // the same
  bool gave_results = false;
  Error error;

  AllToAll& all() { return device->all_to_all(); }
  const AllToAllConfig& config(std::size_t local) const {
    return configs[static_cast<std::size_t>(local_ranks[local])];
  }
};

Error create_error;

Object& object_of(void* object) { return *static_cast<Object*>(object); }

int answer(Object& object, const Result<void>& result) {
  if (result) return 0;
  object.error = result.error();
  return 1;
}

AllToAllConfig config_of(const a2asim_group_v1& group, const a2asim_rank_v1& rank) {
  AllToAllConfig config;
  config.ep_size = group.ep_size;
  config.top_k = rank.top_k;
  config.num_experts = rank.num_experts;
  config.max_num_tokens = rank.max_num_tokens;
  config.payload_bytes_per_token.assign(rank.payload_bytes_per_token, rank.payload_bytes_per_token + rank.num_payloads);
  config.expert_id_payload = rank.expert_id_payload;
  config.combine_type = static_cast<DataType>(rank.combine_type);
  config.hidden_size = rank.hidden_size;
  config.max_top_k = rank.max_top_k;
  config.payload_alignment = rank.payload_alignment;
  config.skips_invalid_ids = rank.skips_invalid_ids != 0;
  config.active_rank_mask = rank.active_rank_mask;
  return config;
}

int create_with(const MakeDevice& make, const a2asim_group_v1* group, void** object) {
  DeviceRequest request;
  for (int r = 0; r < group->ep_size; ++r) request.configs.push_back(config_of(*group, group->ranks[r]));
  request.guard = group->guard != 0;
  if (group->num_local != group->ep_size)
    request.local_ranks.assign(group->local_ranks, group->local_ranks + group->num_local);
  request.short_timeout = group->timeout_ms < kUsualTimeout_ms;
  auto made = make(request);
  if (!made) {
    create_error = made.error();
    return 1;
  }
  auto own = std::make_unique<Object>();
  own->device = std::move(*made);
  own->configs = request.configs;
  own->local_ranks.assign(group->local_ranks, group->local_ranks + group->num_local);
  *object = own.release();
  return 0;
}

std::vector<DispatchInput> inputs_of(const Object& object, const a2asim_input_v1* inputs) {
  std::vector<DispatchInput> all;
  for (std::size_t local = 0; local < object.local_ranks.size(); ++local) {
    const a2asim_input_v1& given = inputs[local];
    const AllToAllConfig& config = object.config(local);
    const auto tokens = static_cast<std::size_t>(given.num_tokens);
    DispatchInput input{given.runtime_max_tokens_per_rank,
                        given.num_tokens,
                        {given.expert_ids, tokens * static_cast<std::size_t>(config.top_k)},
                        {}};
    for (std::size_t p = 0; p < config.payload_bytes_per_token.size(); ++p)
      input.payloads.emplace_back(static_cast<const std::byte*>(given.payloads[p]),
                                  tokens * static_cast<std::size_t>(config.payload_bytes_per_token[p]));
    all.push_back(std::move(input));
  }
  return all;
}

void begin_round(Object& object) {
  object.received.assign(object.local_ranks.size(), {});
  object.results.assign(object.local_ranks.size(), {});
  object.gave_results = false;
}

int dispatch(void* object, const a2asim_input_v1* inputs, void*) {
  Object& own = object_of(object);
  begin_round(own);
  return answer(own, own.all().dispatch(inputs_of(own, inputs)));
}

int received(void* object, std::int32_t local, a2asim_view_v1* view) {
  Object& own = object_of(object);
  const auto at = static_cast<std::size_t>(local);
  auto got = own.all().received(own.local_ranks[at]);
  if (!got) return answer(own, tl::unexpected(got.error()));
  own.received[at] = std::move(*got);
  const Received& rows = own.received[at];
  const std::size_t sources = rows.rows.size();
  own.results[at].resize(static_cast<std::size_t>(rows.num_rows() * own.config(at).combine_bytes_per_token()));
  std::byte* result = own.results[at].data();
  for (std::size_t s = 0; s < sources; ++s) {
    view->counters[s] = rows.counters[s];
    view->num_rows[s] = rows.rows[s];
    view->results[s] = result;
    result += rows.rows[s] * own.config(at).combine_bytes_per_token();
    for (std::size_t p = 0; p < rows.payloads.size(); ++p) view->rows[p * sources + s] = rows.payloads[p][s].data();
  }
  return 0;
}

int copy(void* object, void* to, const void* from, std::int64_t bytes) {
  Object& own = object_of(object);
  const auto holds = [to](const std::vector<std::byte>& results) {
    return to >= results.data() && to < results.data() + results.size();
  };
  own.gave_results = own.gave_results || std::ranges::any_of(own.results, holds);
  std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  return 0;
}

int give_outputs(Object& own, const Result<void>& ran, const std::vector<std::vector<std::byte>>& all,
                 void* const* outputs) {
  for (std::size_t local = 0; ran && local < all.size(); ++local)
    std::ranges::copy(all[local], static_cast<std::byte*>(outputs[local]));
  return answer(own, ran);
}

int combine(void* object, const std::int64_t* runtime_max, void* const* outputs, void*) {
  Object& own = object_of(object);
  const std::span sizes(runtime_max, own.local_ranks.size());
  std::vector<std::vector<std::byte>> all;
  const auto ran = own.gave_results ? own.all().combine(sizes, own.results, all) : own.all().combine(sizes, all);
  return give_outputs(own, ran, all, outputs);
}

int slots(void* object, std::int32_t local, std::int32_t* to) {
  Object& own = object_of(object);
  const auto told = own.all().slots(own.local_ranks[static_cast<std::size_t>(local)]);
  if (!told) return answer(own, tl::unexpected(told.error()));
  std::ranges::copy(*told, to);
  return 0;
}

int set_rank_mask(void* object, std::uint64_t mask) {
  Object& own = object_of(object);
  own.device->set_active_rank_mask(RankMask(mask));
  for (AllToAllConfig& config : own.configs) config.active_rank_mask = mask;
  return 0;
}

int sanitize(void* object, std::int32_t invalid_expert_id, void*) {
  return answer(object_of(object), object_of(object).all().sanitize(invalid_expert_id));
}

int experts(void* object, std::int32_t hidden_payload, std::int32_t weight_payload, void*) {
  Object& own = object_of(object);
  own.gave_results = false;
  return answer(own, own.all().experts({hidden_payload, weight_payload}));
}

int read_workspace(void* object, std::int32_t rank, void* to, std::int64_t bytes) {
  Object& own = object_of(object);
  const auto slice = own.all().read_slice(rank);
  if (!slice) return answer(own, tl::unexpected(slice.error()));
  std::memcpy(to, slice->data(), std::min(slice->size(), static_cast<std::size_t>(bytes)));
  return 0;
}

int poison(void* object, std::int32_t byte) {
  return answer(object_of(object), object_of(object).all().poison(static_cast<std::byte>(byte)));
}

int capture(void* object, const a2asim_input_v1* inputs, std::int32_t invalid_expert_id, std::int32_t hidden_payload,
            std::int32_t weight_payload, std::int32_t* graph) {
  Object& own = object_of(object);
  const auto made = own.all().capture(inputs_of(own, inputs), invalid_expert_id, {hidden_payload, weight_payload});
  if (!made) return answer(own, tl::unexpected(made.error()));
  *graph = *made;
  return 0;
}

int replay(void* object, const std::int32_t* graphs, const a2asim_input_v1* inputs, void* const* outputs) {
  Object& own = object_of(object);
  begin_round(own);
  std::vector<std::vector<std::byte>> all;
  const auto ran = own.all().replay(std::span(graphs, own.local_ranks.size()), inputs_of(own, inputs), all);
  return give_outputs(own, ran, all, outputs);
}

int check(void* object) { return answer(object_of(object), object_of(object).device->check_red_zones()); }

void tell_error(void* object, a2asim_error_v1* to) {
  const Error& error = object == nullptr ? create_error : object_of(object).error;
  const auto size = std::min(error.message.size(), static_cast<std::size_t>(to->text_bytes - 1));
  std::memcpy(to->text, error.message.data(), size);
  to->text[size] = '\0';
  to->kind = static_cast<std::int32_t>(error.kind);
  to->num_facts = static_cast<std::int32_t>(std::min<std::int64_t>(std::ssize(error.facts), to->max_facts));
  for (int i = 0; i < to->num_facts; ++i) std::ranges::copy(error.facts[static_cast<std::size_t>(i)], to->facts[i]);
}

template <Builtin kWhich>
struct Entry {
  static inline MakeDevice make;
  static inline a2asim_backend_v1 table;
  static int create(const a2asim_group_v1* group, void** object) { return create_with(make, group, object); }
};

template <Builtin kWhich>
const a2asim_backend_v1& fill(const char* name, Capabilities capabilities, MakeDevice make) {
  Entry<kWhich>::make = std::move(make);
  return Entry<kWhich>::table = {
             A2ASIM_BACKEND_VERSION,
             sizeof(a2asim_backend_v1),
             name,
             capabilities.bits(),
             [](const a2asim_group_v1*, std::int32_t) { return std::int64_t{0}; },
             Entry<kWhich>::create,
             [](void* object) { delete static_cast<Object*>(object); },
             tell_error,
             dispatch,
             received,
             copy,
             combine,
             slots,
             set_rank_mask,
             sanitize,
             experts,
             read_workspace,
             poison,
             capture,
             replay,
             check,
         };
}

class Simulator final : public Device {
 public:
  explicit Simulator(std::unique_ptr<SimAllToAll> made) : made_(std::move(made)) {}
  AllToAll& all_to_all() override { return *made_; }
  void set_active_rank_mask(RankMask mask) override { made_->set_active_rank_mask(mask); }
  Result<void> check_red_zones() override {
    return made_->guards_intact() ? Result<void>()
                                  : fail(ErrorKind::runtime_error, "bytes beside a slice were written");
  }

 private:
  std::unique_ptr<SimAllToAll> made_;
};

}  // namespace

const a2asim_backend_v1& builtin_table(Builtin which, Capabilities capabilities, MakeDevice make) {
  return which == Builtin::sim ? fill<Builtin::sim>("sim", capabilities, std::move(make))
                               : fill<Builtin::cuda>("cuda", capabilities, std::move(make));
}

Capabilities simulator_capabilities() {
  return Capabilities::all()
      .without(Capability::guard)
      .without(Capability::refusals)
      .without(Capability::bounded_waits);
}

Result<std::unique_ptr<Device>> make_simulator(const DeviceRequest& request) {
  if (!request.local_ranks.empty())
    return fail(ErrorKind::bad_input, "the simulator drives all ranks of a group, or none");
  auto made = SimAllToAll::create(request.configs, {});
  if (!made) return tl::unexpected(made.error());
  return std::make_unique<Simulator>(std::move(*made));
}

}  // namespace a2asim
