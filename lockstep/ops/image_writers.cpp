// Images as files: JPEG and PNG, with the settings of TensorFlow's kernels.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/image_files_internal.h"

namespace lockstep::ops {
namespace {

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf caller;
  char message[JMSG_LENGTH_MAX];
};
[[noreturn]] void on_error(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->caller, 1);
}

// An encoder into memory that the library allocates.
class JpegWriter {
 public:
  JpegWriter(const ImageView& image, const JpegWriteOptions& options) : image_(image), options_(options) {
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    run([](JpegWriter& writer) { writer.write(); });
  }
  ~JpegWriter() {
    jpeg_destroy_compress(&info_);
    std::free(bytes_);
  }
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;

  std::string bytes() const { return {reinterpret_cast<const char*>(bytes_), static_cast<std::size_t>(size_)}; }

 private:
  // `step` has no objects with destructors, which a jump would leave out.
  void run(void (*step)(JpegWriter&)) {
    if (setjmp(errors_.caller) != 0) {
      throw_invalid_argument(fmt::format("EncodeJpeg: {}", static_cast<const char*>(errors_.message)));
    }
    step(*this);
  }

  void write() {
    jpeg_create_compress(&info_);
    jpeg_mem_dest(&info_, &bytes_, &size_);
    info_.image_width = static_cast<JDIMENSION>(image_.width);
    info_.image_height = static_cast<JDIMENSION>(image_.height);
    info_.input_components = static_cast<int>(image_.channels);
    info_.in_color_space = image_.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    if (options_.optimize_size) info_.optimize_coding = TRUE;
    info_.density_unit = options_.density_in_inches ? 1 : 2;
    info_.X_density = static_cast<UINT16>(options_.x_density);
    info_.Y_density = static_cast<UINT16>(options_.y_density);
    jpeg_set_quality(&info_, options_.quality, TRUE);
    if (options_.progressive) jpeg_simple_progression(&info_);
    if (!options_.chroma_downsampling) {
      for (int i = 0; i < info_.num_components; ++i) {
        info_.comp_info[i].h_samp_factor = 1;
        info_.comp_info[i].v_samp_factor = 1;
      }
    }
    jpeg_start_compress(&info_, TRUE);
    if (!options_.xmp_metadata.empty()) {
      static constexpr char kMark[] = "http://ns.adobe.com/xap/1.0/";  // with its final zero
      const std::size_t size = sizeof(kMark) + options_.xmp_metadata.size();
      jpeg_write_m_header(&info_, JPEG_APP0 + 1, static_cast<unsigned>(size));
      for (const char c : kMark) jpeg_write_m_byte(&info_, static_cast<unsigned char>(c));
      for (const char c : options_.xmp_metadata) jpeg_write_m_byte(&info_, static_cast<unsigned char>(c));
    }
    const std::int64_t stride = image_.width * image_.channels;
    while (info_.next_scanline < info_.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(static_cast<const JSAMPLE*>(image_.data) + info_.next_scanline * stride);
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
  }

  const ImageView& image_;
  const JpegWriteOptions& options_;
  jpeg_compress_struct info_{};
  JpegErrors errors_{};
  unsigned char* bytes_ = nullptr;
  unsigned long size_ = 0;
};

struct PngTarget {
  std::string bytes;
  char message[256];
};
[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  std::snprintf(static_cast<PngTarget*>(png_get_error_ptr(png))->message, sizeof(PngTarget::message), "%s", message);
  png_longjmp(png, 1);
}
void on_png_warning(png_structp, png_const_charp) {}
void append_bytes(png_structp png, png_bytep from, std::size_t count) {
  static_cast<PngTarget*>(png_get_io_ptr(png))->bytes.append(reinterpret_cast<const char*>(from), count);
}
void flush_nothing(png_structp) {}

class PngWriter {
 public:
  PngWriter(const ImageView& image, int compression, PngTarget& target)
      : image_(image), compression_(compression), target_(target) {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, &target_, on_png_error, on_png_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) {
      png_destroy_write_struct(&png_, nullptr);
      throw_resource_exhausted("out of memory for a PNG image");
    }
  }
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;

  void run() {
    if (setjmp(png_jmpbuf(png_)) != 0) {
      throw_invalid_argument(fmt::format("EncodePng: {}", static_cast<const char*>(target_.message)));
    }
    write();
  }

 private:
  void write() {
    static constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                     PNG_COLOR_TYPE_RGB_ALPHA};
    png_set_write_fn(png_, &target_, append_bytes, flush_nothing);
    if (compression_ != -1) png_set_compression_level(png_, compression_);
    png_set_compression_mem_level(png_, 9);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(image_.width), static_cast<png_uint_32>(image_.height),
                 image_.wide ? 16 : 8, kTypes[image_.channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    if (image_.wide) png_set_swap(png_);  // from the order of this CPU
    const std::int64_t stride = image_.width * image_.channels * (image_.wide ? 2 : 1);
    for (std::int64_t y = 0; y < image_.height; ++y)
      png_write_row(png_, static_cast<const png_byte*>(image_.data) + y * stride);
    png_write_end(png_, nullptr);
  }

  const ImageView& image_;
  const int compression_;
  PngTarget& target_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

std::string encode_jpeg(const ImageView& image, const JpegWriteOptions& options) {
  return JpegWriter(image, options).bytes();
}

std::string encode_png(const ImageView& image, int compression) {
  PngTarget target;
  PngWriter(image, compression, target).run();
  return std::move(target.bytes);
}

}  // namespace lockstep::ops
