// FarmHash Fingerprint64: the hash of StringToHashBucketFast, stable for all time.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::ops {

std::uint64_t farmhash_fingerprint64(std::string_view text);

}  // namespace lockstep::ops
