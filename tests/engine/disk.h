// A disk that remembers each call, and what would be left of it if power were lost after any of them.
#ifndef COLONNADE_TESTS_ENGINE_DISK_H_
#define COLONNADE_TESTS_ENGINE_DISK_H_

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/file_calls.h"

namespace colonnade::engine {

// What a loss of power leaves of what was not synced: nothing of it; names, each or not, but not the bytes behind them; all
// of it, as where the process alone is killed.
enum class Unsynced { kLost, kSomeNamesStay, kStays };

class Disk : public base::FileCalls {
 public:
  explicit Disk(std::string root) : root_(std::move(root)) {}

  // Fails the call of this number, counted from 0, and all after it, as a full disk does.
  int64_t fails_from = INT64_MAX;
  int64_t calls() const { return static_cast<int64_t>(log_.size()); }

  int Open(const char* path, int flags, mode_t mode) const override {
    if (Fails({.kind = (flags & O_CREAT) != 0 ? Kind::kCreate : Kind::kOther, .path = path})) return -1;
    const int file = Done(FileCalls::Open(path, flags, mode));
    if (file >= 0) names_[file] = path;
    return file;
  }
  ssize_t Write(int file, const void* bytes, size_t count) const override {
    if (Fails({Kind::kWrite, names_[file], "", {static_cast<const char*>(bytes), count}})) return -1;
    return FileCalls::Write(file, bytes, count);
  }
  int Fsync(int file) const override { return Fails({Kind::kFsync, names_[file]}) ? -1 : FileCalls::Fsync(file); }
  int Mkdir(const char* path, mode_t mode) const override {
    return Fails({Kind::kMkdir, path}) ? -1 : Done(FileCalls::Mkdir(path, mode));
  }
  int Rmdir(const char* path) const override { return Fails({Kind::kRemove, path}) ? -1 : Done(FileCalls::Rmdir(path)); }
  int Unlink(const char* path) const override { return Fails({Kind::kRemove, path}) ? -1 : Done(FileCalls::Unlink(path)); }
  int Rename(const char* from, const char* to) const override {
    return Fails({Kind::kRename, from, to}) ? -1 : Done(FileCalls::Rename(from, to));
  }

  // Makes `folder` what the root would be after the first `count` calls and a loss of power.
  void Replay(int64_t count, Unsynced unsynced, const std::string& folder) const {
    State state;
    for (int64_t i = 0; i < count; ++i) state.Apply(log_[i]);
    const Names left = unsynced == Unsynced::kStays ? state.now : state.Left(unsynced, static_cast<uint32_t>(count));
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    for (const auto& [path, inode] : left) {  // folders come before what is in them
      const std::filesystem::path to = folder + path.substr(root_.size());
      if (!std::filesystem::exists(to.parent_path())) continue;  // its folder's name was lost
      if (inode->is_folder) {
        std::filesystem::create_directory(to);
      } else {
        std::ofstream(to, std::ios::binary) << (unsynced == Unsynced::kStays ? inode->bytes : inode->synced);
      }
    }
  }

 private:
  enum class Kind { kCreate, kMkdir, kWrite, kFsync, kRename, kRemove, kOther };
  struct Call {
    Kind kind = Kind::kOther;
    std::string path, to, bytes;
  };
  struct Inode {
    bool is_folder = false;
    std::string bytes, synced;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  struct State {
    struct Change {  // of a name; a null inode: it is removed
      std::string folder, name;
      std::shared_ptr<Inode> inode;
    };
    Names now, durable;           // what programs see; what is on the disk for good
    std::vector<Change> pending;  // what a sync of their folders will put there

    void Set(const std::string& name, std::shared_ptr<Inode> inode) {
      Put(now, name, inode);
      pending.push_back({name.substr(0, name.rfind('/')), name, std::move(inode)});
    }
    static void Put(Names& names, const std::string& name, const std::shared_ptr<Inode>& inode) {
      if (inode == nullptr) names.erase(name);
      if (inode != nullptr) names[name] = inode;
    }
    void Apply(const Call& call) {
      switch (call.kind) {
        case Kind::kCreate:
        case Kind::kMkdir:
          return Set(call.path, std::make_shared<Inode>(Inode{.is_folder = call.kind == Kind::kMkdir}));
        case Kind::kWrite:
          now[call.path]->bytes += call.bytes;
          return;
        case Kind::kRename: {
          const std::shared_ptr<Inode> inode = now[call.path];
          Set(call.to, inode);
          return Set(call.path, nullptr);
        }
        case Kind::kRemove:
          return Set(call.path, nullptr);
        case Kind::kFsync:
          return Sync(call.path);
        case Kind::kOther:
          return;
      }
    }
    void Sync(const std::string& path) {
      const auto file = now.find(path);
      if (file != now.end() && !file->second->is_folder) {
        file->second->synced = file->second->bytes;
        return;
      }
      for (const Change& change : pending) {
        if (change.folder == path) Put(durable, change.name, change.inode);
      }
      std::erase_if(pending, [&](const Change& change) { return change.folder == path; });
    }
    Names Left(Unsynced unsynced, uint32_t seed) const {
      Names left = durable;
      std::mt19937 random(seed);
      for (const Change& change : pending) {
        if (unsynced == Unsynced::kSomeNamesStay && random() % 2 == 0) Put(left, change.name, change.inode);
      }
      return left;
    }
  };

  bool Fails(Call call) const {
    log_.push_back(std::move(call));
    if (calls() <= fails_from) return false;
    log_.back().kind = Kind::kOther;
    errno = ENOSPC;
    return true;
  }
  // A call that failed by itself changed nothing.
  int Done(int result) const {
    if (result < 0) log_.back().kind = Kind::kOther;
    return result;
  }

  const std::string root_;
  mutable std::vector<Call> log_;
  mutable std::map<int, std::string> names_;
};

}  // namespace colonnade::engine

#endif  // COLONNADE_TESTS_ENGINE_DISK_H_
