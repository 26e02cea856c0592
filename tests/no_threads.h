// A system that starts no thread for this process, as one whose memory or number of threads is spent.
#ifndef COLONNADE_TESTS_NO_THREADS_H_
#define COLONNADE_TESTS_NO_THREADS_H_

#include <pthread.h>

#include <cstddef>

namespace colonnade {

// While it lives, a thread would have a stack for which there is no room in the address space.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    ::pthread_attr_setstacksize(&huge, size_t{1} << 50);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace colonnade

#endif  // COLONNADE_TESTS_NO_THREADS_H_
