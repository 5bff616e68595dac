/* attributes.h - what the compiler is told about functions and locks.
 *
 * Clang checks the lock attributes (-Wthread-safety); elsewhere they are empty. In C, older clangs
 * cannot name a sibling field in `guarded_by`, so fields carry comment headings instead. */
#pragma once

#define MUST_CHECK              __attribute__((warn_unused_result))
#define PRINTF_LIKE(text, args) __attribute__((format(printf, text, args)))
#define LIKELY(truth)           __builtin_expect(!!(truth), 1)
#define UNLIKELY(truth)         __builtin_expect(!!(truth), 0)

#ifdef __clang__
#define CAPABILITY(name)   __attribute__((capability(name)))
#define ACQUIRES(...)      __attribute__((acquire_capability(__VA_ARGS__)))
#define RELEASES(...)      __attribute__((release_capability(__VA_ARGS__)))
#define REQUIRES(...)      __attribute__((requires_capability(__VA_ARGS__)))
#define TRY_ACQUIRES(...)  __attribute__((try_acquire_capability(__VA_ARGS__)))
#define NO_THREAD_ANALYSIS __attribute__((no_thread_safety_analysis))
#else
#define CAPABILITY(name)
#define ACQUIRES(...)
#define RELEASES(...)
#define REQUIRES(...)
#define TRY_ACQUIRES(...)
#define NO_THREAD_ANALYSIS
#endif
