// server_args as an outside engine answers it: each field takes JSON of its own type, and nothing else.
#include "model/engines/sglang/questions/json_args.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace a2asim {
namespace {

using Json = nlohmann::json;

const std::map<std::string_view, std::string> kNotIntegers = {
    {"enable_dp_attention", "bool"},
    {"enable_dp_lm_head", "bool"},
    {"disable_cuda_graph", "bool"},
    {"disable_shared_experts_fusion", "bool"},
    {"moe_a2a_backend", "string"},
    {"moe_runner_backend", "string"},
    {"deepep_mode", "string"},
    {"speculative_algorithm", "string"},
    {"disaggregation_mode", "string"},
    {"quantization", "string"},
    {"load_balance_method", "string"},
    {"mem_fraction_static", "real"},
    {"schedule_conservativeness", "real"},
    {"cuda_graph_bs", "list"},
};

}  // namespace

TEST_CASE("server_args: a field takes JSON of its own type, and keeps what it had otherwise") {
  const std::map<std::string, Json> values = {
      {"bool", true},      {"integer", 7},           {"real", 0.5},        {"string", "eagle"},
      {"list", {1, 2, 4}}, {"mixed list", {1, "2"}}, {"real list", {1.5}}, {"object", Json::object()}};
  for (const std::string_view field : answered_fields()) {
    const auto other = kNotIntegers.find(field);
    const std::string own = other == kNotIntegers.end() ? "integer" : other->second;
    for (const auto& [kind, value] : values) {
      CAPTURE(std::string(field));
      CAPTURE(kind);
      ServerArgs args;
      const Json before = json_of(args);
      const bool fits = kind == own || (own == "real" && kind == "integer");
      CHECK(set_field(args, field, value) == fits);
      Json wanted = before;
      if (fits) wanted[std::string(field)] = value;
      CHECK(json_of(args) == wanted);
    }
  }
}

TEST_CASE("server_args: null empties what may be empty, and an unknown field is none") {
  ServerArgs args;
  CHECK(set_field(args, "moe_dense_tp_size", 1));
  CHECK(set_field(args, "moe_dense_tp_size", nullptr));
  CHECK(json_of(args)["moe_dense_tp_size"].is_null());
  CHECK_FALSE(set_field(args, "tp_size", nullptr));
  CHECK_FALSE(set_field(args, "no_such_field", 1));
}

}  // namespace a2asim
