// Lines of a server log, its arguments, and which lines make one step.
#include "tools/from_log/from_log.h"

#include <doctest/doctest.h>

#include <sstream>

#include "model/base/random.h"
#include "sim/scenario/scenario_reader.h"
#include "tools/from_log/from_log_place.h"

namespace a2asim {
namespace {

BatchLine batch_of(const std::string& line) {
  const std::vector<LogEntry> entries = read_batches(line, 7);
  REQUIRE_MESSAGE(entries.size() == 1, line);
  REQUIRE_MESSAGE(std::holds_alternative<BatchLine>(entries[0]), line);
  return std::get<BatchLine>(entries[0]);
}

std::string reason_of(const std::string& line) {
  const std::vector<LogEntry> entries = read_batches(line, 7);
  REQUIRE_MESSAGE(entries.size() == 1, line);
  REQUIRE_MESSAGE(std::holds_alternative<UnusableLine>(entries[0]), line);
  return std::string(std::get<UnusableLine>(entries[0]).reason);
}

const std::string kDecode =
    "Decode batch, #running-req: 3, #token: 512, token usage: 0.00, cuda graph: True, #queue-req: 0";

// A decode line of a rank at a second of one minute.
BatchLine line_at(std::size_t number, std::int64_t rank, std::int64_t second,
                  BatchLine::Kind kind = BatchLine::Kind::decode) {
  BatchLine line;
  line.number = number;
  line.kind = kind;
  line.time_ms = second * 1000;
  line.dp_rank = line.tp_rank = rank;
  line.count = 1;
  return line;
}

PlaceOptions four_ranks() {
  PlaceOptions options;
  options.topology.tp_size = options.topology.dp_size = options.topology.ep_size = options.topology.attn_dp_size = 4;
  options.topology.enable_dp_attention = true;
  return options;
}

// The line numbers of each step.
std::vector<std::vector<std::size_t>> steps_of(const std::vector<BatchLine>& batches, const PlaceOptions& options) {
  std::vector<std::vector<std::size_t>> out;
  for (const LogStep& step : place_lines(batches, options).steps) {
    out.emplace_back();
    for (const auto& [rank, index] : step.lines) out.back().push_back(batches[index].number);
  }
  return out;
}

using Numbers = std::vector<std::vector<std::size_t>>;

LoggedDeployment logged(const std::string& fields) {
  const auto args = read_server_args("[2026-06-05 10:10:01] server_args=ServerArgs(" + fields + ") and more");
  REQUIRE(args.has_value());
  REQUIRE(args->has_value());
  Result<LoggedDeployment> out = deployment_from(**args);
  REQUIRE_MESSAGE(out.has_value(), (out ? "" : out.error().message));
  return std::move(*out);
}

}  // namespace

TEST_CASE("from-log: a decode line, in the spellings of all versions") {
  for (const std::string line : {
           "[2026-06-20 10:11:12 DP1 TP1 EP1] Decode batch, #running-req: 3, #token: 512, cuda graph: True, "
           "#queue-req: 0",
           "[2026-06-20 10:11:12 DP1 TP1 EP1] Decode batch. #running-req: 3, #token: 512, cuda graph: True, ",
           "[2026-06-20 10:11:12 DP1 PP0 TP1 EP1] Decode batch, #running-req: 3, #full token: 9, cuda graph: True",
           "[2026-06-20 10:11:12 DP1 MOE_DP0 TP1 EP1] Decode batch, #running-req: 3, accept len: 2.1, cuda graph: True",
           "\x1b[32m[2026-06-20 10:11:12 DP1 TP1]\x1b[0m Decode batch, #running-req: 3, cuda graph: True\r",
           "2026-06-20T09:00:00.123Z stdout F [2026-06-20 10:11:12 DP1 TP1] Decode batch, #running-req: 3, cuda graph: "
           "True",
           "Jun 20 12:11:12 node sglang[77]: [2026-06-20 10:11:12 DP1 TP1] Decode batch, #running-req: 3, cuda graph: "
           "True",
           "{\"log\":\"[2026-06-20 10:11:12 DP1 TP1] Decode batch, #running-req: 3, cuda graph: True\\n\"}",
       }) {
    const BatchLine batch = batch_of(line);
    CHECK(batch.number == 7);
    CHECK(batch.kind == BatchLine::Kind::decode);
    CHECK(batch.dp_rank == 1);
    CHECK(batch.tp_rank == 1);
    CHECK(batch.count == 3);
    CHECK(batch.cuda_graph == true);
    CHECK_FALSE(batch.iteration.has_value());
    CHECK(batch.time_ms == batch_of("[2026-06-20 10:11:12] " + kDecode).time_ms);
  }
}

TEST_CASE("from-log: a prefill line, its iteration and its milliseconds") {
  const BatchLine batch = batch_of(
      "[2026-06-20 10:11:12.345 DP0 ATTN_CP1 TP2] Prefill batch [12], #new-seq: 2, #new-token: 128, #cached-token: 5, "
      "token usage: 0.00, #running-req: 4, #queue-req: 0, #pending-token: 9, cuda graph: False, "
      "input throughput (token/s): 1.00");
  CHECK(batch.kind == BatchLine::Kind::prefill);
  CHECK(batch.count == 128);
  CHECK(batch.running_req == 4);
  CHECK(batch.iteration == 12);
  CHECK(batch.attn_cp_rank == 1);
  CHECK(batch.cuda_graph == false);
  const auto second_before = batch_of("[2026-06-20 10:11:11] " + kDecode).time_ms;
  CHECK(*batch.time_ms - *second_before == 1345);
  CHECK(*batch_of("[2026-03-01 00:00:00] " + kDecode).time_ms - *batch_of("[2026-02-28 23:59:59] " + kDecode).time_ms ==
        1000);
}

TEST_CASE("from-log: tags and stamps that are not there") {
  const BatchLine batch = batch_of(kDecode);
  CHECK_FALSE(batch.time_ms.has_value());
  CHECK_FALSE(batch.dp_rank.has_value());
  CHECK_FALSE(batch.tp_rank.has_value());
  CHECK_FALSE(batch_of("[2026-13-20 10:11:12 DP0] " + kDecode).time_ms.has_value());
  CHECK_FALSE(batch_of("[2026-06-20 10:11:12 XDP0 DPx DP TP] " + kDecode).dp_rank.has_value());
  CHECK_FALSE(batch_of("[2026-06-20 10:11:12] Decode batch, #running-req: 3").cuda_graph.has_value());
}

TEST_CASE("from-log: two messages that share a line are two batches") {
  const std::vector<LogEntry> entries = read_batches(
      "[2026-06-20 10:11:12 DP0 TP0] Decode batch, #running-req: 3, #queue-req: 0[2026-06-20 10:11:13 DP1 TP1] Prefill "
      "batch, #new-seq: 1, #new-token: 8",
      1);
  REQUIRE(entries.size() == 2);
  CHECK(std::get<BatchLine>(entries[0]).dp_rank == 0);
  CHECK(std::get<BatchLine>(entries[0]).count == 3);
  CHECK(std::get<BatchLine>(entries[1]).dp_rank == 1);
  CHECK(std::get<BatchLine>(entries[1]).kind == BatchLine::Kind::prefill);
  CHECK(std::get<BatchLine>(entries[1]).count == 8);
}

TEST_CASE("from-log: lines that only look like a batch, and batches without a count") {
  for (const std::string line :
       {"", " batch", "[2026-06-20 10:11:12] The Decode batch is full", "Prefill batch size 3",
        "Decode batches, #running-req: 3",
        "[2026-06-20 10:11:12 DP0 TP0] max_total_num_tokens=812543, chunked_prefill_size=2048"})
    CHECK(read_batches(line, 1).empty());
  CHECK(reason_of("Decode batch, #token: 3") == "a decode batch without #running-req");
  CHECK(reason_of("Prefill batch, #new-seq: 3") == "a prefill batch without #new-token");
  CHECK(reason_of("Decode batch, #running-req: many") == "a count that is no number, or above 1048576");
  CHECK(reason_of("Decode batch, #running-req: 1048577") == "a count that is no number, or above 1048576");
  CHECK(reason_of("Decode batch, #running-req: 99999999999999999999") == "a count that is no number, or above 1048576");
  CHECK(reason_of("Decode batch, #running-req: -3") == "a count that is no number, or above 1048576");
  CHECK(reason_of("[DP99999999999999999999] " + kDecode) == "a rank tag that is no number");
}

TEST_CASE("from-log: server_args as Python prints it") {
  const LoggedDeployment out = logged(
      "model_path='deepseek-ai/DeepSeek-V3', served_model_name='a, (b) \\' c', extra={'x': [1, (2, 3)], 'y': \"z)\"}, "
      "tp_size=8, dp_size=8, enable_dp_attention=True, enable_dp_lm_head=False, moe_dense_tp_size=None, "
      "moe_a2a_backend='flashinfer', cuda_graph_bs=[1, 2, 4], chunked_prefill_size=1024, decode_log_interval=5, "
      "mem_fraction_static=0.9");
  CHECK(out.model_path == "deepseek-ai/DeepSeek-V3");
  CHECK(out.parallel.tp_size == 8);
  CHECK(out.parallel.enable_dp_attention == true);
  CHECK_FALSE(out.parallel.enable_dp_lm_head.has_value());
  CHECK_FALSE(out.parallel.moe_dense_tp_size.has_value());
  CHECK(out.parallel.moe_a2a_backend == "flashinfer");
  CHECK(out.parallel.cuda_graph_bs == std::vector<std::int64_t>{1, 2, 4});
  CHECK(out.parallel.chunked_prefill_size == 8192);  // printed after the division by dp_size
  CHECK(out.decode_log_interval.iterations == 5);
  CHECK(out.decode_log_interval.is_logged);
}

TEST_CASE("from-log: other spellings of the arguments, and what a scenario has no field for") {
  const LoggedDeployment out = logged(
      "cuda_graph_max_bs_decode=64, cuda_graph_bs_decode=[8], chunked_prefill_size=2048, dp_size=4, "
      "cuda_graph_backend_decode='disabled', enable_prefill_cp=True, model_path='C:\\\\models'");
  CHECK(out.parallel.cuda_graph_max_bs == 64);
  CHECK(out.parallel.cuda_graph_bs == std::vector<std::int64_t>{8});
  CHECK(out.parallel.chunked_prefill_size == 2048);  // no DP attention: nothing was divided
  CHECK(out.parallel.disable_cuda_graph == true);
  CHECK_FALSE(out.parallel.model_path.has_value());
  CHECK(out.notes.size() == 2);
  CHECK(out.decode_log_interval.iterations == 40);
  CHECK_FALSE(out.decode_log_interval.is_logged);
}

TEST_CASE("from-log: server_args as a dictionary, with dictionaries inside") {
  const std::string fields =
      "'model_path': 'deepseek-ai/DeepSeek-V3', 'served_model_name': \"it's, {a}: b\", 'tp_size': 8, 'dp_size': 4, "
      "'nnodes': 2, 'node_rank': 1, 'enable_dp_attention': True, 'quantization': None, 'chunked_prefill_size': 1024, "
      "'moe_a2a_backend': 'flashinfer', 'cuda_graph_config': {'decode': {'backend': 'full', 'max_bs': 64, 'bs': [1, "
      "2]}, "
      "'prefill': {'backend': 'disabled'}}, 'decode_log_interval': 1";
  for (const std::string& text :
       {fields, [&] {
          std::string json = fields;  // as JSON loggers spell it
          for (const auto& [python, other] : {std::pair("True", "true"), std::pair("None", "null")})
            json.replace(json.find(python), 4, other);
          return json;
        }()}) {
    const auto args = read_server_args("[2026-09-20 00:22:13] server_args={" + text + "} and more");
    REQUIRE(args.has_value());
    REQUIRE(args->has_value());
    const Result<LoggedDeployment> out = deployment_from(**args);
    REQUIRE(out.has_value());
    CHECK(out->model_path == "deepseek-ai/DeepSeek-V3");
    CHECK(out->parallel.tp_size == 8);
    CHECK(out->parallel.enable_dp_attention == true);
    CHECK(out->parallel.moe_a2a_backend == "flashinfer");
    CHECK(out->parallel.chunked_prefill_size == 4096);
    CHECK(out->parallel.cuda_graph_max_bs == 64);
    CHECK(out->parallel.cuda_graph_bs == std::vector<std::int64_t>{1, 2});
    CHECK_FALSE(out->parallel.disable_cuda_graph.has_value());
    CHECK(out->decode_log_interval.iterations == 1);
    CHECK(out->nodes.count == 2);
    CHECK(out->nodes.own == 1);
    for (const std::string& note : out->notes) CHECK(note.find("cuda_graph_config") == std::string::npos);
  }
  const auto grouped = read_server_args(
      "server_args={'model': {'model_path': 'M'}, 'parallel': {'tp_size': 4, 'dp_size': 4}, 'draft': {'dp_size': 2}}");
  CHECK(deployment_from(**grouped)->parallel.tp_size == 4);
  CHECK(deployment_from(**grouped)->model_path == "M");
  CHECK_FALSE(deployment_from(**grouped)->parallel.dp_size.has_value());  // two of them
  const auto off = read_server_args("server_args={'cuda_graph_config': {'decode': {'backend': 'disabled'}}}");
  CHECK(deployment_from(**off)->parallel.disable_cuda_graph == true);
  for (const std::string line : {"server_args={", "server_args={'a'", "server_args={'a': 1", "server_args={a: 1}",
                                 "server_args={'a': {'b': 1}", "server_args={'a': 1]}"})
    CHECK_FALSE(read_server_args(line).has_value());
  CHECK_FALSE(*read_server_args("server_args=None"));
  const std::string nest = "server_args={'a': " + std::string(100'000, '{') + std::string(100'000, '}') + "}";
  CHECK(read_server_args(nest).has_value());
}

TEST_CASE("from-log: graphs of other devices, and how much was accepted") {
  for (const std::string device : {"cuda", "npu", "cpu", "musa", "xpu"}) {
    CHECK(batch_of("[DP0] Decode batch, #running-req: 3, " + device + " graph: True, #queue-req: 0").cuda_graph ==
          true);
    CHECK(batch_of("[DP0] Decode batch, #running-req: 3, " + device + " graph: False").cuda_graph == false);
  }
  CHECK(batch_of("[DP0] Decode batch, #running-req: 3, accept len: 2.75, accept rate: 0.9").accept_len == 2.75);
  CHECK(batch_of("[DP0] Decode batch, #running-req: 3").accept_len == 0);
}

TEST_CASE("from-log: server_args that are cut, or say what nothing can mean") {
  CHECK_FALSE(*read_server_args("no arguments here"));
  CHECK_FALSE(*read_server_args("TypeError: ServerArgs() got an unexpected keyword argument"));
  for (const std::string line :
       {"server_args=ServerArgs(", "server_args=ServerArgs(tp_size", "server_args=ServerArgs(tp_size=4",
        "server_args=ServerArgs(a='x", "server_args=ServerArgs(a=[1, 2", "server_args=ServerArgs(a=1]"})
    CHECK_FALSE(read_server_args(line).has_value());
  CHECK(read_server_args("server_args=ServerArgs()").value()->empty());
  for (const std::string fields : {"tp_size=0", "tp_size='4'", "tp_size=99999999999999999999", "enable_dp_attention=1",
                                   "cuda_graph_bs=[0]", "cuda_graph_bs=[1, 'x']"}) {
    const auto args = read_server_args("server_args=ServerArgs(" + fields + ")");
    CHECK_FALSE(deployment_from(**args).has_value());
  }
}

TEST_CASE("from-log: lines of one second and kind are a step, in the order of each rank") {
  CHECK(steps_of({line_at(1, 0, 5), line_at(2, 1, 5), line_at(3, 2, 6), line_at(4, 3, 6)}, four_ranks()) ==
        Numbers{{1, 2, 3, 4}});
  CHECK(steps_of({line_at(1, 0, 5), line_at(2, 1, 5), line_at(3, 1, 5), line_at(4, 0, 5)}, four_ranks()) ==
        Numbers{{1, 2}, {3, 4}});
  CHECK(steps_of({line_at(1, 0, 5), line_at(2, 1, 7)}, four_ranks()) == Numbers{{1}, {2}});
  PlaceOptions wide = four_ranks();
  wide.window_ms = 2000;
  CHECK(steps_of({line_at(1, 0, 5), line_at(2, 1, 7)}, wide) == Numbers{{1, 2}});
  const auto prefill = BatchLine::Kind::prefill;
  CHECK(steps_of({line_at(1, 0, 5, prefill), line_at(2, 1, 5), line_at(3, 2, 5, prefill)}, four_ranks()) ==
        Numbers{{1, 3}, {2}});
  // Rank 1 decoded before, so its prefill is a later iteration than the one that rank 0 began.
  CHECK(steps_of({line_at(1, 0, 5, prefill), line_at(2, 1, 5), line_at(3, 1, 5, prefill)}, four_ranks()) ==
        Numbers{{1}, {2}, {3}});
}

TEST_CASE("from-log: a line that fits the step before as well is placed into the newest and said") {
  const std::vector<BatchLine> batches = {line_at(1, 0, 5), line_at(2, 0, 5), line_at(3, 1, 5)};
  CHECK(steps_of(batches, four_ranks()) == Numbers{{1}, {2, 3}});
  CHECK(place_lines(batches, four_ranks()).ambiguous == std::vector<std::size_t>{3});
  CHECK(place_lines({{line_at(1, 0, 5), line_at(2, 1, 5)}}, four_ranks()).ambiguous.empty());
}

TEST_CASE("from-log: files of several nodes, one behind the other, are sorted by time") {
  const std::vector<BatchLine> batches = {line_at(1, 0, 5), line_at(2, 0, 9), line_at(3, 1, 5), line_at(4, 1, 9)};
  CHECK(steps_of(batches, four_ranks()) == Numbers{{1, 3}, {2, 4}});
  CHECK(place_lines(batches, four_ranks()).out_of_order == 1);
}

TEST_CASE("from-log: iteration numbers decide where they are logged") {
  std::vector<BatchLine> batches = {line_at(1, 0, 5), line_at(2, 1, 30), line_at(3, 0, 30), line_at(4, 0, 31),
                                    line_at(5, 2, 31)};
  batches[0].iteration = batches[1].iteration = 40;
  batches[2].iteration = batches[3].iteration = 80;
  const LinePlacement placement = place_lines(batches, four_ranks());
  CHECK(placement.by_iteration);
  CHECK(steps_of(batches, four_ranks()) == Numbers{{1, 2}, {3}});
  REQUIRE(placement.not_placed.size() == 2);
  CHECK(placement.not_placed[0].first == 4);
  CHECK(placement.not_placed[0].second == "a second line of its rank for the same iteration");
  CHECK(placement.not_placed[1].second == "no iteration number, where other lines have one");
}

TEST_CASE("from-log: lines without a stamp are placed in the order of the file, or not at all beside stamped ones") {
  std::vector<BatchLine> batches = {line_at(1, 0, 5), line_at(2, 1, 50), line_at(3, 0, 99)};
  for (BatchLine& line : batches) line.time_ms.reset();
  CHECK(steps_of(batches, four_ranks()) == Numbers{{1, 2}, {3}});
  batches[0].time_ms = 5;
  CHECK(steps_of(batches, four_ranks()) == Numbers{{1}});
  CHECK(place_lines(batches, four_ranks()).not_placed.size() == 2);
}

TEST_CASE("from-log: whose batch a line is") {
  PlaceOptions options = four_ranks();
  options.topology.dp_size = options.topology.attn_dp_size = 2;
  options.topology.attn_tp_size = 2;
  const auto placed = [&](std::optional<std::int64_t> dp, std::optional<std::int64_t> tp,
                          std::optional<std::int64_t> pp = {}) {
    BatchLine line = line_at(1, 0, 5);
    line.dp_rank = dp;
    line.tp_rank = tp;
    line.pp_rank = pp;
    const LinePlacement placement = place_lines({&line, 1}, options);
    return placement.steps.empty() ? std::string(placement.not_placed.at(0).second)
                                   : "DP " + std::to_string(placement.steps[0].lines[0].first);
  };
  CHECK(placed(1, 2) == "DP 1");
  CHECK(placed(1, {}) == "DP 1");
  CHECK(placed({}, 2) == "DP 1");
  CHECK(placed(0, 0, 0) == "DP 0");
  CHECK(placed(1, 3).starts_with("another rank of the same replica"));
  CHECK(placed(0, 0, 1).starts_with("a later pipeline stage"));
  CHECK(placed(1, 0) == "its DP and TP tags do not go together in this deployment");
  CHECK(placed(2, {}) == "its DP tag is no rank of this deployment");
  CHECK(placed(0, 4) == "its TP tag is no rank of this deployment");
  CHECK(placed({}, {}) == "neither a DP nor a TP tag");
  options.topology.enable_dp_attention = false;
  options.topology.attn_dp_size = 1;
  options.topology.attn_tp_size = 4;
  CHECK(placed({}, 0) == "DP 0");
  CHECK(placed({}, {}) == "DP 0");
  CHECK(placed(1, 0).starts_with("without DP attention"));
  options.replica = 1;
  CHECK(placed(1, 0) == "DP 0");
}

TEST_CASE("from-log: any bytes give a scenario that can be read, or one line") {
  const std::string seed =
      "[2026-06-05 10:10:01] server_args=ServerArgs(model_path='m', tp_size=2, dp_size=2, enable_dp_attention=True, "
      "cuda_graph_bs=[1, 2])\n"
      "[2026-06-05 10:11:12 DP0 TP0] Prefill batch [3], #new-seq: 1, #new-token: 8, #running-req: 2, cuda graph: True\n"
      "[2026-06-05 10:11:12 DP1 TP1] Decode batch, #running-req: 4, cuda graph: False\n";
  constexpr std::string_view pieces[] = {"\n",
                                         "[",
                                         ")",
                                         "'",
                                         "=",
                                         "DP",
                                         "9",
                                         "-",
                                         "\xff",
                                         "\x1b[",
                                         " batch, ",
                                         "server_args=ServerArgs(",
                                         "99999999999999999999",
                                         "None",
                                         "2026-06-05 10:11:12",
                                         "#running-req: "};
  FromLogOptions options;
  options.source = "a log";
  options.model = ModelShape{8, 2, 64};
  Random random(11);
  int made = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string text = seed;
    for (std::uint32_t change = random.below(6); change > 0; --change) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(text.size()));
      const std::size_t length = std::min<std::size_t>(random.below(12), text.size() - at);
      text.replace(at, length, pieces[random.below(static_cast<std::uint32_t>(std::size(pieces)))]);
    }
    std::istringstream in(text);
    const Result<LogContents> log = read_log(in);
    const Result<FromLog> out = log ? scenario_from_log(*log, options) : tl::unexpected(log.error());
    if (out) {
      ++made;
      CHECK(parse_scenario(out->yaml, "again").has_value());
      CHECK(out->placed <= out->batch_lines);
    } else {
      CHECK(out.error().kind == ErrorKind::bad_input);
      CHECK(out.error().message.find('\n') == std::string::npos);
    }
  }
  CHECK(made > 400);
}

}  // namespace a2asim
