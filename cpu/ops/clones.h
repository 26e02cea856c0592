// Marks loops that the compiler makes again for wider vectors; the machine chooses at program start.
//
// Contraction of products and sums is off (CMakeLists.txt), so that all of them give the same bits.
#ifndef COLONNADE_CPU_CLONES_H_
#define COLONNADE_CPU_CLONES_H_

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__SANITIZE_ADDRESS__)
#define COLONNADE_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define COLONNADE_VECTOR_CLONES  // sanitizers do not know the functions that choose
#endif

// Make what such loops call part of each of these copies.
#define COLONNADE_INLINE [[gnu::always_inline]] inline
#define COLONNADE_INLINE_LAMBDA __attribute__((always_inline))

#endif  // COLONNADE_CPU_CLONES_H_
