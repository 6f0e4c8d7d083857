/* A plug-in for `a2asim conformance --backend ./libown_backend.so` (gpu/backend_plugin.h), on the CPU, with a layout of its
 * own. Build: gcc -std=c11 -shared -fPIC -I ../.. own_backend.c -o libown_backend.so */
#include "gpu/backend_plugin.h"

#include <stdlib.h>
#include <string.h>

/* Rows from one source to one destination. */
typedef struct {
  int64_t count;
  uint8_t* payload[A2ASIM_BACKEND_MAX_PAYLOADS];
  uint8_t* results;
} inbox;

typedef struct {
  int32_t ep_size;
  a2asim_rank_v1 rank;  /* all ranks alike */
  inbox* inboxes;       /* [destination][source] */
  int64_t* tokens;      /* [source] */
  int32_t** targets;    /* [source][token, top_k], -1: sends nothing */
  int64_t result_bytes; /* of a row */
} group;

static const char* last_error = "";

static int64_t no_memory(const a2asim_group_v1* g, int32_t local) {
  (void)g, (void)local;
  return 0;
}

static int fail(const char* why) {
  last_error = why;
  return 1;
}

static int create(const a2asim_group_v1* given, void** object) {
  if (given->ranks[0].combine_type > A2ASIM_FLOAT32 || given->ranks[0].combine_type == A2ASIM_FLOAT16)
    return fail("SKIPPED: bfloat16 and float32 only");
  group* g = calloc(1, sizeof *g);
  const int64_t ranks = given->ep_size;
  g->ep_size = given->ep_size;
  g->rank = given->ranks[0];
  g->inboxes = calloc((size_t)(ranks * ranks), sizeof *g->inboxes);
  g->tokens = calloc((size_t)ranks, sizeof *g->tokens);
  g->targets = calloc((size_t)ranks, sizeof *g->targets);
  g->result_bytes = g->rank.hidden_size * (g->rank.combine_type == A2ASIM_FLOAT32 ? 4 : 2);
  for (int64_t i = 0; i < ranks * ranks; ++i) {
    const size_t most = (size_t)g->rank.max_num_tokens;
    for (int p = 0; p < g->rank.num_payloads; ++p)
      g->inboxes[i].payload[p] = malloc(most * (size_t)g->rank.payload_bytes_per_token[p]);
    g->inboxes[i].results = malloc(most * (size_t)g->result_bytes);
  }
  *object = g;
  return 0;
}

static void destroy(void* object) {
  group* g = object;
  for (int64_t i = 0; i < (int64_t)g->ep_size * g->ep_size; ++i) {
    for (int p = 0; p < g->rank.num_payloads; ++p) free(g->inboxes[i].payload[p]);
    free(g->inboxes[i].results);
  }
  for (int32_t r = 0; r < g->ep_size; ++r) free(g->targets[r]);
  free(g->inboxes), free(g->tokens), free(g->targets), free(g);
}

static void tell(void* object, a2asim_error_v1* error) {
  (void)object;
  strncpy(error->text, last_error, (size_t)error->text_bytes - 1);
}

/* The first experts % ep_size ranks own one expert more. */
static int32_t owner(const group* g, int32_t expert) {
  const int64_t base = g->rank.num_experts / g->ep_size, more = g->rank.num_experts % g->ep_size;
  const int64_t split = more * (base + 1);
  return (int32_t)(expert < split ? expert / (base + 1) : more + (expert - split) / base);
}

static void send(group* g, int32_t source, int64_t token, int32_t to, const a2asim_input_v1* input) {
  inbox* box = &g->inboxes[to * g->ep_size + source];
  for (int p = 0; p < g->rank.num_payloads; ++p) {
    const size_t bytes = (size_t)g->rank.payload_bytes_per_token[p];
    memcpy(box->payload[p] + (size_t)box->count * bytes, (const uint8_t*)input->payloads[p] + (size_t)token * bytes,
           bytes);
  }
  ++box->count;
}

static int dispatch(void* object, const a2asim_input_v1* inputs, void* stream) {
  group* g = object;
  (void)stream;
  const int32_t top_k = g->rank.top_k;
  for (int64_t i = 0; i < (int64_t)g->ep_size * g->ep_size; ++i) g->inboxes[i].count = 0;
  for (int32_t r = 0; r < g->ep_size; ++r) {
    if (inputs[r].num_tokens > g->rank.max_num_tokens) return fail("more tokens than max_num_tokens");
    g->tokens[r] = inputs[r].num_tokens;
    free(g->targets[r]);
    g->targets[r] = malloc((size_t)(g->tokens[r] * top_k + 1) * sizeof **g->targets);
    for (int64_t t = 0; t < g->tokens[r]; ++t) {
      uint64_t seen = 0;
      for (int32_t j = 0; j < top_k; ++j) {
        const int32_t to = owner(g, inputs[r].expert_ids[t * top_k + j]);
        const int is_new = (seen >> to & 1) == 0;
        seen |= UINT64_C(1) << to;
        g->targets[r][t * top_k + j] = is_new ? to : -1;
        if (is_new) send(g, r, t, to, &inputs[r]);
      }
    }
  }
  return 0;
}

static int received(void* object, int32_t local, a2asim_view_v1* view) {
  group* g = object;
  for (int32_t s = 0; s < g->ep_size; ++s) {
    inbox* box = &g->inboxes[local * g->ep_size + s];
    view->counters[s] = view->num_rows[s] = box->count;
    view->results[s] = box->results;
    for (int p = 0; p < g->rank.num_payloads; ++p) view->rows[p * g->ep_size + s] = box->payload[p];
  }
  return 0;
}

static int copy(void* object, void* to, const void* from, int64_t bytes) {
  (void)object;
  memcpy(to, from, (size_t)bytes);
  return 0;
}

static float load(const group* g, const uint8_t* row, int64_t i) {
  uint32_t bits = 0;
  if (g->rank.combine_type == A2ASIM_FLOAT32)
    memcpy(&bits, row + 4 * i, 4);
  else
    memcpy((uint8_t*)&bits + 2, row + 2 * i, 2);
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static void store(const group* g, float value, uint8_t* row, int64_t i) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  const int is_nan = (bits & 0x7fffffff) > 0x7f800000;
  if (g->rank.combine_type == A2ASIM_FLOAT32) {
    memcpy(row + 4 * i, &bits, 4);
    return;
  }
  const uint16_t rounded = is_nan ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  memcpy(row + 2 * i, &rounded, 2);
}

static int combine(void* object, const int64_t* runtime_max, void* const* outputs, void* stream) {
  group* g = object;
  (void)runtime_max, (void)stream;
  int64_t next[64]; /* by destination */
  for (int32_t r = 0; r < g->ep_size; ++r) {
    memset(next, 0, sizeof next);
    for (int64_t t = 0; t < g->tokens[r]; ++t) {
      const uint8_t* rows[64];
      int count = 0;
      for (int32_t j = 0; j < g->rank.top_k; ++j) {
        const int32_t to = g->targets[r][t * g->rank.top_k + j];
        if (to >= 0) rows[count++] = g->inboxes[to * g->ep_size + r].results + next[to]++ * g->result_bytes;
      }
      for (int64_t i = 0; i < g->rank.hidden_size; ++i) {
        float sum = 0;
        for (int n = 0; n < count; ++n) sum += load(g, rows[n], i);
        store(g, sum, (uint8_t*)outputs[r] + t * g->result_bytes, i);
      }
    }
  }
  return 0;
}

const a2asim_backend_v1 a2asim_backend_v1_table = {
    .version = A2ASIM_BACKEND_VERSION,
    .struct_bytes = sizeof(a2asim_backend_v1),
    .name = "own_backend",
    .capabilities =
        A2ASIM_CAN_SLOT_ORDER | A2ASIM_CAN_ZERO_TOKENS | A2ASIM_CAN_CHANGING_R | A2ASIM_CAN_SEVERAL_RANKS,
    .workspace_bytes = no_memory,
    .create = create,
    .destroy = destroy,
    .error = tell,
    .dispatch = dispatch,
    .received = received,
    .copy = copy,
    .combine = combine,
};
