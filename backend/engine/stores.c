#include "backend/engine/kv.h"

const struct kv_ops *const kv_stores[] = {
#ifdef MUDAX_BACKEND_ROCKSDB
    &kv_rocksdb,
#endif
#ifdef MUDAX_BACKEND_REDIS
    &kv_redis,
#endif
    NULL,
};
