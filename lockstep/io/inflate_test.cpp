#include "lockstep/io/inflate_internal.h"

#include <zlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/memory_file_system_internal.h"
#include "lockstep/io/zip.h"

namespace lockstep::io {
namespace {

std::string deflated(const std::string& text, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::optional<Inflated> inflate_to(std::size_t size, const std::string& stored, std::string& text) {
  text.assign(size, '?');
  return inflate_into({reinterpret_cast<std::byte*>(text.data()), size}, as_bytes(stored), Deflate::kRaw, "test");
}

TEST(Inflate, OneStream) {
  const std::string plain = "one two one two one two one two";
  const std::string stored = deflated(plain, -MAX_WBITS);
  std::string text;
  const auto whole = inflate_to(plain.size(), stored + "more", text);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->size, plain.size());
  EXPECT_EQ(whole->consumed, stored.size());
  EXPECT_EQ(text, plain);
  const auto roomy = inflate_to(plain.size() + 5, stored, text);
  ASSERT_TRUE(roomy);
  EXPECT_EQ(roomy->size, plain.size());
  EXPECT_FALSE(inflate_to(plain.size() - 1, stored, text));
  for (std::size_t cut = 0; cut < stored.size(); ++cut) {
    EXPECT_FALSE(inflate_to(plain.size(), stored.substr(0, cut), text)) << cut;
  }
  EXPECT_FALSE(inflate_to(plain.size(), std::string(20, '\xff'), text));
  const auto empty = inflate_to(0, deflated("", -MAX_WBITS), text);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->size, 0u);
}

TEST(Inflate, FilesOfSeveralStreams) {
  const std::string long_text(std::size_t{1} << 20, 'x');
  const std::string stored = deflated("one", MAX_WBITS + 16) + deflated(long_text, MAX_WBITS + 16);
  EXPECT_EQ(inflate_file(as_bytes(stored), Deflate::kGzip, "a.gz"), "one" + long_text);
  EXPECT_EQ(inflate_file({}, Deflate::kGzip, "a.gz"), "");
  const std::size_t first = deflated("one", MAX_WBITS + 16).size();
  for (std::size_t cut = 1; cut < stored.size(); ++cut) {
    if (cut == first) continue;
    EXPECT_THROW(inflate_file(as_bytes(stored).first(cut), Deflate::kGzip, "a.gz"), Error) << cut;
  }
  EXPECT_THROW(inflate_file(as_bytes(stored + "garbage"), Deflate::kGzip, "a.gz"), Error);
}

TEST(Inflate, ABombIsRejected) {
  const std::string bomb = deflated(std::string((std::size_t{256} << 20) + 1, '\0'), MAX_WBITS);
  try {
    inflate_file(as_bytes(bomb), Deflate::kZlib, "bomb");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kResourceExhausted);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("bomb"));
  }
}

// An archive of members that each claim `size` bytes.
std::string archive(int members, std::uint32_t size) {
  std::string local;
  std::string directory;
  for (int i = 0; i < members; ++i) {
    const std::string name = "m" + std::to_string(i);
    const auto offset = static_cast<std::uint32_t>(local.size());
    const auto fields = [&](std::string& out) {
      for (const std::uint16_t field : {20, 0, 8, 0, 33}) append_le(out, static_cast<std::uint16_t>(field));
      append_le(out, std::uint32_t{0});
      append_le(out, std::uint32_t{4});
      append_le(out, size);
      append_le(out, static_cast<std::uint16_t>(name.size()));
      append_le(out, std::uint16_t{0});
    };
    append_le(local, std::uint32_t{0x04034b50});
    fields(local);
    local += name + "data";
    append_le(directory, std::uint32_t{0x02014b50});
    append_le(directory, std::uint16_t{20});
    fields(directory);
    directory.append(10, '\0');  // comment length, disk, attributes
    append_le(directory, offset);
    directory += name;
  }
  std::string out = local + directory;
  append_le(out, std::uint32_t{0x06054b50});
  append_le(out, std::uint32_t{0});
  for (int i = 0; i < 2; ++i) append_le(out, static_cast<std::uint16_t>(members));
  append_le(out, static_cast<std::uint32_t>(directory.size()));
  append_le(out, static_cast<std::uint32_t>(local.size()));
  append_le(out, std::uint16_t{0});
  return out;
}

TEST(Inflate, AnArchiveIsBoundedAsAWhole) {
  MemoryFileSystem files;
  files.put("small.zip", archive(3, 80u << 20));
  EXPECT_EQ(ZipReader("small.zip", files).members().size(), 3u);
  files.put("bomb.zip", archive(4, 80u << 20));
  try {
    ZipReader("bomb.zip", files);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kResourceExhausted) << error.message();
  }
}

}  // namespace
}  // namespace lockstep::io
