#include "lockstep/formats/hdf5_messages_internal.h"

#include <algorithm>
#include <cstring>

#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats::hdf5 {
namespace {

constexpr int kReferenceCount = 0x16;
constexpr int kLastMessageType = 0x18;  // file space info
constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";

// Messages that are not used. One that is in truth an attribute would hide it.
bool is_plausible(const Message& message) {
  const auto text = io::as_text(message.body);
  switch (message.type) {
    case 0x04: {  // a fill value of the old form: its size, and its bytes
      const auto size = io::load_le<std::uint32_t>(message.body, 0);
      return size && *size <= message.body.size() - 4;
    }
    case 0x0d:  // a comment
      return text.find('\0') != std::string_view::npos &&
             std::none_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find('\0')),
                          [](unsigned char c) { return c < 0x20 && c != '\n' && c != '\t'; });
    case 0x0e:  // a modification time of the old form: YYYYMMDDhhmmss
      return text.size() >= 14 &&
             std::all_of(text.begin(), text.begin() + 14, [](unsigned char c) { return c >= '0' && c <= '9'; });
    default: return message.type <= kLastMessageType;
  }
}

// As the HDF5 library takes them: a flag must fit the others, and only some messages can be shared.
bool are_possible(int flags, int type) {
  constexpr int kShared = 0x02, kNotShared = 0x04, kFailToWrite = 0x08, kMark = 0x10, kWasUnknown = 0x20,
                kShareable = 0x40;
  const bool can_be_shared = type == 0x01 || (type >= 0x03 && type <= 0x05) || type == 0x0b || type == 0x0c;
  return !((flags & kShared) != 0 && (flags & kNotShared) != 0) &&
         !((flags & kWasUnknown) != 0 && ((flags & kFailToWrite) != 0 || (flags & kMark) == 0)) &&
         ((flags & kShareable) == 0 || can_be_shared);
}

}  // namespace

std::uint64_t find_signature(std::span<const std::byte> image) {
  for (std::uint64_t at = 0; at + kSignature.size() <= image.size(); at = at == 0 ? 512 : 2 * at) {
    if (std::memcmp(image.data() + at, kSignature.data(), kSignature.size()) == 0) return at;
  }
  return kUndefinedAddress;
}

std::uint64_t MessageReader::read_superblock() {
  const std::uint64_t available = image_.bytes.size() - image_.base;
  Fields fields(image_, image_.block(0, available));
  fields.skip(8);
  const int version = fields.u8();
  if (version > 3) image_.unsupported(fmt::format("an HDF5 superblock of version {}", version));
  std::uint64_t root = 0;
  std::uint64_t end = 0;
  const std::uint64_t file_base = image_.base;
  std::uint64_t base = 0;
  const auto check_flags = [&](std::uint32_t flags) {  // open for writing, known to be whole, open for one writer
    if ((flags & ~7u) != 0) image_.damaged(0, fmt::format("a superblock with the unknown flags {:#x}", flags));
  };
  if (version < 2) {
    const int free_space = fields.u8();
    const int root_group = fields.u8();
    fields.skip(1);
    if (free_space != 0 || root_group != 0 || fields.u8() != 0)
      image_.damaged(0, "a superblock with unknown versions of its parts");
    set_sizes(fields);
    fields.skip(1);
    image_.leaf_k = fields.u16();
    image_.internal_k = fields.u16();
    if (image_.leaf_k == 0 || image_.internal_k == 0) image_.damaged(0, "group indexes whose nodes have no entries");
    check_flags(fields.u32());
    if (version == 1) fields.skip(4);
    base = fields.address();
    const std::uint64_t free_space_at = fields.address();
    end = fields.address();
    if (free_space_at != kUndefinedAddress || fields.address() != kUndefinedAddress)
      image_.damaged(0, "a superblock with a block of free space or of a file driver");
    fields.length();
    root = fields.address();
    if (const auto cache = fields.u32(); cache > 1)
      image_.damaged(0, fmt::format("a root group of the unknown kind {}", cache));
  } else {
    set_sizes(fields);
    check_flags(fields.u8());
    base = fields.address();
    fields.address();
    end = fields.address();
    root = fields.address();
    check_metadata(image_, image_.block(0, fields.position() + 4));
  }
  if (base != file_base && base != 0)
    image_.damaged(0, fmt::format("its base address is {}, but it starts at {}", base, file_base));
  image_.base = base;
  // The end of a file with a user block counts from the start of the file or of the HDF5 part.
  if (end > image_.bytes.size()) {
    throw_data_loss(fmt::format("{}: truncated HDF5 file: {} bytes of {}", image_.what, image_.bytes.size(), end));
  }
  // Nothing is behind the end. That of a file with a user block counts from one of two places.
  if (file_base == 0) image_.bytes = image_.bytes.first(static_cast<std::size_t>(end));
  image_.own_block(0, fields.position());
  return root;
}

void MessageReader::set_sizes(Fields& fields) {
  const int address_size = fields.u8();
  const int length_size = fields.u8();
  if ((address_size != 4 && address_size != 8) || (length_size != 4 && length_size != 8)) {
    image_.damaged(0, fmt::format("addresses of {} and lengths of {} bytes", address_size, length_size));
  }
  image_.address_size = address_size;
  image_.length_size = length_size;
}

void check_metadata(const Image& image, std::span<const std::byte> block) {
  constexpr std::uint64_t kBytesPerStep = 32;
  const auto at = static_cast<std::uint64_t>(block.data() - image.bytes.data());
  image.charge_steps(block.size() / kBytesPerStep, at);
  if (!io::checksum_matches(Fields(image, block.last(4)).u32(), lookup3(block.first(block.size() - 4)))) {
    throw_data_loss(
        fmt::format("{}: damaged HDF5 file: a metadata block at byte {} does not match its checksum", image.what, at));
  }
}

std::vector<Message> MessageReader::read(std::uint64_t address, std::uint64_t* links) {
  auto start = image_.block(address, 4);
  if (std::memcmp(start.data(), "OHDR", 4) == 0) return read_version2(address, links);
  Fields head(image_, image_.block(address, 16));
  const int version = head.u8();
  if (version != 1) image_.damaged(address, fmt::format("an object header of version {}", version));
  head.skip(1);
  const int declared = head.u16();
  const std::uint64_t link_count = head.u32();
  if (links != nullptr) *links = link_count;
  const std::uint64_t size = head.u32();
  std::vector<std::span<const std::byte>> blocks{image_.own_block(address + 16, size)};
  std::vector<Message> messages;
  int count = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    Fields fields(image_, blocks[b]);
    while (fields.left() >= 8) {
      Message message;
      message.type = fields.u16();
      const auto body = fields.u16();
      message.flags = fields.u8();
      fields.skip(3);
      if (body % 8 != 0) image_.damaged(address, fmt::format("a header message of {} bytes", body));
      message.body = fields.take(body);
      add_message(message, blocks, messages);
      ++count;
    }
    if (fields.left() != 0) image_.damaged(address, "an object header with a part of a message");
  }
  if (count != declared) {
    image_.damaged(address, fmt::format("an object header of {} messages, but it declares {}", count, declared));
  }
  return messages;
}

std::vector<Message> MessageReader::read_version2(std::uint64_t address, std::uint64_t* links) {
  Fields head(image_, image_.block(address, std::min<std::uint64_t>(64, image_.bytes.size() - image_.base - address)));
  head.skip(4);
  if (head.u8() != 2) image_.damaged(address, "an object header of an unknown version");
  const int flags = head.u8();
  if ((flags & 0x20) != 0) head.skip(16);
  if ((flags & 0x10) != 0) head.skip(4);
  const std::uint64_t size = head.unsigned_field(1 << (flags & 3));
  if (size > image_.bytes.size()) image_.damaged(address, "an object header larger than the file");
  auto whole = image_.own_block(address, head.position() + size + 4);
  check_metadata(image_, whole);
  std::vector<std::span<const std::byte>> blocks{whole.subspan(head.position(), size)};
  std::vector<Message> messages;
  const std::size_t prefix = (flags & 4) != 0 ? 6 : 4;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    auto block = blocks[b];
    if (b > 0) {
      if (block.size() < 8 || std::memcmp(block.data(), "OCHK", 4) != 0) image_.damaged(address, "no OCHK block");
      check_metadata(image_, block);
      block = block.subspan(4, block.size() - 8);
    }
    Fields fields(image_, block);
    while (fields.left() >= prefix) {
      Message message;
      message.type = fields.u8();
      const auto body = fields.u16();
      message.flags = fields.u8();
      fields.skip(prefix - 4);
      message.body = fields.take(body);
      add_message(message, blocks, messages);
    }
  }
  if (links != nullptr) {
    *links = 1;
    for (const Message& message : messages) {
      if (message.type != kReferenceCount) continue;
      Fields fields(image_, message.body);
      fields.skip(1);
      *links = fields.u32();
    }
  }
  return messages;
}

void MessageReader::add_message(const Message& message, std::vector<std::span<const std::byte>>& blocks,
                                std::vector<Message>& messages) {
  image_.charge_steps(1, 0);
  if (!are_possible(message.flags, message.type)) {
    image_.damaged(0, fmt::format("a header message of type {} with the flags {:#x}", message.type, message.flags));
  }
  if (message.type == 0x10) {
    Fields fields(image_, message.body);
    const auto address = fields.address();
    const auto size = fields.length();
    if (blocks.size() > 1000) image_.damaged(address, "an object header that runs in circles");
    blocks.push_back(image_.own_block(address, size));
  } else if (!is_plausible(message)) {
    image_.damaged(0, fmt::format("a header message of type {} and another content", message.type));
  } else if (message.type != 0) {
    messages.push_back(message);
  }
}

std::span<const std::byte> MessageReader::shared_body(const Message& message, int depth) {
  if ((message.flags & 2) == 0) return message.body;
  return follow_shared(message.body, message.type, depth);
}

std::span<const std::byte> MessageReader::follow_shared(std::span<const std::byte> body, int type, int depth) {
  Fields fields(image_, body);
  const int version = fields.u8();
  const int kind = fields.u8();
  if (version == 1) fields.skip(6);
  if (version > 3 || (version == 3 && kind != 2) || depth > 4) image_.unsupported("a shared message of an HDF5 file");
  const auto address = fields.address();
  Reference& reference = references_.emplace_back(Reference{address, 0});
  for (const Message& other : read(address, &reference.links)) {
    if (other.type == type) return shared_body(other, depth + 1);
  }
  image_.damaged(address, "a missing shared message");
}

}  // namespace lockstep::formats::hdf5
