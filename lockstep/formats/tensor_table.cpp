#include "lockstep/formats/tensor_table_internal.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {
namespace {

// table    block* | metaindex block | index block | footer
// block    entry* | restart u32* | restart count u32        followed by the trailer
// entry    shared varint | unshared varint | value_len varint | key tail | value
// trailer  compression u8 | masked crc32c u32 of block and compression byte
// footer   metaindex handle | index handle | zeros to 40 | magic u64
// handle   offset varint | size varint (without the trailer)
constexpr std::uint64_t kMagic = 0xDB4775248B80FB57u;
constexpr std::size_t kFooterSize = 48;
constexpr std::size_t kTrailerSize = 5;
constexpr std::size_t kBlockSize = 262144;
constexpr int kRestartInterval = 16;
constexpr std::byte kRaw{0};
constexpr std::byte kSnappy{1};

using io::append_le;
using io::as_bytes;
using io::as_text;
using io::load_le;

struct Handle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::string encode(const Handle& handle) {
  std::string out;
  append_varint(out, handle.offset);
  append_varint(out, handle.size);
  return out;
}

std::optional<Handle> take_handle(std::span<const std::byte>& bytes) {
  const auto offset = take_varint(bytes);
  const auto size = offset ? take_varint(bytes) : std::nullopt;
  if (!size) return std::nullopt;
  return Handle{*offset, *size};
}

// The shortest key at or after `last` and before `next`, as LevelDB picks it.
std::string separator(const std::string& last, std::string_view next) {
  const std::size_t least = std::min(last.size(), next.size());
  std::size_t at = 0;
  while (at < least && last[at] == next[at]) ++at;
  if (at == least) return last;
  const auto byte = static_cast<unsigned char>(last[at]);
  if (byte == 0xFF || byte + 1 >= static_cast<unsigned char>(next[at])) return last;
  std::string result = last.substr(0, at + 1);
  result[at] = static_cast<char>(byte + 1);
  return result;
}

std::string successor(const std::string& last) {
  for (std::size_t at = 0; at < last.size(); ++at) {
    const auto byte = static_cast<unsigned char>(last[at]);
    if (byte == 0xFF) continue;
    std::string result = last.substr(0, at + 1);
    result[at] = static_cast<char>(byte + 1);
    return result;
  }
  return last;
}

// Undoes Snappy's raw format; empty when the bytes are not that.
std::optional<std::string> unsnappy(std::span<const std::byte> in) {
  const auto size = take_varint(in);
  // A copy of 64 bytes costs at least 3.
  if (!size || *size > 22 * static_cast<std::uint64_t>(in.size()) + 64) return std::nullopt;
  std::string out;
  out.reserve(*size);
  while (!in.empty()) {
    const auto tag = static_cast<unsigned>(in.front());
    in = in.subspan(1);
    const unsigned kind = tag & 3;
    if (kind == 0) {
      std::size_t length = tag >> 2;
      if (length >= 60) {
        const std::size_t extra = length - 59;
        if (in.size() < extra) return std::nullopt;
        length = 0;
        for (std::size_t i = 0; i < extra; ++i) length |= static_cast<std::size_t>(in[i]) << (8 * i);
        in = in.subspan(extra);
      }
      ++length;
      if (in.size() < length || out.size() + length > *size) return std::nullopt;
      out.append(as_text(in.first(length)));
      in = in.subspan(length);
      continue;
    }
    const std::size_t operand = kind == 1 ? 1 : kind == 2 ? 2 : 4;
    if (in.size() < operand) return std::nullopt;
    std::size_t offset = 0;
    for (std::size_t i = 0; i < operand; ++i) offset |= static_cast<std::size_t>(in[i]) << (8 * i);
    in = in.subspan(operand);
    std::size_t length = (tag >> 2) + 1;
    if (kind == 1) {
      offset |= static_cast<std::size_t>(tag >> 5) << 8;
      length = 4 + ((tag >> 2) & 7);
    }
    if (offset == 0 || offset > out.size() || out.size() + length > *size) return std::nullopt;
    for (std::size_t i = 0; i < length; ++i) out.push_back(out[out.size() - offset]);  // may overlap itself
  }
  if (out.size() != *size) return std::nullopt;
  return out;
}

class TableParser {
 public:
  TableParser(std::span<const std::byte> bytes, std::string_view what)
      : bytes_(bytes),
        what_(what),
        block_budget_(bytes.size()),
        key_budget_(8 * bytes.size() + (std::size_t{64} << 20)) {}

  std::vector<std::pair<std::string, std::string>> run() {
    if (bytes_.size() < kFooterSize) damaged(fmt::format("{} bytes are too few for a table", bytes_.size()));
    if (!looks_like_table(bytes_)) damaged("no table magic at the end (truncated, or bytes were appended?)");
    auto footer = bytes_.last(kFooterSize);
    const auto metaindex = take_handle(footer);
    const auto index = metaindex ? take_handle(footer) : std::nullopt;
    if (!index) damaged("a bad footer");
    for (const auto& [separator, encoded] : entries(*index)) {
      auto handle_bytes = as_bytes(encoded);
      const auto handle = take_handle(handle_bytes);
      if (!handle) damaged("a bad block handle");
      for (auto& entry : entries(*handle)) {
        if (!result_.empty() && result_.back().first >= entry.first) damaged("keys are not in order");
        result_.push_back(std::move(entry));
      }
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void damaged(const std::string& why) const { throw_data_loss(fmt::format("{}: {}", what_, why)); }

  std::string block(const Handle& handle) {
    if (handle.offset > bytes_.size() || handle.size > bytes_.size() - handle.offset ||
        bytes_.size() - handle.offset - handle.size < kTrailerSize) {
      damaged(fmt::format("a block (offset {}, {} bytes) is outside the file", handle.offset, handle.size));
    }
    if (handle.size + kTrailerSize > block_budget_) damaged("blocks overlap");
    block_budget_ -= handle.size + kTrailerSize;
    const auto stored = bytes_.subspan(handle.offset, handle.size + 1);
    const auto expected = io::unmask_crc(*load_le<std::uint32_t>(bytes_, handle.offset + handle.size + 1));
    if (!io::checksum_matches(expected, io::crc32c(stored)))
      damaged(fmt::format("block checksum mismatch at offset {}", handle.offset));
    const auto contents = stored.first(handle.size);
    if (stored.back() == kRaw) return std::string(as_text(contents));
    if (stored.back() != kSnappy) damaged("a block of unknown compression");
    auto plain = unsnappy(contents);
    if (!plain) damaged("corrupted compressed block contents");
    return *std::move(plain);
  }

  std::vector<std::pair<std::string, std::string>> entries(const Handle& handle) {
    const std::string contents = block(handle);
    auto rest = as_bytes(contents);
    const auto restarts = load_le<std::uint32_t>(rest, rest.size() - std::min<std::size_t>(4, rest.size()));
    if (!restarts || *restarts > rest.size() / 4 - 1) damaged("a bad restart array");
    rest = rest.first(rest.size() - 4 - 4 * static_cast<std::size_t>(*restarts));
    std::vector<std::pair<std::string, std::string>> result;
    std::string key;
    while (!rest.empty()) {
      const auto shared = take_varint(rest);
      const auto unshared = shared ? take_varint(rest) : std::nullopt;
      const auto value_size = unshared ? take_varint(rest) : std::nullopt;
      if (!value_size || *shared > key.size() || *unshared > rest.size() || *value_size > rest.size() - *unshared) {
        damaged("a bad block entry");
      }
      key.resize(*shared);
      key += as_text(rest.first(*unshared));
      if (key.size() > key_budget_) damaged("keys expand to far more than the file");
      key_budget_ -= key.size();
      result.emplace_back(key, as_text(rest.subspan(*unshared, *value_size)));
      rest = rest.subspan(*unshared + *value_size);
    }
    return result;
  }

  std::span<const std::byte> bytes_;
  std::string_view what_;
  std::size_t block_budget_;  // many handles may name one block
  std::size_t key_budget_;
  std::vector<std::pair<std::string, std::string>> result_;
};

}  // namespace

void TableBuilder::Block::add(std::string_view key, std::string_view value, int restart_interval) {
  std::size_t shared = 0;
  if (bytes.empty()) {
    since_restart = 0;
  } else if (since_restart < restart_interval) {
    const std::size_t least = std::min(last_key.size(), key.size());
    while (shared < least && last_key[shared] == key[shared]) ++shared;
  } else {
    restarts.push_back(static_cast<std::uint32_t>(bytes.size()));
    since_restart = 0;
  }
  append_varint(bytes, shared);
  append_varint(bytes, key.size() - shared);
  append_varint(bytes, value.size());
  bytes += key.substr(shared);
  bytes += value;
  last_key = key;
  ++since_restart;
}

std::string TableBuilder::Block::finish() const {
  std::string out = bytes;
  for (const std::uint32_t restart : restarts) append_le(out, restart);
  append_le(out, static_cast<std::uint32_t>(restarts.size()));
  return out;
}

void TableBuilder::add(std::string_view key, std::string_view value) {
  if (any_ && std::string_view(data_.last_key) >= key) {
    throw_invalid_argument(fmt::format("table key {} is not after {}", key, data_.last_key));
  }
  const bool huge = key.size() + value.size() >= 2 * kBlockSize;
  if (any_ && (huge || data_.estimated_size() >= kBlockSize)) flush(key);
  data_.add(key, value, kRestartInterval);
  any_ = true;
}

void TableBuilder::flush(std::string_view next_key) {
  if (data_.bytes.empty()) return;
  std::string last = data_.last_key;
  const std::string handle = append_block(data_);
  index_.add(next_key.empty() ? successor(last) : separator(last, next_key), handle, 1);
  data_ = Block{};
  data_.last_key = std::move(last);
}

std::string TableBuilder::append_block(const Block& block) {
  const std::string contents = block.finish();
  const Handle handle{out_.size(), contents.size()};
  out_ += contents;
  out_.push_back(static_cast<char>(kRaw));
  append_le(out_, io::mask_crc(io::crc32c(as_bytes(out_).subspan(handle.offset))));
  return encode(handle);
}

std::string TableBuilder::finish() {
  flush({});
  std::string footer = append_block(Block{});
  footer += append_block(index_);
  footer.resize(kFooterSize - sizeof kMagic, '\0');
  append_le(footer, kMagic);
  return std::move(out_) + footer;
}

std::vector<std::pair<std::string, std::string>> read_table(std::span<const std::byte> bytes, std::string_view what) {
  return TableParser(bytes, what).run();
}

bool looks_like_table(std::span<const std::byte> bytes) {
  return bytes.size() >= kFooterSize && load_le<std::uint64_t>(bytes, bytes.size() - 8) == kMagic;
}

}  // namespace lockstep::formats
