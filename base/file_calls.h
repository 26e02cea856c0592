// The system calls that files and folders are made and replaced with: tests record them, and let them fail.
#ifndef COLONNADE_BASE_FILE_CALLS_H_
#define COLONNADE_BASE_FILE_CALLS_H_

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace colonnade::base {

// Each method returns what the call of its name returns, and sets errno as it does.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int Open(const char* path, int flags, mode_t mode) const { return ::open(path, flags, mode); }
  virtual ssize_t Write(int file, const void* bytes, size_t count) const { return ::write(file, bytes, count); }
  virtual int Fsync(int file) const { return ::fsync(file); }
  virtual int Fchown(int file, uid_t owner, gid_t group) const { return ::fchown(file, owner, group); }
  virtual int Flock(int file, int operation) const { return ::flock(file, operation); }
  virtual int Mkdir(const char* path, mode_t mode) const { return ::mkdir(path, mode); }
  virtual int Rmdir(const char* path) const { return ::rmdir(path); }
  virtual int Unlink(const char* path) const { return ::unlink(path); }
  virtual int Rename(const char* from, const char* to) const { return ::rename(from, to); }
};

}  // namespace colonnade::base

#endif  // COLONNADE_BASE_FILE_CALLS_H_
