/* tsan.h - what ThreadSanitizer cannot see.
 *
 * libck is not instrumented, so the order that its fences give is told by hand, in the wrapper
 * round it (reclaim.c) and nowhere else. Empty in every other build. */
#pragma once

#if defined(__SANITIZE_THREAD__)
#define CACHE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CACHE_TSAN 1
#endif
#endif

#ifdef CACHE_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define TSAN_ACQUIRE(address) __tsan_acquire((void *)(address))
#define TSAN_RELEASE(address) __tsan_release((void *)(address))
#else
#define TSAN_ACQUIRE(address) ((void)(address))
#define TSAN_RELEASE(address) ((void)(address))
#endif
