#include "lockstep/formats/hdf5_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "lockstep/formats/hdf5_dense.h"
#include "lockstep/formats/hdf5_image.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

using hdf5::Fields;
using hdf5::Image;
using hdf5::kUndefinedAddress;
using hdf5::Storage;

namespace {

constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr int kMaxDepth = 64;
constexpr std::size_t kCopyBlock = std::size_t{4} << 20;

struct Message {
  int type = 0;
  int flags = 0;
  std::span<const std::byte> body;
};

std::uint64_t find_signature(std::span<const std::byte> image) {
  for (std::uint64_t at = 0; at + kSignature.size() <= image.size(); at = at == 0 ? 512 : 2 * at) {
    if (std::memcmp(image.data() + at, kSignature.data(), kSignature.size()) == 0) return at;
  }
  return kUndefinedAddress;
}

void swap_elements(std::span<std::byte> bytes, std::size_t width) {
  for (std::size_t at = 0; at + width <= bytes.size(); at += width) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.begin() + static_cast<std::ptrdiff_t>(at + width));
  }
}

}  // namespace

struct Hdf5File::State {
  Image image;
  std::shared_ptr<const void> owner;
  Hdf5Node root;
  std::vector<Storage> storages;
};

class Hdf5File::Parser {
 public:
  explicit Parser(State& state) : state_(state), image_(state.image) {
    entries_left_ = 1000 + image_.bytes.size() / 8;
    text_budget_ = (1 << 20) + 4 * image_.bytes.size();
  }

  void run() {
    const std::uint64_t at = find_signature(image_.bytes);
    if (at == kUndefinedAddress) {
      throw_data_loss(fmt::format("{}: not an HDF5 file: its signature is missing", image_.what));
    }
    image_.base = at;
    parse_object(read_superblock(), state_.root, 0);
    if (state_.root.kind != Hdf5Node::Kind::kGroup) image_.damaged(0, "the root is not a group");
  }

 private:
  std::uint64_t read_superblock() {
    const std::uint64_t available = image_.bytes.size() - image_.base;
    Fields fields(image_, image_.block(0, available));
    fields.skip(8);
    const int version = fields.u8();
    if (version > 3) image_.unsupported(fmt::format("an HDF5 superblock of version {}", version));
    std::uint64_t root = 0;
    std::uint64_t end = 0;
    const std::uint64_t file_base = image_.base;
    std::uint64_t base = 0;
    if (version < 2) {
      fields.skip(4);
      set_sizes(fields);
      fields.skip(1 + 4 + 4);
      if (version == 1) fields.skip(4);
      base = fields.address();
      fields.address();
      end = fields.address();
      fields.address();
      fields.length();
      root = fields.address();
    } else {
      set_sizes(fields);
      fields.skip(1);
      base = fields.address();
      fields.address();
      end = fields.address();
      root = fields.address();
      check(image_.block(0, fields.position() + 4));
    }
    if (base != file_base && base != 0) image_.damaged(0, fmt::format("its base address is {}, but it starts at {}", base, file_base));
    image_.base = base;
    // The end of a file with a user block counts from the start of the file or of the HDF5 part.
    if (end > image_.bytes.size()) {
      throw_data_loss(fmt::format("{}: truncated HDF5 file: {} bytes of {}", image_.what, image_.bytes.size(), end));
    }
    return root;
  }

  void set_sizes(Fields& fields) {
    const int address_size = fields.u8();
    const int length_size = fields.u8();
    if ((address_size != 4 && address_size != 8) || (length_size != 4 && length_size != 8)) {
      image_.damaged(0, fmt::format("addresses of {} and lengths of {} bytes", address_size, length_size));
    }
    image_.address_size = address_size;
    image_.length_size = length_size;
  }

  void check(std::span<const std::byte> block) const {
    if (hdf5::lookup3(block.first(block.size() - 4)) != Fields(image_, block.last(4)).u32()) {
      throw_data_loss(fmt::format("{}: damaged HDF5 file: a metadata block at byte {} does not match its checksum",
                                  image_.what, block.data() - image_.bytes.data()));
    }
  }

  // All messages of the object at `address`, continuation blocks included.
  std::vector<Message> read_messages(std::uint64_t address) {
    auto start = image_.block(address, 4);
    if (std::memcmp(start.data(), "OHDR", 4) == 0) return read_messages2(address);
    Fields head(image_, image_.block(address, 16));
    const int version = head.u8();
    if (version != 1) image_.damaged(address, fmt::format("an object header of version {}", version));
    head.skip(3 + 4);
    const std::uint64_t size = head.u32();
    std::vector<std::span<const std::byte>> blocks{image_.block(address + 16, size)};
    std::vector<Message> messages;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      Fields fields(image_, blocks[b]);
      while (fields.left() >= 8) {
        Message message;
        message.type = fields.u16();
        const auto body = fields.u16();
        message.flags = fields.u8();
        fields.skip(3);
        message.body = fields.take(body);
        add_message(message, blocks, messages);
      }
    }
    return messages;
  }

  std::vector<Message> read_messages2(std::uint64_t address) {
    Fields head(image_, image_.block(address, std::min<std::uint64_t>(64, image_.bytes.size() - image_.base - address)));
    head.skip(4);
    if (head.u8() != 2) image_.damaged(address, "an object header of an unknown version");
    const int flags = head.u8();
    if ((flags & 0x20) != 0) head.skip(16);
    if ((flags & 0x10) != 0) head.skip(4);
    const std::uint64_t size = head.unsigned_field(1 << (flags & 3));
    if (size > image_.bytes.size()) image_.damaged(address, "an object header larger than the file");
    auto whole = image_.block(address, head.position() + size + 4);
    check(whole);
    std::vector<std::span<const std::byte>> blocks{whole.subspan(head.position(), size)};
    std::vector<Message> messages;
    const std::size_t prefix = (flags & 4) != 0 ? 6 : 4;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      auto block = blocks[b];
      if (b > 0) {
        if (block.size() < 8 || std::memcmp(block.data(), "OCHK", 4) != 0) image_.damaged(address, "no OCHK block");
        check(block);
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
    return messages;
  }

  void add_message(const Message& message, std::vector<std::span<const std::byte>>& blocks, std::vector<Message>& messages) {
    if (message.type == 0x10) {
      Fields fields(image_, message.body);
      const auto address = fields.address();
      const auto size = fields.length();
      if (blocks.size() > 1000) image_.damaged(address, "an object header that runs in circles");
      blocks.push_back(image_.block(address, size));
    } else if (message.type != 0) {
      spend_entry(0);
      messages.push_back(message);
    }
  }

  void spend_entry(std::uint64_t at) {
    if (entries_left_-- == 0) image_.damaged(at, "more objects than the file has room for");
  }

  // The body of a message that may be kept in another object (a named datatype).
  std::span<const std::byte> shared_body(const Message& message, int depth = 0) {
    if ((message.flags & 2) == 0) return message.body;
    return follow_shared(message.body, message.type, depth);
  }

  std::span<const std::byte> follow_shared(std::span<const std::byte> body, int type, int depth) {
    Fields fields(image_, body);
    const int version = fields.u8();
    const int kind = fields.u8();
    if (version == 1) fields.skip(6);
    if (version > 3 || (version == 3 && kind != 2) || depth > 4) image_.unsupported("a shared message of an HDF5 file");
    const auto address = fields.address();
    for (const Message& other : read_messages(address)) {
      if (other.type == type) return shared_body(other, depth + 1);
    }
    image_.damaged(address, "a shared message that is not there");
  }

  void parse_object(std::uint64_t address, Hdf5Node& node, int depth) {
    if (depth > kMaxDepth) image_.damaged(address, fmt::format("groups nested deeper than {}", kMaxDepth));
    if (!path_.insert(address).second) image_.damaged(address, "a group that contains itself");
    const auto messages = read_messages(address);
    auto has = [&](int type) {
      return std::any_of(messages.begin(), messages.end(), [&](const Message& m) { return m.type == type; });
    };
    parse_attributes(messages, node);
    if (has(0x08)) {
      parse_dataset(messages, node);
    } else if (has(0x11) || has(0x02) || has(0x06) || has(0x0a)) {
      parse_group(messages, node, depth);
    } else {
      node.kind = Hdf5Node::Kind::kLink;
      node.refusal = "it is neither a group nor a dataset";
    }
    path_.erase(address);
  }

  void parse_group(const std::vector<Message>& messages, Hdf5Node& node, int depth) {
    node.kind = Hdf5Node::Kind::kGroup;
    for (const Message& message : messages) {
      Fields fields(image_, message.body);
      if (message.type == 0x11) {
        const auto tree = fields.address();
        const auto heap = fields.address();
        auto names = local_heap(heap);
        nodes_in_tree_ = 0;
        walk_group_tree(tree, -1, names, node, depth);
      } else if (message.type == 0x06) {
        add_link(message.body, node, depth);
      } else if (message.type == 0x02) {
        fields.skip(1);
        const int flags = fields.u8();
        if ((flags & 1) != 0) fields.skip(8);
        const auto heap = fields.address();
        const auto index = fields.address();
        if (heap == kUndefinedAddress) continue;
        for (auto link : hdf5::dense_objects(image_, heap, index, 5)) add_link(link, node, depth);
      }
    }
    std::sort(node.children.begin(), node.children.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (std::size_t i = 1; i < node.children.size(); ++i) {
      if (node.children[i].name == node.children[i - 1].name) {
        image_.damaged(0, fmt::format("two entries named \"{}\" in one group", node.children[i].name));
      }
    }
  }

  std::span<const std::byte> local_heap(std::uint64_t address) {
    Fields fields(image_, image_.block(address, 8 + 2 * static_cast<std::uint64_t>(image_.length_size) +
                                                    static_cast<std::uint64_t>(image_.address_size)));
    fields.expect("HEAP");
    fields.skip(4);
    const auto size = fields.length();
    fields.length();
    return image_.block(fields.address(), size);
  }

  void walk_group_tree(std::uint64_t address, int expected_level, std::span<const std::byte> names, Hdf5Node& node, int depth) {
    Fields fields(image_, image_.block(address, 8 + 2 * static_cast<std::uint64_t>(image_.address_size)));
    fields.expect("TREE");
    const int type = fields.u8();
    const int level = fields.u8();
    const auto count = fields.u16();
    if (type != 0 || level > 16 || (expected_level >= 0 && level != expected_level) ||
        ++nodes_in_tree_ > image_.bytes.size() / 24 + 1) {
      image_.damaged(address, "a group index of the wrong kind or level, or one that runs in circles");
    }
    const auto entry = static_cast<std::uint64_t>(image_.length_size + image_.address_size);
    Fields body(image_, image_.block(address + 8 + 2 * static_cast<std::uint64_t>(image_.address_size), count * entry));
    for (int i = 0; i < count; ++i) {
      body.length();
      const auto child = body.address();
      if (level > 0) {
        walk_group_tree(child, level - 1, names, node, depth);
      } else {
        read_symbols(child, names, node, depth);
      }
    }
  }

  void read_symbols(std::uint64_t address, std::span<const std::byte> names, Hdf5Node& node, int depth) {
    Fields head(image_, image_.block(address, 8));
    head.expect("SNOD");
    head.skip(2);
    const auto count = head.u16();
    const auto entry = 24 + static_cast<std::uint64_t>(image_.length_size + image_.address_size);
    Fields fields(image_, image_.block(address + 8, count * entry));
    for (int i = 0; i < count; ++i) {
      const auto name_at = fields.length();
      const auto object = fields.address();
      const auto cache = fields.u32();
      fields.skip(4 + 16);
      if (name_at >= names.size()) image_.damaged(address, "a name outside its heap");
      auto rest = names.subspan(name_at);
      const auto stop = std::find(rest.begin(), rest.end(), std::byte{0});
      if (stop == rest.end()) image_.damaged(address, "a name without an end");
      std::string name(reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(stop - rest.begin()));
      add_child(node, std::move(name), cache == 2 ? "it is a soft link" : "", object, depth);
    }
  }

  void add_link(std::span<const std::byte> body, Hdf5Node& node, int depth) {
    Fields fields(image_, body);
    if (fields.u8() != 1) image_.damaged(fields.offset(), "a link of an unknown version");
    const int flags = fields.u8();
    const int type = (flags & 8) != 0 ? fields.u8() : 0;
    if ((flags & 4) != 0) fields.skip(8);
    if ((flags & 16) != 0) fields.skip(1);
    std::string name = fields.text(fields.unsigned_field(1 << (flags & 3)));
    if (type == 0) {
      add_child(node, std::move(name), "", fields.address(), depth);
    } else {
      add_child(node, std::move(name), type == 1 ? "it is a soft link" : "it is an external or user-defined link", 0, depth);
    }
  }

  void add_child(Hdf5Node& node, std::string name, std::string refusal, std::uint64_t address, int depth) {
    spend_entry(address);
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      image_.damaged(address, fmt::format("\"{}\" is no name of a group or dataset", name));
    }
    Hdf5Node& child = node.children.emplace_back();
    child.name = std::move(name);
    if (refusal.empty()) {
      parse_object(address, child, depth + 1);
    } else {
      child.kind = Hdf5Node::Kind::kLink;
      child.refusal = std::move(refusal);
    }
  }

  void parse_attributes(const std::vector<Message>& messages, Hdf5Node& node) {
    for (const Message& message : messages) {
      if (message.type == 0x0c) {
        if ((message.flags & 2) != 0) image_.unsupported("a shared attribute of an HDF5 file");
        node.attributes.push_back(parse_attribute(message.body));
      } else if (message.type == 0x15) {
        Fields fields(image_, message.body);
        fields.skip(1);
        if ((fields.u8() & 1) != 0) fields.skip(2);
        const auto heap = fields.address();
        const auto index = fields.address();
        if (heap == kUndefinedAddress) continue;
        for (auto body : hdf5::dense_objects(image_, heap, index, 8)) node.attributes.push_back(parse_attribute(body));
      }
    }
  }

  Hdf5Attribute parse_attribute(std::span<const std::byte> body) {
    spend_entry(0);
    Fields fields(image_, body);
    const int version = fields.u8();
    const int flags = fields.u8();
    if (version < 1 || version > 3) image_.damaged(fields.offset(), fmt::format("an attribute of version {}", version));
    const auto name_size = fields.u16();
    const auto type_size = fields.u16();
    const auto space_size = fields.u16();
    if (version == 3) fields.skip(1);
    auto part = [&](std::uint64_t size) {
      auto bytes = fields.take(size);
      if (version == 1) fields.skip(std::min<std::uint64_t>((8 - size % 8) % 8, fields.left()));
      return bytes;
    };
    auto name = part(name_size);
    auto type_bytes = part(type_size);
    auto space_bytes = part(space_size);
    if (version > 1 && (flags & 1) != 0) type_bytes = follow_shared(type_bytes, 0x03, 0);
    if (version > 1 && (flags & 2) != 0) space_bytes = follow_shared(space_bytes, 0x01, 0);
    Hdf5Attribute attribute;
    attribute.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    attribute.name = attribute.name.substr(0, attribute.name.find('\0'));
    const auto type = hdf5::parse_datatype(image_, type_bytes);
    const auto space = hdf5::parse_dataspace(image_, space_bytes);
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(space.count, type.size, &size)) image_.damaged(fields.offset(), "an attribute too large");
    auto data = fields.take(size);
    TensorData& value = attribute.value;
    if (type.kind == hdf5::Datatype::Kind::kUnreadable || space.null) return attribute;
    if (type.dtype == DType::kString) {
      value.strings = hdf5::read_strings(image_, type, space.count, data, text_budget_);
      value.shape = Shape(space.dims);
      value.dtype = DType::kString;
    } else {
      std::vector<std::byte> copy(data.begin(), data.end());
      if (type.big_endian) swap_elements(copy, type.size);
      value = TensorData::copy_of(type.dtype, Shape(space.dims), copy);
    }
    return attribute;
  }

  void parse_dataset(const std::vector<Message>& messages, Hdf5Node& node) {
    node.kind = Hdf5Node::Kind::kDataset;
    Storage storage;
    bool typed = false;
    bool spaced = false;
    for (const Message& message : messages) {
      switch (message.type) {
        case 0x01:
          storage.space = hdf5::parse_dataspace(image_, shared_body(message));
          spaced = true;
          break;
        case 0x03:
          storage.type = hdf5::parse_datatype(image_, shared_body(message));
          typed = true;
          break;
        case 0x05: parse_fill(shared_body(message), storage); break;
        case 0x07: node.refusal = "its values lie in another file"; break;
        case 0x0b: storage.filters = hdf5::parse_filters(image_, shared_body(message)); break;
        default: break;
      }
    }
    if (!typed || !spaced) image_.damaged(0, fmt::format("dataset \"{}\" has no datatype or no shape", node.name));
    for (const Message& message : messages) {
      if (message.type == 0x08) parse_layout(message.body, storage, node);
    }
    finish_dataset(std::move(storage), node);
  }

  void parse_fill(std::span<const std::byte> body, Storage& storage) {
    Fields fields(image_, body);
    const int version = fields.u8();
    std::uint64_t size = 0;
    if (version < 3) {
      fields.skip(2);
      if (fields.u8() != 0 && fields.left() >= 4) size = fields.u32();
    } else if ((fields.u8() & 0x20) != 0) {
      size = fields.u32();
    }
    if (size > 0x7fffffff) size = 0;
    auto value = fields.take(size);
    storage.plain_fill = std::all_of(value.begin(), value.end(), [](std::byte b) { return b == std::byte{0}; });
  }

  void parse_layout(std::span<const std::byte> body, Storage& storage, Hdf5Node& node) {
    Fields fields(image_, body);
    const int version = fields.u8();
    if (version < 1 || version > 5) image_.damaged(fields.offset(), fmt::format("a data layout of version {}", version));
    if (version < 3) {
      const int rank = fields.u8();
      const int kind = fields.u8();
      fields.skip(5);
      if (kind != 0) storage.address = fields.address();
      if (kind == 2) {
        parse_chunk_extents(fields, rank, 4, storage);
        return;
      }
      storage.size = 1;
      for (int i = 0; i < rank; ++i) {
        if (__builtin_mul_overflow(storage.size, fields.u32(), &storage.size)) image_.damaged(fields.offset(), "a layout too large");
      }
      storage.layout = kind == 0 ? Storage::Layout::kCompact : Storage::Layout::kContiguous;
      if (kind == 0) {
        storage.size = fields.u32();
        storage.compact = fields.take(storage.size);
      }
      return;
    }
    switch (fields.u8()) {
      case 0:
        storage.layout = Storage::Layout::kCompact;
        storage.size = fields.u16();
        storage.compact = fields.take(storage.size);
        break;
      case 1:
        storage.address = fields.address();
        storage.size = fields.length();
        break;
      case 2: parse_chunked(fields, version, storage, node); break;
      case 3: node.refusal = "it is a virtual dataset, whose values lie elsewhere"; break;
      default: image_.damaged(fields.offset(), "a data layout of an unknown class");
    }
  }

  void parse_chunked(Fields& fields, int version, Storage& storage, Hdf5Node& node) {
    if (version == 3) {
      const int rank = fields.u8();
      storage.address = fields.address();
      parse_chunk_extents(fields, rank, 4, storage);
      return;
    }
    const int flags = fields.u8();
    const int rank = fields.u8();
    const int width = fields.u8();
    if (width < 1 || width > 8) image_.damaged(fields.offset(), "chunk extents of a strange width");
    parse_chunk_extents(fields, rank, width, storage);
    storage.index = fields.u8();
    if (storage.index == 1) {
      if ((flags & 2) != 0) {
        storage.single_size = fields.length();
        storage.single_mask = fields.u32();
      }
    } else if (storage.index == 3) {
      fields.skip(1);
    } else if (storage.index != 2) {
      node.refusal = "its chunks are indexed for growing (written with maxshape and libver='latest')";
      return;
    }
    storage.address = fields.address();
  }

  void parse_chunk_extents(Fields& fields, int rank, int width, Storage& storage) {
    storage.layout = Storage::Layout::kChunked;
    if (rank != static_cast<int>(storage.space.dims.size()) + 1 || rank < 2) {
      image_.damaged(fields.offset(), "chunks of another rank than their dataset");
    }
    std::uint64_t size = storage.type.size;
    for (int i = 0; i + 1 < rank; ++i) {
      const std::uint64_t extent = fields.unsigned_field(width);
      if (extent == 0 || __builtin_mul_overflow(size, extent, &size) || size >> 32 != 0) {
        image_.damaged(fields.offset(), "a chunk of no bytes or of 4 GiB and more");
      }
      storage.chunk.push_back(extent);
    }
    if (fields.unsigned_field(width) != storage.type.size) image_.damaged(fields.offset(), "chunks of another element size");
  }

  void finish_dataset(Storage storage, Hdf5Node& node) {
    hdf5::Datatype& type = storage.type;
    const Hdf5Attribute* declared = node.attribute("dtype");
    if (type.opaque2 && declared != nullptr && declared->value.strings == std::vector<std::string>{"bfloat16"}) {
      type.kind = hdf5::Datatype::Kind::kNumber;
      type.dtype = DType::kBFloat16;
    }
    node.shape = Shape(storage.space.dims);
    if (node.refusal.empty() && type.kind == hdf5::Datatype::Kind::kUnreadable) {
      node.refusal = fmt::format("its elements are {}", type.name);
    }
    if (node.refusal.empty() && storage.space.null) node.refusal = "it has no values (a null dataspace)";
    for (const auto& filter : storage.filters) {
      if (filter.id != 1 && filter.id != 2 && filter.id != 3 && filter.id != 32000 && node.refusal.empty()) {
        node.refusal = fmt::format("its chunks are stored with filter {}", filter.id);
      }
    }
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(storage.space.count, type.size, &size) || size >> 62 != 0) {
      image_.damaged(0, fmt::format("dataset \"{}\" of {} is larger than memory can be", node.name, node.shape.to_string()));
    }
    if (node.refusal.empty()) {
      node.dtype = type.dtype;
      if (storage.layout == Storage::Layout::kCompact && storage.size < size) {
        image_.damaged(0, fmt::format("dataset \"{}\" is shorter than its shape {}", node.name, node.shape.to_string()));
      }
      if (storage.layout == Storage::Layout::kContiguous && storage.address != kUndefinedAddress && size > 0) {
        if (storage.size < size) image_.damaged(storage.address, fmt::format("dataset \"{}\" is shorter than its shape", node.name));
        image_.block(storage.address, size);
      }
    }
    node.storage = state_.storages.size();
    state_.storages.push_back(std::move(storage));
  }

  State& state_;
  Image& image_;
  std::set<std::uint64_t> path_;
  std::uint64_t entries_left_ = 0;
  std::uint64_t nodes_in_tree_ = 0;
  std::uint64_t text_budget_ = 0;
};

const Hdf5Node* Hdf5Node::child(std::string_view child_name) const {
  auto found = std::lower_bound(children.begin(), children.end(), child_name,
                                [](const Hdf5Node& node, std::string_view wanted) { return node.name < wanted; });
  return found != children.end() && found->name == child_name ? &*found : nullptr;
}

const Hdf5Attribute* Hdf5Node::attribute(std::string_view attribute_name) const {
  for (const auto& candidate : attributes) {
    if (candidate.name == attribute_name) return &candidate;
  }
  return nullptr;
}

Hdf5File::Hdf5File(std::span<const std::byte> image, std::shared_ptr<const void> owner, std::string what)
    : state_(std::make_unique<State>()) {
  state_->image.bytes = image;
  state_->image.what = std::move(what);
  state_->owner = std::move(owner);
  Parser(*state_).run();
}
Hdf5File::~Hdf5File() = default;
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;

bool Hdf5File::recognise(std::span<const std::byte> image) { return find_signature(image) != kUndefinedAddress; }

const Hdf5Node& Hdf5File::root() const { return state_->root; }
const std::string& Hdf5File::what() const { return state_->image.what; }

const Hdf5Node* Hdf5File::find(std::string_view path) const {
  const Hdf5Node* node = &state_->root;
  while (node != nullptr && !path.empty()) {
    const auto slash = path.find('/');
    node = node->child(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
  }
  return node;
}

TensorData Hdf5File::read(const Hdf5Node& dataset) const {
  const Image& image = state_->image;
  if (dataset.kind != Hdf5Node::Kind::kDataset || !dataset.refusal.empty()) {
    throw_invalid_argument(fmt::format("{}: \"{}\" cannot be read: {}", image.what, dataset.name,
                                       dataset.refusal.empty() ? "it is a group" : dataset.refusal));
  }
  const Storage& storage = state_->storages[dataset.storage];
  const std::uint64_t size = storage.space.count * storage.type.size;
  const bool contiguous = storage.layout == Storage::Layout::kContiguous && storage.address != kUndefinedAddress;
  if (storage.type.dtype == DType::kString) {
    std::vector<std::byte> raw;
    std::span<const std::byte> bytes = storage.compact;
    if (contiguous && size > 0) bytes = image.block(storage.address, size);
    if (storage.layout == Storage::Layout::kChunked && size > 0) {
      hdf5::check_claim(image, storage, size);
      raw.resize(size);
      hdf5::read_chunks(image, storage, raw);
      bytes = raw;
    }
    if (bytes.size() < size) hdf5::check_claim(image, storage, size), raw.resize(size), bytes = raw;
    TensorData tensor;
    tensor.dtype = DType::kString;
    tensor.shape = dataset.shape;
    std::uint64_t budget = (1 << 20) + 64 * image.bytes.size();
    tensor.strings = hdf5::read_strings(image, storage.type, storage.space.count, bytes, budget);
    return tensor;
  }
  if (contiguous && size > 0 && !storage.type.big_endian) {
    auto bytes = image.block(storage.address, size);
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % dtype_size(dataset.dtype) == 0) {
      TensorData tensor;
      tensor.dtype = dataset.dtype;
      tensor.shape = dataset.shape;
      tensor.bytes = bytes;
      tensor.owner = state_->owner;
      return tensor;
    }
  }
  if (!contiguous && storage.layout != Storage::Layout::kCompact) hdf5::check_claim(image, storage, size);
  std::span<std::byte> target;
  TensorData tensor = TensorData::allocate(dataset.dtype, dataset.shape, target);
  read_into(dataset, target);
  return tensor;
}

void Hdf5File::read_into(const Hdf5Node& dataset, std::span<std::byte> target) const {
  const Image& image = state_->image;
  if (dataset.kind != Hdf5Node::Kind::kDataset || !dataset.refusal.empty() || dataset.dtype == DType::kString) {
    throw_invalid_argument(fmt::format("{}: \"{}\" cannot be read as numbers: {}", image.what, dataset.name,
                                       dataset.refusal.empty() ? "it is a group or holds text" : dataset.refusal));
  }
  const Storage& storage = state_->storages[dataset.storage];
  const std::uint64_t size = storage.space.count * storage.type.size;
  if (target.size() != size) {
    throw_invalid_argument(fmt::format("{}: \"{}\" holds {} bytes, but {} are to be filled", image.what, dataset.name, size,
                                       target.size()));
  }
  if (size == 0) return;
  if (storage.layout == Storage::Layout::kChunked) {
    hdf5::check_claim(image, storage, size);
    hdf5::read_chunks(image, storage, target);
  } else if (storage.layout == Storage::Layout::kCompact) {
    std::memcpy(target.data(), storage.compact.data(), size);
  } else if (storage.address != kUndefinedAddress) {
    const auto source = image.block(storage.address, size);
    for (std::size_t at = 0; at < size; at += kCopyBlock) {
      const auto part = source.subspan(at, std::min<std::size_t>(kCopyBlock, size - at));
      std::memcpy(target.data() + at, part.data(), part.size());
      if (part.size() == kCopyBlock) io::release(part);
    }
  } else {
    hdf5::check_claim(image, storage, size);
    if (!storage.plain_fill) image.unsupported("a dataset that was never written and has a fill value");
    std::memset(target.data(), 0, size);
  }
  if (storage.type.big_endian) swap_elements(target, storage.type.size);
  if (dataset.dtype == DType::kBool) {
    for (std::byte& value : target) value = value == std::byte{0} ? std::byte{0} : std::byte{1};
  }
}

}  // namespace lockstep::formats
