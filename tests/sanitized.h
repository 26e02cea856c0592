// Whether this is a build with a sanitizer, which looks for other faults than wrong numbers and takes several times as long.
#ifndef COLONNADE_TESTS_SANITIZED_H_
#define COLONNADE_TESTS_SANITIZED_H_

// As GCC says it.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

namespace colonnade {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

// How many random cases a test draws, of those that it draws as released.
constexpr int Draws(int cases) { return kSanitized ? cases / 8 : cases; }

}  // namespace colonnade

#endif  // COLONNADE_TESTS_SANITIZED_H_
