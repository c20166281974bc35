// FarmHash's 64-bit fingerprint (farmhashna::Hash64) of fingerprint.pb and of StringToHashBucketFast, stable for all
// time.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::io {

std::uint64_t fingerprint64(std::string_view text);
// FingerprintCat64: the fingerprint of a sequence of fingerprints.
std::uint64_t fingerprint_cat(std::uint64_t a, std::uint64_t b);

}  // namespace lockstep::io
