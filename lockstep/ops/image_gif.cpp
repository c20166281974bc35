// GIF images: the frames of an animation, composed as TensorFlow does. Layout: GIF89a.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/image_files_internal.h"
#include "lockstep/ops/memory_limit_internal.h"

namespace lockstep::ops {
namespace {

[[noreturn]] void throw_invalid(std::string_view why) {
  throw_invalid_argument(fmt::format("invalid GIF image: {}", why));
}

class Bytes {
 public:
  explicit Bytes(std::string_view rest) : rest_(rest) {}
  std::string_view take(std::size_t count) {
    if (count > rest_.size()) throw_invalid("the file ends within the image");
    const std::string_view part = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return part;
  }
  int byte() { return static_cast<std::uint8_t>(take(1)[0]); }
  int word() {
    const int low = byte();
    return low | byte() << 8;
  }
  bool empty() const { return rest_.empty(); }
  // The data of sub-blocks up to the empty one.
  std::string sub_blocks() {
    std::string data;
    while (const int size = byte()) data += take(static_cast<std::size_t>(size));
    return data;
  }

 private:
  std::string_view rest_;
};

struct ColorMap {
  std::string_view colors;  // 3 bytes each
  int size() const { return static_cast<int>(colors.size() / 3); }
};

// Variable-width LZW codes, from the lowest bit on.
std::vector<std::uint8_t> decompress(const std::string& data, int first_width, std::size_t pixels) {
  if (first_width < 2 || first_width > 8) throw_invalid(fmt::format("codes of {} bits", first_width));
  constexpr int kMost = 4096;
  std::array<std::uint16_t, kMost> prefix{};
  std::array<std::uint8_t, kMost> suffix{}, stack{};
  const int clear = 1 << first_width, end = clear + 1;
  int width = first_width + 1, next = clear + 2, previous = -1;
  std::uint8_t first = 0;
  std::vector<std::uint8_t> out;
  out.reserve(pixels);
  std::size_t position = 0;
  std::uint32_t buffer = 0;
  int bits = 0;
  while (out.size() < pixels) {
    while (bits < width) {
      if (position == data.size()) throw_invalid("the file ends within the image");
      buffer |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(data[position++])) << bits;
      bits += 8;
    }
    int code = static_cast<int>(buffer & ((1U << width) - 1));
    buffer >>= width;
    bits -= width;
    if (code == clear) {
      width = first_width + 1, next = clear + 2, previous = -1;
      continue;
    }
    if (code == end) throw_invalid(fmt::format("{} of {} pixels", out.size(), pixels));
    const int given = code;
    std::size_t depth = 0;
    if (code >= next) {
      if (code != next || previous < 0) throw_invalid("a code that was not defined");
      stack[depth++] = first;
      code = previous;
    }
    while (code >= clear) {
      if (depth == stack.size()) throw_invalid("a code that was not defined");
      stack[depth++] = suffix[static_cast<std::size_t>(code)];
      code = prefix[static_cast<std::size_t>(code)];
    }
    first = static_cast<std::uint8_t>(code);
    out.push_back(first);
    while (depth > 0 && out.size() < pixels) out.push_back(stack[--depth]);
    if (previous >= 0 && next < kMost) {
      prefix[static_cast<std::size_t>(next)] = static_cast<std::uint16_t>(previous);
      suffix[static_cast<std::size_t>(next)] = first;
      ++next;
      if (next == 1 << width && width < 12) ++width;
    }
    previous = given;
  }
  return out;
}

// The row of an interlaced image that is the number `i` in the file.
std::vector<int> interlaced_rows(int height) {
  std::vector<int> rows;
  for (const auto& [start, step] : {std::pair{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
    for (int y = start; y < height; y += step) rows.push_back(y);
  }
  return rows;
}

struct Frame {
  int left = 0, top = 0, width = 0, height = 0, transparent = -1;
  ColorMap colors;
  std::vector<std::uint8_t> indices;  // rows from the top
};

class Gif {
 public:
  Gif(std::string_view bytes, bool all_frames) : bytes_(bytes), all_(all_frames) {}

  // The canvas is as large as the largest frame, as TensorFlow has it, whatever the file says.
  DecodedImage read() {
    read_frames();
    DecodedImage image;
    image.channels = 3;
    for (const Frame& frame : frames_) {
      image.height = std::max<std::int64_t>(image.height, frame.height);
      image.width = std::max<std::int64_t>(image.width, frame.width);
    }
    image.frames = static_cast<std::int64_t>(frames_.size());
    if (image.height == 0 || image.width == 0) throw_invalid("it has no pixels");
    const std::int64_t size = image.height * image.width * 3;
    MemoryLimit::check(image.frames * size, 1);
    image.bytes.resize(static_cast<std::size_t>(image.frames * size));
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      std::uint8_t* const pixels = image.bytes.data() + static_cast<std::int64_t>(i) * size;
      // What the frame does not cover, and its transparent pixels, are those of the frame before.
      if (i > 0) std::copy_n(pixels - size, size, pixels);
      draw(frames_[i], image, pixels);
    }
    return image;
  }

 private:
  ColorMap color_map(int flags) { return {bytes_.take(static_cast<std::size_t>(3 << ((flags & 7) + 1)))}; }

  void read_frames() {
    if (!bytes_.take(6).starts_with("GIF8")) throw_invalid("it does not begin with GIF8");
    bytes_.take(4);
    const int flags = bytes_.byte();
    bytes_.take(2);
    if ((flags & 0x80) != 0) global_ = color_map(flags);
    while (!bytes_.empty() && (all_ || frames_.empty())) {
      const int block = bytes_.byte();
      if (block == 0x3b) break;
      if (block == 0x21) {
        read_extension();
      } else if (block == 0x2c) {
        read_frame();
      } else {
        throw_invalid(fmt::format("an unknown block {}", block));
      }
    }
    if (frames_.empty()) throw_invalid("it has no frames");
  }

  void read_extension() {
    const int label = bytes_.byte();
    const std::string data = bytes_.sub_blocks();
    if (label == 0xf9 && data.size() >= 4) transparent_ = (data[0] & 1) != 0 ? static_cast<std::uint8_t>(data[3]) : -1;
  }

  void read_frame() {
    Frame frame;
    frame.left = bytes_.word(), frame.top = bytes_.word(), frame.width = bytes_.word(), frame.height = bytes_.word();
    const int flags = bytes_.byte();
    frame.colors = (flags & 0x80) != 0 ? color_map(flags) : global_;
    if (frame.colors.size() == 0) throw_invalid("it has no colors");
    frame.transparent = std::exchange(transparent_, -1);
    const int code_width = bytes_.byte();
    const std::string data = bytes_.sub_blocks();
    const auto width = static_cast<std::size_t>(frame.width);
    const std::size_t pixels = width * static_cast<std::size_t>(frame.height);
    total_ += static_cast<std::int64_t>(pixels);
    MemoryLimit::check(total_, 1);
    frame.indices = decompress(data, code_width, pixels);
    if ((flags & 0x40) != 0) {
      const std::vector<int> rows = interlaced_rows(frame.height);
      std::vector<std::uint8_t> ordered(pixels);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::copy_n(frame.indices.begin() + static_cast<std::ptrdiff_t>(i * width), width,
                    ordered.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows[i]) * width));
      }
      frame.indices = std::move(ordered);
    }
    frames_.push_back(std::move(frame));
  }

  static void draw(const Frame& frame, const DecodedImage& image, std::uint8_t* pixels) {
    for (int i = 0; i < frame.height && frame.top + i < image.height; ++i) {
      const std::uint8_t* from =
          frame.indices.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(frame.width);
      std::uint8_t* to = pixels + ((frame.top + i) * image.width + frame.left) * 3;
      for (int j = 0; j < frame.width && frame.left + j < image.width; ++j, to += 3) {
        if (from[j] == frame.transparent) continue;
        if (from[j] >= frame.colors.size()) throw_invalid(fmt::format("color {} of {}", from[j], frame.colors.size()));
        std::copy_n(frame.colors.colors.begin() + from[j] * 3, 3, to);
      }
    }
  }

  Bytes bytes_;
  const bool all_;
  ColorMap global_;
  int transparent_ = -1;
  std::int64_t total_ = 0;
  std::vector<Frame> frames_;
};

}  // namespace

DecodedImage decode_gif(std::string_view bytes, bool all_frames) { return Gif(bytes, all_frames).read(); }

}  // namespace lockstep::ops
