// Deflate streams of files that are not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::io {

enum class Deflate { kRaw, kZlib, kGzip };
// As zlib takes it.
int zlib_window_bits(Deflate kind);

struct Inflated {
  std::size_t size = 0;      // bytes in the target
  std::size_t consumed = 0;  // bytes of the stream; later bytes were not read
};

// Decompresses one whole stream into `target`. Empty where the stream is damaged, cut short, or longer than the target.
// Throws ResourceExhausted, naming `what`, without memory.
std::optional<Inflated> inflate_into(std::span<std::byte> target, std::span<const std::byte> stored, Deflate kind,
                                     std::string_view what);

bool looks_like_gzip(std::span<const std::byte> bytes);

// The first bytes that a stream expands to: a prefix of `target`, up to the end or the damage of the stream. Throws as
// inflate_into does.
std::span<const std::byte> inflate_head(std::span<std::byte> target, std::span<const std::byte> stored, Deflate kind,
                                        std::string_view what);

// A compressed file: its streams, one after the other, to its end. Throws DataLoss, naming `what`, for a damaged or
// truncated one, and ResourceExhausted where it expands beyond most_expanded() of its size.
std::string inflate_file(std::span<const std::byte> stored, Deflate kind, std::string_view what);

}  // namespace lockstep::io
