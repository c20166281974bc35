#include "lockstep/io/inflate_internal.h"

#include <zlib.h>

#include <algorithm>
#include <climits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/budget_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::io {

int zlib_window_bits(Deflate kind) {
  switch (kind) {
    case Deflate::kRaw: return -MAX_WBITS;
    case Deflate::kZlib: return MAX_WBITS;
    case Deflate::kGzip: return MAX_WBITS + 16;
  }
  return MAX_WBITS;
}

namespace {

class Inflater {
 public:
  Inflater(Deflate kind, std::string_view what) {
    if (inflateInit2(&stream_, zlib_window_bits(kind)) != Z_OK)
      throw_resource_exhausted(fmt::format("{}: no memory to decompress", what));
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Advances both spans. Z_OK while the stream continues, Z_STREAM_END at its end, any other value for damage.
  int step(std::span<const std::byte>& in, std::span<std::byte>& out) {
    const auto available = std::min<std::size_t>(in.size(), UINT_MAX);
    const auto room = std::min<std::size_t>(out.size(), UINT_MAX);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(available);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int status = ::inflate(&stream_, Z_NO_FLUSH);
    in = in.subspan(available - stream_.avail_in);
    out = out.subspan(room - stream_.avail_out);
    return status;
  }
  void restart() { inflateReset(&stream_); }
  const char* problem() const { return stream_.msg != nullptr ? stream_.msg : "damaged data"; }

 private:
  z_stream stream_{};
};

}  // namespace

std::optional<Inflated> inflate_into(std::span<std::byte> target, std::span<const std::byte> stored, Deflate kind,
                                     std::string_view what) {
  Inflater inflater(kind, what);
  auto in = stored;
  auto out = target;
  std::byte beyond{};
  for (;;) {
    // A full target still needs room for zlib to find the end of the stream; a byte that lands there is one too many.
    std::span<std::byte> rest = out.empty() ? std::span(&beyond, 1) : out;
    const std::size_t room = rest.size();
    const std::size_t left = in.size();
    const int status = inflater.step(in, rest);
    if (out.empty() && rest.empty()) return std::nullopt;
    if (status == Z_STREAM_END) {
      return Inflated{target.size() - (out.empty() ? 0 : rest.size()), stored.size() - in.size()};
    }
    if (status != Z_OK || (rest.size() == room && in.size() == left)) return std::nullopt;
    if (!out.empty()) out = rest;
  }
}

bool looks_like_gzip(std::span<const std::byte> bytes) { return as_text(bytes).starts_with("\x1f\x8b"); }

std::span<const std::byte> inflate_head(std::span<std::byte> target, std::span<const std::byte> stored, Deflate kind,
                                        std::string_view what) {
  Inflater inflater(kind, what);
  auto out = target;
  while (!out.empty() && !stored.empty() && inflater.step(stored, out) == Z_OK) {
  }
  return target.first(target.size() - out.size());
}

std::string inflate_file(std::span<const std::byte> stored, Deflate kind, std::string_view what) {
  constexpr std::size_t kBlock = std::size_t{256} << 10;
  const std::uint64_t limit = most_expanded(stored.size());
  Inflater inflater(kind, what);
  std::string text;
  std::string block(kBlock, '\0');
  auto in = stored;
  while (!in.empty()) {
    for (int status = Z_OK; status != Z_STREAM_END;) {
      std::span<std::byte> out(reinterpret_cast<std::byte*>(block.data()), block.size());
      const std::size_t before = in.size();
      status = inflater.step(in, out);
      const std::size_t size = block.size() - out.size();
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
        throw_data_loss(fmt::format("{}: damaged compressed data near byte {}: {}", what, stored.size() - in.size(),
                                    inflater.problem()));
      }
      if (status != Z_STREAM_END && size == 0 && in.size() == before) {
        throw_data_loss(
            fmt::format("{}: the file ends within its compressed data, after {} bytes", what, stored.size()));
      }
      if (size > limit - text.size()) {
        throw_resource_exhausted(
            fmt::format("{}: its {} bytes expand to more than {}, which is rejected as a decompression bomb", what,
                        stored.size(), limit));
      }
      text.append(block, 0, size);
    }
    inflater.restart();
  }
  return text;
}

}  // namespace lockstep::io
