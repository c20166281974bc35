// Writing of deflate streams.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lockstep/io/inflate_internal.h"

namespace lockstep::io {

// Compresses one stream in parts: what compressed() and end() return, one after the other, is the stream.
class Deflater {
 public:
  // The level is zlib's: 0 to 9, or -1 for its default. Throws ResourceExhausted without memory.
  Deflater(Deflate kind, int level);
  Deflater(Deflater&&) noexcept;
  ~Deflater();

  std::string compressed(std::string_view bytes);
  std::string end();

 private:
  std::string run(std::string_view bytes, int flush);

  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace lockstep::io
