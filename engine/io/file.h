// What programs need of base/file.h, under the names that engine/ and those above it use.
#ifndef COLONNADE_ENGINE_FILE_H_
#define COLONNADE_ENGINE_FILE_H_

#include "base/file.h"

namespace colonnade::engine {

using base::Append;
using base::BehindLinks;
using base::CheckWritable;
using base::FileCalls;
using base::IsTemporaryFor;
using base::Lock;
using base::MakeFolder;
using base::MakeFolders;
using base::NoLockNote;
using base::OpenToRead;
using base::ReadFile;
using base::ReplaceFile;
using base::SyncFolder;
using base::SystemError;
using base::TryToLock;

}  // namespace colonnade::engine

#endif  // COLONNADE_ENGINE_FILE_H_
