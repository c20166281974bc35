#include <zlib.h>

#include <algorithm>
#include <climits>

#include "lockstep/base/error.h"
#include "lockstep/io/deflate_internal.h"

namespace lockstep::io {

struct Deflater::Stream {
  z_stream z{};
  ~Stream() { deflateEnd(&z); }
};

Deflater::Deflater(Deflate kind, int level) : stream_(std::make_unique<Stream>()) {
  if (deflateInit2(&stream_->z, level, Z_DEFLATED, zlib_window_bits(kind), 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw_resource_exhausted("no memory to compress");
}
Deflater::Deflater(Deflater&&) noexcept = default;
Deflater::~Deflater() = default;

std::string Deflater::compressed(std::string_view bytes) {
  std::string all;
  for (; bytes.size() > INT_MAX; bytes.remove_prefix(INT_MAX)) all += run(bytes.substr(0, INT_MAX), Z_NO_FLUSH);
  return all + run(bytes, Z_NO_FLUSH);
}

std::string Deflater::end() { return run({}, Z_FINISH); }

std::string Deflater::run(std::string_view bytes, int flush) {
  z_stream& z = stream_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  std::string all, part(std::size_t{1} << 16, '\0');
  do {
    z.next_out = reinterpret_cast<Bytef*>(part.data());
    z.avail_out = static_cast<uInt>(part.size());
    deflate(&z, flush);
    all.append(part, 0, part.size() - z.avail_out);
  } while (z.avail_out == 0);
  return all;
}

}  // namespace lockstep::io
