/* A backend of the all-to-all as a plug-in: a shared library that exports one table of C functions,
 *
 *     const a2asim_backend_v1 a2asim_backend_v1_table = {.version = A2ASIM_BACKEND_VERSION, ..};
 *
 * and is run by `a2asim conformance --backend ./libmine.so` and `a2asim validate --backend ./libmine.so SCENARIO..`.
 * A later version of this interface has a table under another name; a library may export several. An example:
 * tools/examples/own_backend.c.
 *
 * One object drives some ranks of a group, and all of them together: a call is of all its ranks, and it returns when
 * what it does is done. Order: create, {dispatch, [sanitize], received.., [experts], combine}.., destroy. The library
 * runs in a process of its own; what crashes, hangs or returns sizes that cannot be ends that process only. What create
 * is given stays valid until destroy, what other calls are given until they return.
 *
 * Functions give 0, or anything else for a failure, whose text `error` then gives; one that begins with "SKIPPED: "
 * says that this backend cannot be asked that, and counts as skipped. Functions behind a capability may be NULL without
 * it; the others may not. All sizes are bytes unless they say otherwise; nothing here is C++.
 */
#ifndef A2ASIM_GPU_BACKEND_PLUGIN_H
#define A2ASIM_GPU_BACKEND_PLUGIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define A2ASIM_BACKEND_VERSION 1
#define A2ASIM_BACKEND_TABLE a2asim_backend_v1_table
#define A2ASIM_BACKEND_MAX_PAYLOADS 8

/* Number types of the experts' outputs and of combine's. */
enum { A2ASIM_BFLOAT16 = 0, A2ASIM_FLOAT16 = 1, A2ASIM_FLOAT32 = 2, A2ASIM_FLOAT8_E4M3 = 3, A2ASIM_OPAQUE = 4 };

/* What a backend can do beyond the minimum. A test that needs one that is lacking is skipped, counted, and names it. */
#define A2ASIM_CAN_SLOT_ORDER (UINT64_C(1) << 0)      /* slots within (source, destination) come in token order */
#define A2ASIM_CAN_TOLD_SLOTS (UINT64_C(1) << 1)      /* slots() */
#define A2ASIM_CAN_SUM_ORDER (UINT64_C(1) << 2)       /* combine adds in the order of model/alltoall/reduction.h */
#define A2ASIM_CAN_ZERO_TOKENS (UINT64_C(1) << 3)     /* a rank may dispatch none */
#define A2ASIM_CAN_CHANGING_R (UINT64_C(1) << 4)      /* R may be another in every call */
#define A2ASIM_CAN_UNEQUAL_R (UINT64_C(1) << 5)       /* ranks whose R differ run, each by its own */
#define A2ASIM_CAN_RANK_MASK (UINT64_C(1) << 6)       /* active_rank_mask; set_rank_mask() */
#define A2ASIM_CAN_SEVERAL_RANKS (UINT64_C(1) << 7)   /* one object drives all ranks of a group */
#define A2ASIM_CAN_GRAPHS (UINT64_C(1) << 8)          /* capture(), replay() */
#define A2ASIM_CAN_SANITIZE (UINT64_C(1) << 9)        /* sanitize() */
#define A2ASIM_CAN_EXPERTS (UINT64_C(1) << 10)        /* experts() */
#define A2ASIM_CAN_READ_WORKSPACE (UINT64_C(1) << 11) /* FlashInfer's layout: read_workspace(), poison() */
#define A2ASIM_CAN_GUARD (UINT64_C(1) << 12)          /* ranks that disagree get an error that names two of them */
#define A2ASIM_CAN_REFUSE (UINT64_C(1) << 13)         /* sizes that cannot be right are refused before any write */
#define A2ASIM_CAN_WAIT_BOUNDED (UINT64_C(1) << 14)   /* a rank that waits for a missing one gets an error */

/* How one rank constructs its all-to-all. */
typedef struct {
  int32_t top_k;
  int32_t num_payloads;
  int64_t num_experts;    /* of all ranks: the first num_experts % ep_size own one more */
  int64_t max_num_tokens; /* the capacity, in tokens of a rank */
  int64_t payload_bytes_per_token[A2ASIM_BACKEND_MAX_PAYLOADS];
  int32_t payload_element_bytes[A2ASIM_BACKEND_MAX_PAYLOADS];
  int32_t expert_id_payload; /* the payload that holds int32 expert ids; -1: none */
  int32_t combine_type;
  int64_t hidden_size;       /* elements of a row of the experts' outputs */
  int32_t max_top_k;         /* entries reserved per token in FlashInfer's tables */
  int32_t payload_alignment;  /* of each payload's receive region: 1 in FlashInfer, 128 in TensorRT-LLM's own kernels */
  int32_t skips_invalid_ids;  /* 1: ids of no expert go nowhere */
  int32_t reserved;
  uint64_t active_rank_mask; /* bit r: rank r takes part */
} a2asim_rank_v1;

typedef struct {
  int32_t ep_size;
  int32_t num_local;           /* ranks that this object drives; the others never call */
  const a2asim_rank_v1* ranks; /* [ep_size] */
  const int32_t* local_ranks;  /* [num_local], ascending: the order of every per-rank argument below */
  void* const* memory;         /* [num_local] host memory of workspace_bytes() each; NULL where that is 0 */
  void* stream;                /* a cudaStream_t to work on; NULL: one of its own */
  int32_t guard;               /* 1: a backend that has one turns its guard on */
  int32_t reserved;
  int64_t timeout_ms; /* of a wait for a peer */
} a2asim_group_v1;

typedef struct {
  int64_t runtime_max_tokens_per_rank; /* R as this rank computed it */
  int64_t num_tokens;
  const int32_t* expert_ids;                         /* [num_tokens, top_k], host memory */
  const void* payloads[A2ASIM_BACKEND_MAX_PAYLOADS]; /* [num_tokens, payload_bytes_per_token[p]], host memory */
} a2asim_input_v1;

/* What a rank received, by its own R. Addresses may be of a device: they are read and written with copy() only. */
typedef struct {
  int64_t* counters; /* [ep_size], as the senders counted */
  int64_t* num_rows; /* [ep_size] that the rank reads: min(counter, R) */
  const void** rows; /* [num_payloads][ep_size]: where slot 0 of that payload and source lies */
  void** results;    /* [ep_size]: where the experts' output for slot 0 of that source goes */
} a2asim_view_v1;

/* What an error says as numbers, where the words are those of model/alltoall/error.h; else count is 0. */
typedef struct {
  char* text; /* [text_bytes], ended by a 0 */
  int64_t text_bytes;
  int32_t kind; /* of model/base/result.h; 3 (runtime error) if in doubt */
  int32_t num_facts;
  int64_t (*facts)[11]; /* room for max_facts */
  int64_t max_facts;
} a2asim_error_v1;

typedef struct {
  uint32_t version;      /* A2ASIM_BACKEND_VERSION */
  uint32_t struct_bytes; /* sizeof(a2asim_backend_v1) */
  const char* name;
  uint64_t capabilities;

  /* Host memory that a rank needs from the caller; 0: it brings its own. */
  int64_t (*workspace_bytes)(const a2asim_group_v1* group, int32_t local);
  int (*create)(const a2asim_group_v1* group, void** object);
  void (*destroy)(void* object);
  /* Of the call that failed last; object is NULL after create. */
  void (*error)(void* object, a2asim_error_v1* error);

  int (*dispatch)(void* object, const a2asim_input_v1* inputs, void* stream);
  int (*received)(void* object, int32_t local, a2asim_view_v1* view);
  int (*copy)(void* object, void* to, const void* from, int64_t bytes); /* host and device, either way */
  int (*combine)(void* object, const int64_t* runtime_max, void* const* outputs, void* stream);

  /* [num_tokens, top_k] of the last dispatch; -1: this position sends nothing. */
  int (*slots)(void* object, int32_t local, int32_t* slots);
  int (*set_rank_mask)(void* object, uint64_t mask);
  int (*sanitize)(void* object, int32_t invalid_expert_id, void* stream);
  int (*experts)(void* object, int32_t hidden_payload, int32_t weight_payload, void* stream);
  int (*read_workspace)(void* object, int32_t rank, void* to, int64_t bytes);
  int (*poison)(void* object, int32_t byte);
  int (*capture)(void* object, const a2asim_input_v1* inputs, int32_t invalid_expert_id, int32_t hidden_payload,
                 int32_t weight_payload, int32_t* graph);
  int (*replay)(void* object, const int32_t* graphs, const a2asim_input_v1* inputs, void* const* outputs);
  int (*check)(void* object); /* may be NULL: nothing beside its own memory was written */
} a2asim_backend_v1;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const a2asim_backend_v1 a2asim_backend_v1_table;

#ifdef __cplusplus
}
#endif

#endif
