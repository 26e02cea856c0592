// A disk that remembers each call, and what would be left of it if power were lost after any of them.
#ifndef COLONNADE_TESTS_ENGINE_DISK_H_
#define COLONNADE_TESTS_ENGINE_DISK_H_

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/io/file_calls.h"

namespace colonnade::engine {

// What a loss of power leaves of what was not synced: nothing of it; names but not the bytes behind them; all of it, as
// where the process alone is killed.
enum class Unsynced { kLost, kNamesStay, kStays };

class Disk : public FileCalls {
 public:
  explicit Disk(std::string root) : root_(std::move(root)) {}

  // Fails the call of this number, counted from 0, and all after it, as a full disk does.
  int64_t fails_from = INT64_MAX;
  int64_t calls() const { return static_cast<int64_t>(log_.size()); }

  int Open(const char* path, int flags, mode_t mode) const override {
    if (Fails({.kind = (flags & O_CREAT) != 0 ? Kind::kCreate : Kind::kOther, .path = path})) return -1;
    const int file = FileCalls::Open(path, flags, mode);
    if (file >= 0) names_[file] = path;
    return file;
  }
  ssize_t Write(int file, const void* bytes, size_t count) const override {
    if (Fails({Kind::kWrite, names_[file], "", {static_cast<const char*>(bytes), count}})) return -1;
    return FileCalls::Write(file, bytes, count);
  }
  int Fsync(int file) const override { return Fails({Kind::kFsync, names_[file]}) ? -1 : FileCalls::Fsync(file); }
  int Mkdir(const char* path, mode_t mode) const override {
    if (Fails({Kind::kCreate, path, "folder"})) return -1;
    const int result = FileCalls::Mkdir(path, mode);
    if (result != 0) log_.back().kind = Kind::kOther;  // it was there
    return result;
  }
  int Unlink(const char* path) const override {
    if (Fails({Kind::kUnlink, path})) return -1;
    const int result = FileCalls::Unlink(path);
    if (result != 0) log_.back().kind = Kind::kOther;
    return result;
  }
  int Rename(const char* from, const char* to) const override {
    return Fails({Kind::kRename, from, to}) ? -1 : FileCalls::Rename(from, to);
  }

  // Makes `folder` what the root would be after the first `count` calls and a loss of power.
  void Replay(int64_t count, Unsynced unsynced, const std::string& folder) const {
    std::map<std::string, Entry> now, durable;  // by path: what programs see, what the disk has
    for (int64_t i = 0; i < count; ++i) Apply(log_[i], now, durable);
    std::map<std::string, Entry> left = unsynced == Unsynced::kLost ? durable : now;
    for (auto& [path, entry] : left) {
      if (unsynced != Unsynced::kStays) entry.bytes = entry.synced;
    }
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    for (const auto& [path, entry] : left) {  // folders come before what is in them
      const std::filesystem::path to = folder + path.substr(root_.size());
      if (!std::filesystem::exists(to.parent_path())) continue;  // its folder's name was lost
      if (entry.is_folder) {
        std::filesystem::create_directory(to);
      } else {
        std::ofstream(to, std::ios::binary) << entry.bytes;
      }
    }
  }

 private:
  enum class Kind { kCreate, kWrite, kFsync, kRename, kUnlink, kOther };
  struct Call {
    Kind kind = Kind::kOther;
    std::string path, to, bytes;
  };
  struct Entry {
    bool is_folder = false;
    std::string bytes, synced;
  };

  bool Fails(Call call) const {
    log_.push_back(std::move(call));
    if (calls() <= fails_from) return false;
    log_.back().kind = Kind::kOther;
    errno = ENOSPC;
    return true;
  }

  static void Apply(const Call& call, std::map<std::string, Entry>& now, std::map<std::string, Entry>& durable) {
    switch (call.kind) {
      case Kind::kCreate:
        now[call.path] = {.is_folder = call.to == "folder"};
        break;
      case Kind::kWrite:
        now[call.path].bytes += call.bytes;
        break;
      case Kind::kRename:
        now[call.to] = now[call.path];
        now.erase(call.path);
        break;
      case Kind::kUnlink:
        now.erase(call.path);
        break;
      case Kind::kFsync:
        Sync(call.path, now, durable);
        break;
      case Kind::kOther:
        break;
    }
  }
  // Of a file its bytes, under whatever name the disk knows it; of a folder the names in it.
  static void Sync(const std::string& path, std::map<std::string, Entry>& now, std::map<std::string, Entry>& durable) {
    const auto file = now.find(path);
    if (file != now.end() && !file->second.is_folder) {
      file->second.synced = file->second.bytes;
      if (durable.contains(path)) durable[path].synced = file->second.bytes;
      return;
    }
    const auto is_in = [&path](const std::string& name) { return name.substr(0, name.rfind('/')) == path; };
    std::erase_if(durable, [&](const auto& entry) { return is_in(entry.first) && !now.contains(entry.first); });
    for (const auto& [name, entry] : now) {
      if (is_in(name)) durable[name] = entry;
    }
  }

  const std::string root_;
  mutable std::vector<Call> log_;
  mutable std::map<int, std::string> names_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_DISK_H_
