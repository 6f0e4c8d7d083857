/* The example of a plug-in with one fault, chosen by BAD: what a plug-in must not be able to do to the program. */
#define _GNU_SOURCE
#define a2asim_backend_v1_table good_table
#include "tools/examples/own_backend.c"
#undef a2asim_backend_v1_table

#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { CRASH = 1, HANG, EXIT, COUNTS, WORKSPACE, NO_ADDRESS, NEWER, WRONG_VERSION, NO_FUNCTION, CRASH_AT_LOAD, DAEMON,
       CAPABILITIES, CRASH_AT_DESTROY, TEXT };

static void leave_daemon(void) {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  prctl(PR_SET_NAME, "a2asim_daemon");
  for (;;) pause();
}

static int bad_dispatch(void* object, const a2asim_input_v1* inputs, void* stream) {
  if (BAD == DAEMON) leave_daemon();
  if (BAD == CRASH || BAD == DAEMON) {
    printf("about to touch nothing\n");
    fflush(stdout);
    *(volatile int*)16 = 1;
  }
  if (BAD == EXIT) _exit(7);
  if (BAD == TEXT) {
    last_error = "first line\nsecond \x1b[31mline";
    return 1;
  }
  return dispatch(object, inputs, stream);
}

static int bad_combine(void* object, const int64_t* runtime_max, void* const* outputs, void* stream) {
  for (;;)
    if (BAD != HANG) return combine(object, runtime_max, outputs, stream);
}

static int bad_received(void* object, int32_t local, a2asim_view_v1* view) {
  const int code = received(object, local, view);
  if (BAD == COUNTS) view->num_rows[0] = INT64_C(1) << 60;
  if (BAD == NO_ADDRESS) view->results[0] = NULL, view->num_rows[0] = 1;
  return code;
}

static int64_t bad_workspace(const a2asim_group_v1* g, int32_t local) {
  (void)g, (void)local;
  return BAD == WORKSPACE ? INT64_C(1) << 62 : 0;
}

static void bad_destroy(void* object) {
  if (BAD == CRASH_AT_DESTROY) abort();
  destroy(object);
}

__attribute__((constructor)) static void load_it(void) {
  if (BAD == CRASH_AT_LOAD) *(volatile int*)16 = 1;
}

const a2asim_backend_v1
#if BAD == 7
    a2asim_backend_v7_table
#else
    a2asim_backend_v1_table
#endif
    = {
        .version = BAD == WRONG_VERSION ? 3 : A2ASIM_BACKEND_VERSION,
        .struct_bytes = sizeof(a2asim_backend_v1),
        .name = "bad",
        .capabilities = BAD == CAPABILITIES ? ~UINT64_C(0)
                                            : A2ASIM_CAN_SLOT_ORDER | A2ASIM_CAN_ZERO_TOKENS | A2ASIM_CAN_CHANGING_R |
                                                  A2ASIM_CAN_SEVERAL_RANKS,
        .workspace_bytes = bad_workspace,
        .create = create,
        .destroy = bad_destroy,
        .error = tell,
        .dispatch = bad_dispatch,
        .received = bad_received,
#if BAD != 9
        .copy = copy,
#endif
        .combine = bad_combine,
};
