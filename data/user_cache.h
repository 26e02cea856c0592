// Where what can be made again is kept between runs: listings of images, the profile of this machine.
#ifndef COLONNADE_DATA_USER_CACHE_H_
#define COLONNADE_DATA_USER_CACHE_H_

#include <string>

namespace colonnade::data {

// Returns $XDG_CACHE_HOME/colonnade or ~/.cache/colonnade; "" where neither variable holds an absolute path.
std::string UserCacheFolder();

}  // namespace colonnade::data

#endif  // COLONNADE_DATA_USER_CACHE_H_
