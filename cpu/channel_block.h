// How many channels lie side by side in images that lie in blocks. It is apart from view.h so that sources that are compiled
// for one instruction set may include it.
#ifndef COLONNADE_CPU_CHANNEL_BLOCK_H_
#define COLONNADE_CPU_CHANNEL_BLOCK_H_

#include <cstdint>

namespace colonnade::cpu {

inline constexpr std::int64_t kChannelBlock = 16;

}  // namespace colonnade::cpu

#endif  // COLONNADE_CPU_CHANNEL_BLOCK_H_
