/* errand.h - one request of a thread that has no lane, answered on a worker's.
 *
 * Threads: errand_run waits, so that no worker may call it; main may, for workers wait for nobody.
 */
#pragma once

#include "backend/backend.h"

struct worker;

/* Has `request` answered and waits for it; only for what asks no store and so ends soon.
 * arena  the request's and the reply's; left alone by the caller meanwhile
 * reply  body in `arena` */
void errand_run(struct worker *worker, const struct request *request, struct arena *arena,
                struct reply *reply);
