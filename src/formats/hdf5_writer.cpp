#include "lockstep/formats/hdf5_writer.h"

#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_checksum.h"

namespace lockstep::formats {
namespace {

using hdf5::FieldWriter;
using hdf5::kUndefinedAddress;

constexpr std::uint64_t kSuperblockSize = 96;
constexpr std::size_t kLeafEntries = 8;       // 2 * group leaf node K, of the superblock
constexpr std::size_t kTreeChildren = 32;     // 2 * group internal node K
constexpr std::size_t kLeafSize = 8 + kLeafEntries * 40;
constexpr std::size_t kTreeNodeSize = 24 + kTreeChildren * 16 + 8;
constexpr std::uint64_t kDataAlignment = 64;  // so that a mapping of the file can be used in place
constexpr std::size_t kHeapMinimum = 4096;    // of a global heap collection
constexpr std::size_t kHeapTarget = 1 << 20;
constexpr std::size_t kMaxAttributeStrings = 4000;  // 16 bytes each must fit a header message of 64 KB

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Message {
  std::uint16_t type = 0;
  std::uint8_t flags = 0;
  std::vector<std::byte> body;
};

// A string in the global heap: which collection, and its index there.
struct HeapReference {
  std::uint32_t length = 0;
  std::size_t collection = 0;
  std::uint32_t index = 0;
};

struct Attribute {
  std::string name;
  bool scalar = true;
  std::vector<std::string> texts;
  Hdf5Charset charset = Hdf5Charset::kUtf8;
};

// Strings of attributes, gathered into collections that are written one after the other.
class GlobalHeap {
 public:
  HeapReference add(std::string_view text) {
    if (text.empty()) return {};
    if (collections_.empty() || collections_.back().bytes.size() > kHeapTarget || collections_.back().objects > 60000) {
      collections_.emplace_back();
    }
    Collection& last = collections_.back();
    FieldWriter object;
    object.u16(static_cast<std::uint16_t>(++last.objects));
    object.u16(0);
    object.u32(0);
    object.u64(text.size());
    object.text(text);
    object.pad_to(8);
    last.bytes.insert(last.bytes.end(), object.bytes().begin(), object.bytes().end());
    return {static_cast<std::uint32_t>(text.size()), collections_.size() - 1, static_cast<std::uint32_t>(last.objects)};
  }

  // Gives every collection its place; the end of the last one is returned.
  std::uint64_t place(std::uint64_t at) {
    for (Collection& collection : collections_) {
      collection.address = at;
      at += size_of(collection);
    }
    return at;
  }

  std::uint64_t address(const HeapReference& reference) const {
    return reference.index == 0 ? 0 : collections_[reference.collection].address;
  }

  void write(FieldWriter& out) const {
    for (const Collection& collection : collections_) {
      const std::size_t size = size_of(collection);
      out.text("GCOL");
      out.u32(1);
      out.u64(size);
      out.raw(collection.bytes);
      const std::size_t free = size - 16 - collection.bytes.size();
      if (free >= 16) {  // object 0 stands for the free space
        out.u64(0);
        out.u64(free);
        out.zeros(free - 16);
      } else {
        out.zeros(free);
      }
    }
  }

 private:
  struct Collection {
    std::vector<std::byte> bytes;
    std::size_t objects = 0;
    std::uint64_t address = 0;
  };
  static std::size_t size_of(const Collection& collection) {
    return std::max(kHeapMinimum, collection.bytes.size() + 16);
  }
  std::vector<Collection> collections_;
};

void write_fixed_point(FieldWriter& out, std::size_t size, bool is_signed) {
  out.u8(0x10);
  out.u8(is_signed ? 0x08 : 0x00);
  out.u16(0);
  out.u32(static_cast<std::uint32_t>(size));
  out.u16(0);
  out.u16(static_cast<std::uint16_t>(8 * size));
}

void write_float(FieldWriter& out, std::size_t size, std::uint8_t exponent_bits, std::uint8_t mantissa_bits,
                 std::uint32_t bias) {
  out.u8(0x11);
  out.u8(0x20);  // the leading mantissa bit is implied
  out.u8(static_cast<std::uint8_t>(8 * size - 1));
  out.u8(0);
  out.u32(static_cast<std::uint32_t>(size));
  out.u16(0);
  out.u16(static_cast<std::uint16_t>(8 * size));
  out.u8(mantissa_bits);
  out.u8(exponent_bits);
  out.u8(0);
  out.u8(mantissa_bits);
  out.u32(bias);
}

void write_boolean(FieldWriter& out) {
  out.u8(0x18);
  out.u16(2);
  out.u8(0);
  out.u32(1);
  write_fixed_point(out, 1, true);
  out.text("FALSE");
  out.zeros(3);
  out.text("TRUE");
  out.zeros(4);
  out.u8(0);
  out.u8(1);
}

void write_opaque(FieldWriter& out, std::size_t size) {
  out.u8(0x15);
  out.u8(0);
  out.u16(0);
  out.u32(static_cast<std::uint32_t>(size));
}

void write_string_type(FieldWriter& out, Hdf5Charset charset) {
  out.u8(0x19);
  out.u8(0x01);
  out.u8(static_cast<std::uint8_t>(charset));
  out.u8(0);
  out.u32(16);
  write_fixed_point(out, 1, false);
}

// The datatype message of a dataset; empty for a dtype that HDF5 files of Keras do not hold.
std::optional<std::vector<std::byte>> datatype_of(DType dtype) {
  FieldWriter out;
  switch (dtype) {
    case DType::kFloat16: write_float(out, 2, 5, 10, 15); break;
    case DType::kFloat32: write_float(out, 4, 8, 23, 127); break;
    case DType::kFloat64: write_float(out, 8, 11, 52, 1023); break;
    case DType::kBool: write_boolean(out); break;
    case DType::kBFloat16: write_opaque(out, 2); break;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64: write_fixed_point(out, dtype_size(dtype), true); break;
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: write_fixed_point(out, dtype_size(dtype), false); break;
    default: return std::nullopt;
  }
  return std::move(out.bytes());
}

void write_dataspace(FieldWriter& out, std::span<const std::int64_t> dims) {
  out.u8(1);
  out.u8(static_cast<std::uint8_t>(dims.size()));
  out.u8(dims.empty() ? 0 : 1);
  out.zeros(5);
  for (int pass = 0; pass < 2; ++pass) {  // the extents, then the same as maximal extents
    for (std::int64_t dim : dims) out.u64(static_cast<std::uint64_t>(dim));
  }
}

std::vector<std::byte> padded(FieldWriter& out) {
  out.pad_to(8);
  return std::move(out.bytes());
}

// A version-1 object header with its messages in one block.
std::vector<std::byte> object_header(const std::vector<Message>& messages) {
  FieldWriter body;
  for (const Message& message : messages) {
    body.u16(message.type);
    body.u16(static_cast<std::uint16_t>(message.body.size()));
    body.u8(message.flags);
    body.zeros(3);
    body.raw(message.body);
  }
  FieldWriter out;
  out.u8(1);
  out.u8(0);
  out.u16(static_cast<std::uint16_t>(messages.size()));
  out.u32(1);
  out.u32(static_cast<std::uint32_t>(body.size()));
  out.u32(0);
  out.raw(body.bytes());
  return std::move(out.bytes());
}

}  // namespace

struct Hdf5Writer::Node {
  bool is_group = true;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> children;  // by bytes, as the B-trees want them
  std::vector<Attribute> attributes;

  DType dtype = DType::kInvalid;
  Shape shape;
  std::uint64_t data_size = 0;
  TensorSource source;

  // Filled in by the plan.
  std::vector<std::vector<HeapReference>> references;  // of each attribute's strings
  std::uint64_t header_address = 0;
  std::uint64_t header_size = 0;
  std::uint64_t tree_address = 0;
  std::uint64_t heap_address = 0;
  std::uint64_t data_address = kUndefinedAddress;
};

struct Hdf5Writer::Plan {
  GlobalHeap heap;
  std::vector<Node*> nodes;     // in the order of their metadata
  std::vector<Node*> datasets;  // in the order of their data
  std::vector<std::byte> metadata;
  std::uint64_t size = 0;

  void visit(Node& node);
  std::vector<Message> messages(const Node& node) const;
  std::vector<std::byte> group_metadata(const Node& node, std::uint64_t at) const;
};

namespace {

// Places and bytes of one group's B-tree, local heap and symbol nodes, which follow its header.
struct GroupBlocks {
  struct Entry {
    std::uint64_t name_offset = 0;
    std::uint64_t header_address = 0;
    bool is_group = false;
    std::uint64_t tree_address = 0;
    std::uint64_t heap_address = 0;
  };
  std::vector<Entry> entries;
  FieldWriter names;

  void add(std::string_view name, Entry entry) {
    if (names.size() == 0) names.zeros(8);
    entry.name_offset = names.size();
    names.text(name);
    names.u8(0);
    names.pad_to(8);
    entries.push_back(entry);
  }
  std::size_t heap_size() { return 32 + std::max<std::size_t>(names.size(), 8); }
  std::size_t leaves() const { return (entries.size() + kLeafEntries - 1) / kLeafEntries; }
  // Number of tree nodes on each level, lowest first; an empty group has one empty node.
  std::vector<std::size_t> levels() const {
    std::vector<std::size_t> counts;
    std::size_t count = leaves();
    do {
      count = std::max<std::size_t>(1, (count + kTreeChildren - 1) / kTreeChildren);
      counts.push_back(count);
    } while (count > 1);
    return counts;
  }
  std::size_t total_size() {
    std::size_t nodes = 0;
    for (std::size_t count : levels()) nodes += count;
    return heap_size() + leaves() * kLeafSize + nodes * kTreeNodeSize;
  }
};

void write_symbol_entry(FieldWriter& out, const GroupBlocks::Entry& entry) {
  out.u64(entry.name_offset);
  out.u64(entry.header_address);
  out.u32(entry.is_group ? 1 : 0);
  out.u32(0);
  out.u64(entry.is_group ? entry.tree_address : 0);
  out.u64(entry.is_group ? entry.heap_address : 0);
}

void write_local_heap(FieldWriter& out, GroupBlocks& group, std::uint64_t at) {
  if (group.names.size() == 0) group.names.zeros(8);
  out.text("HEAP");
  out.u32(0);
  out.u64(group.names.size());
  out.u64(1);  // no free block
  out.u64(at + 32);
  out.raw(group.names.bytes());
}

void write_leaves(FieldWriter& out, const GroupBlocks& group) {
  for (std::size_t first = 0; first < group.entries.size(); first += kLeafEntries) {
    const std::size_t count = std::min(kLeafEntries, group.entries.size() - first);
    out.text("SNOD");
    out.u8(1);
    out.u8(0);
    out.u16(static_cast<std::uint16_t>(count));
    for (std::size_t i = 0; i < count; ++i) write_symbol_entry(out, group.entries[first + i]);
    out.zeros((kLeafEntries - count) * 40);
  }
}

// One level of the tree. `children` are the places of what lies below, `last_names` the heap offset of the
// greatest name below each; both are replaced by those of this level.
void write_tree_level(FieldWriter& out, std::uint8_t level, std::uint64_t at, std::vector<std::uint64_t>& children,
                      std::vector<std::uint64_t>& last_names) {
  const std::size_t nodes = std::max<std::size_t>(1, (children.size() + kTreeChildren - 1) / kTreeChildren);
  std::vector<std::uint64_t> places;
  std::vector<std::uint64_t> keys;
  std::uint64_t left_key = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t first = node * kTreeChildren;
    const std::size_t count = std::min(kTreeChildren, children.size() - first);
    const std::uint64_t place = at + node * kTreeNodeSize;
    const std::size_t start = out.size();
    out.text("TREE");
    out.u8(0);
    out.u8(level);
    out.u16(static_cast<std::uint16_t>(count));
    out.u64(node == 0 ? kUndefinedAddress : place - kTreeNodeSize);
    out.u64(node + 1 == nodes ? kUndefinedAddress : place + kTreeNodeSize);
    out.u64(left_key);
    for (std::size_t i = 0; i < count; ++i) {
      out.u64(children[first + i]);
      left_key = last_names[first + i];
      out.u64(left_key);
    }
    out.zeros(kTreeNodeSize - (out.size() - start));
    places.push_back(place);
    keys.push_back(left_key);
  }
  children = std::move(places);
  last_names = std::move(keys);
}

}  // namespace

Hdf5Writer::Hdf5Writer() : root_(std::make_unique<Node>()) {}
Hdf5Writer::~Hdf5Writer() = default;

Hdf5Writer::Node& Hdf5Writer::node_at(std::string_view path, bool create) {
  if (plan_ != nullptr) throw_failed_precondition("the HDF5 file is planned already: add before asking for its size");
  Node* node = root_.get();
  std::string_view rest = path;
  while (!rest.empty()) {
    const auto slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view{} : rest.substr(slash + 1);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos ||
        (slash != std::string_view::npos && rest.empty())) {
      throw_invalid_argument(fmt::format("\"{}\" cannot be a path in an HDF5 file: bad part \"{}\"", path, part));
    }
    if (!node->is_group) throw_already_exists(fmt::format("\"{}\": a dataset lies where a group is wanted", path));
    auto found = node->children.find(part);
    if (found == node->children.end()) {
      if (!create) throw_not_found(fmt::format("\"{}\" was not added to the HDF5 file", path));
      found = node->children.emplace(std::string(part), std::make_unique<Node>()).first;
    }
    node = found->second.get();
  }
  return *node;
}

void Hdf5Writer::add_group(std::string_view path) {
  if (!node_at(path, true).is_group) {
    throw_already_exists(fmt::format("\"{}\": a dataset lies where a group is wanted", path));
  }
}

void Hdf5Writer::add_dataset(std::string_view path, DType dtype, const Shape& shape, TensorSource source) {
  if (!datatype_of(dtype)) {
    throw_invalid_argument(fmt::format("\"{}\": dtype {} cannot be stored in an HDF5 file of Keras", path, dtype_name(dtype)));
  }
  const auto count = shape.num_elements();
  std::uint64_t size = 0;
  if (!count || shape.rank() > 32 ||
      __builtin_mul_overflow(static_cast<std::uint64_t>(*count), dtype_size(dtype), &size)) {
    throw_invalid_argument(fmt::format("\"{}\": shape {} cannot be stored in an HDF5 file", path, shape.to_string()));
  }
  const auto slash = path.rfind('/');
  Node& parent = node_at(slash == std::string_view::npos ? "" : path.substr(0, slash), true);
  const std::string name(slash == std::string_view::npos ? path : path.substr(slash + 1));
  if (parent.is_group && parent.children.count(name) != 0) {
    throw_already_exists(fmt::format("\"{}\" was added to the HDF5 file before", path));
  }
  Node& node = node_at(path, true);
  if (&node == root_.get()) throw_invalid_argument("a dataset of an HDF5 file needs a name");
  node.is_group = false;
  node.dtype = dtype;
  node.shape = shape;
  node.data_size = size;
  node.source = std::move(source);
  if (dtype == DType::kBFloat16) set_attribute(path, "dtype", "bfloat16");
}

void Hdf5Writer::add_dataset(std::string_view path, TensorData tensor) {
  const DType dtype = tensor.dtype;
  const Shape shape = tensor.shape;
  add_dataset(path, dtype, shape, [tensor = std::move(tensor)] { return tensor; });
}

void Hdf5Writer::set_attribute(std::string_view path, std::string_view name, std::string_view text,
                               Hdf5Charset charset) {
  Node& node = node_at(path, false);
  if (text.size() > 0xffffffffu) throw_invalid_argument(fmt::format("attribute {} of \"{}\" exceeds 4 GiB", name, path));
  node.attributes.push_back({std::string(name), true, {std::string(text)}, charset});
}

void Hdf5Writer::set_attribute(std::string_view path, std::string_view name, const std::vector<std::string>& texts,
                               Hdf5Charset charset) {
  Node& node = node_at(path, false);
  if (texts.size() > kMaxAttributeStrings) {
    throw_invalid_argument(fmt::format("attribute {} of \"{}\" has {} strings, at most {} fit", name, path, texts.size(),
                                       kMaxAttributeStrings));
  }
  node.attributes.push_back({std::string(name), false, texts, charset});
}

void Hdf5Writer::Plan::visit(Node& node) {
  nodes.push_back(&node);
  for (const Attribute& attribute : node.attributes) {
    auto& references = node.references.emplace_back();
    for (const std::string& text : attribute.texts) references.push_back(heap.add(text));
  }
  if (!node.is_group) datasets.push_back(&node);
  for (auto& [name, child] : node.children) visit(*child);
}

std::vector<Message> Hdf5Writer::Plan::messages(const Node& node) const {
  std::vector<Message> messages;
  FieldWriter out;
  if (node.is_group) {
    out.u64(node.tree_address);
    out.u64(node.heap_address);
    messages.push_back({0x11, 0, padded(out)});
  } else {
    write_dataspace(out, node.shape.dims());
    messages.push_back({0x01, 0, padded(out)});
    FieldWriter type;
    type.raw(*datatype_of(node.dtype));
    messages.push_back({0x03, 1, padded(type)});
    FieldWriter fill;
    for (int field : {2, 2, 2, 1, 0, 0, 0, 0}) fill.u8(static_cast<std::uint8_t>(field));
    messages.push_back({0x05, 1, padded(fill)});
    FieldWriter layout;
    layout.u8(3);
    layout.u8(1);
    layout.u64(node.data_address);
    layout.u64(node.data_size);
    messages.push_back({0x08, 0, padded(layout)});
  }
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    const Attribute& attribute = node.attributes[i];
    const bool empty = attribute.texts.empty();
    FieldWriter type;
    if (empty) {
      write_float(type, 8, 11, 52, 1023);
    } else {
      write_string_type(type, attribute.charset);
    }
    FieldWriter space;
    const std::array<std::int64_t, 1> dims{static_cast<std::int64_t>(attribute.texts.size())};
    write_dataspace(space, std::span(dims).first(attribute.scalar ? 0 : 1));
    FieldWriter body;
    body.u8(1);
    body.u8(0);
    body.u16(static_cast<std::uint16_t>(attribute.name.size() + 1));
    body.u16(static_cast<std::uint16_t>(type.size()));
    body.u16(static_cast<std::uint16_t>(space.size()));
    body.text(attribute.name);
    body.u8(0);
    body.pad_to(8);
    body.raw(padded(type));
    body.raw(padded(space));
    for (const HeapReference& reference : node.references[i]) {
      body.u32(reference.length);
      body.u64(heap.address(reference));
      body.u32(reference.index);
    }
    messages.push_back({0x0c, 0, padded(body)});
  }
  return messages;
}

std::vector<std::byte> Hdf5Writer::Plan::group_metadata(const Node& node, std::uint64_t at) const {
  GroupBlocks blocks;
  for (const auto& [name, child] : node.children) {
    blocks.add(name, {0, child->header_address, child->is_group, child->tree_address, child->heap_address});
  }
  FieldWriter out;
  write_local_heap(out, blocks, at);
  std::vector<std::uint64_t> children;
  std::vector<std::uint64_t> last_names;
  for (std::size_t leaf = 0; leaf < blocks.leaves(); ++leaf) {
    children.push_back(at + out.size() + leaf * kLeafSize);
    last_names.push_back(blocks.entries[std::min(blocks.entries.size(), (leaf + 1) * kLeafEntries) - 1].name_offset);
  }
  write_leaves(out, blocks);
  const std::size_t levels = blocks.levels().size();
  for (std::size_t level = 0; level < levels; ++level) {
    write_tree_level(out, static_cast<std::uint8_t>(level), at + out.size(), children, last_names);
  }
  return std::move(out.bytes());
}

void Hdf5Writer::build() {
  if (plan_ != nullptr) return;
  auto plan = std::make_unique<Plan>();
  plan->visit(*root_);
  std::uint64_t at = kSuperblockSize;
  for (Node* node : plan->nodes) {
    node->header_address = at;
    node->header_size = object_header(plan->messages(*node)).size();
    at += node->header_size;
    if (!node->is_group) continue;
    GroupBlocks blocks;
    for (const auto& [name, child] : node->children) blocks.add(name, {});
    node->heap_address = at;
    at += blocks.total_size();
    node->tree_address = at - kTreeNodeSize;  // the tree's root node comes last
  }
  at = plan->heap.place(at);
  const std::uint64_t metadata_size = at;
  for (Node* node : plan->datasets) {
    if (node->data_size == 0) continue;
    at = align_up(at, kDataAlignment);
    node->data_address = at;
    at += node->data_size;
  }
  plan->size = at;

  FieldWriter out;
  out.text("\x89HDF\r\n\x1a\n");
  for (int field : {0, 0, 0, 0, 0, 8, 8, 0}) out.u8(static_cast<std::uint8_t>(field));
  out.u16(kLeafEntries / 2);
  out.u16(kTreeChildren / 2);
  out.u32(0);
  out.u64(0);
  out.u64(kUndefinedAddress);
  out.u64(plan->size);
  out.u64(kUndefinedAddress);
  write_symbol_entry(out, {0, root_->header_address, true, root_->tree_address, root_->heap_address});
  for (const Node* node : plan->nodes) {
    out.raw(object_header(plan->messages(*node)));
    if (node->is_group) out.raw(plan->group_metadata(*node, node->heap_address));
  }
  plan->heap.write(out);
  if (out.size() != metadata_size) throw_internal("the plan of an HDF5 file does not hold");
  plan->metadata = std::move(out.bytes());
  plan_ = std::move(plan);
}

std::uint64_t Hdf5Writer::size() {
  build();
  return plan_->size;
}

void Hdf5Writer::write(const ByteSink& sink) {
  build();
  sink(plan_->metadata);
  std::uint64_t at = plan_->metadata.size();
  const std::array<std::byte, kDataAlignment> zeros{};
  for (const Node* node : plan_->datasets) {
    if (node->data_size == 0) continue;
    if (node->data_address > at) sink(std::span(zeros).first(node->data_address - at));
    const TensorData tensor = node->source();
    if (tensor.dtype != node->dtype || tensor.shape != node->shape || tensor.bytes.size() != node->data_size) {
      throw_invalid_argument(fmt::format("a tensor of {} {} was planned for an HDF5 dataset, but {} {} came",
                                         dtype_name(node->dtype), node->shape.to_string(), dtype_name(tensor.dtype),
                                         tensor.shape.to_string()));
    }
    sink(tensor.bytes);
    at = node->data_address + node->data_size;
  }
}

}  // namespace lockstep::formats
