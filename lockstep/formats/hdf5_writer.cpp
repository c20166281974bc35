#include "lockstep/formats/hdf5_writer.h"

#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_encoding_internal.h"
#include "lockstep/formats/hdf5_group_blocks_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/paths_internal.h"

namespace lockstep::formats {
namespace {

using hdf5::EncodedMessage;
using hdf5::FieldWriter;
using hdf5::GroupBlocks;
using hdf5::kUndefinedAddress;

constexpr std::uint64_t kSuperblockSize = 96;
constexpr std::uint64_t kDataAlignment = 64;  // so that a mapping of the file can be used in place
constexpr std::size_t kHeapMinimum = 4096;    // of a global heap collection
constexpr std::size_t kHeapTarget = 1 << 20;
constexpr std::size_t kMaxAttributeStrings = 4032;  // of 16 bytes each: 64512, as much as Keras puts into an attribute

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
  std::vector<EncodedMessage> messages(const Node& node) const;
  // With the places that its children have so far.
  static GroupBlocks blocks_of(const Node& node);
};

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
    if (!io::is_entry_name(part) || (slash != std::string_view::npos && rest.empty())) {
      throw_invalid_argument(fmt::format("\"{}\" cannot be a path in an HDF5 file: bad part \"{}\"", path, part));
    }
    if (!node->is_group) throw_already_exists(fmt::format("\"{}\": a dataset has the name of a group", path));
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
    throw_already_exists(fmt::format("\"{}\": a dataset has the name of a group", path));
  }
}

void Hdf5Writer::add_dataset(std::string_view path, DType dtype, const Shape& shape, TensorSource source) {
  if (!hdf5::datatype_of(dtype)) {
    throw_invalid_argument(
        fmt::format("\"{}\": dtype {} cannot be stored in an HDF5 file of Keras", path, dtype_name(dtype)));
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
  if (text.size() > 0xffffffffu)
    throw_invalid_argument(fmt::format("attribute {} of \"{}\" exceeds 4 GiB", name, path));
  node.attributes.push_back({std::string(name), true, {std::string(text)}, charset});
}

void Hdf5Writer::set_attribute(std::string_view path, std::string_view name, const std::vector<std::string>& texts,
                               Hdf5Charset charset) {
  Node& node = node_at(path, false);
  if (texts.size() > kMaxAttributeStrings) {
    throw_invalid_argument(fmt::format("attribute {} of \"{}\" has {} strings, at most {} fit", name, path,
                                       texts.size(), kMaxAttributeStrings));
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

std::vector<EncodedMessage> Hdf5Writer::Plan::messages(const Node& node) const {
  std::vector<EncodedMessage> messages;
  FieldWriter out;
  if (node.is_group) {
    out.u64(node.tree_address);
    out.u64(node.heap_address);
    messages.push_back({0x11, 0, hdf5::padded(out)});
  } else {
    hdf5::write_dataspace(out, node.shape.dims());
    messages.push_back({0x01, 0, hdf5::padded(out)});
    FieldWriter type;
    type.raw(*hdf5::datatype_of(node.dtype));
    messages.push_back({0x03, 1, hdf5::padded(type)});
    FieldWriter fill;
    for (int field : {2, 2, 2, 1, 0, 0, 0, 0}) fill.u8(static_cast<std::uint8_t>(field));
    messages.push_back({0x05, 1, hdf5::padded(fill)});
    FieldWriter layout;
    layout.u8(3);
    layout.u8(1);
    layout.u64(node.data_address);
    layout.u64(node.data_size);
    messages.push_back({0x08, 0, hdf5::padded(layout)});
  }
  for (std::size_t i = 0; i < node.attributes.size(); ++i) {
    const Attribute& attribute = node.attributes[i];
    const bool empty = attribute.texts.empty();
    FieldWriter type;
    if (empty) {
      type.raw(*hdf5::datatype_of(DType::kFloat64));
    } else {
      hdf5::write_string_type(type, attribute.charset);
    }
    FieldWriter space;
    const std::array<std::int64_t, 1> dims{static_cast<std::int64_t>(attribute.texts.size())};
    hdf5::write_dataspace(space, std::span(dims).first(attribute.scalar ? 0 : 1));
    FieldWriter body;
    body.u8(1);
    body.u8(0);
    body.u16(static_cast<std::uint16_t>(attribute.name.size() + 1));
    body.u16(static_cast<std::uint16_t>(type.size()));
    body.u16(static_cast<std::uint16_t>(space.size()));
    body.text(attribute.name);
    body.u8(0);
    body.pad_to(8);
    body.raw(hdf5::padded(type));
    body.raw(hdf5::padded(space));
    for (const HeapReference& reference : node.references[i]) {
      body.u32(reference.length);
      body.u64(heap.address(reference));
      body.u32(reference.index);
    }
    messages.push_back({0x0c, 0, hdf5::padded(body)});
  }
  return messages;
}

GroupBlocks Hdf5Writer::Plan::blocks_of(const Node& node) {
  GroupBlocks blocks;
  for (const auto& [name, child] : node.children) {
    blocks.add(name, {0, child->header_address, child->is_group, child->tree_address, child->heap_address});
  }
  return blocks;
}

void Hdf5Writer::build() {
  if (plan_ != nullptr) return;
  auto plan = std::make_unique<Plan>();
  plan->visit(*root_);
  std::uint64_t at = kSuperblockSize;
  for (Node* node : plan->nodes) {
    node->header_address = at;
    node->header_size = hdf5::object_header(plan->messages(*node)).size();
    at += node->header_size;
    if (!node->is_group) continue;
    const GroupBlocks blocks = Plan::blocks_of(*node);
    node->heap_address = at;
    node->tree_address = blocks.tree_address(at);
    at += blocks.size();
  }
  at = plan->heap.place(at);
  const std::uint64_t metadata_size = at;
  for (Node* node : plan->datasets) {
    if (node->data_size == 0) continue;
    at = io::align_up(at, kDataAlignment);
    node->data_address = at;
    at += node->data_size;
  }
  plan->size = at;

  FieldWriter out;
  out.text("\x89HDF\r\n\x1a\n");
  for (int field : {0, 0, 0, 0, 0, 8, 8, 0}) out.u8(static_cast<std::uint8_t>(field));
  out.u16(hdf5::kLeafEntries / 2);
  out.u16(hdf5::kTreeChildren / 2);
  out.u32(0);
  out.u64(0);
  out.u64(kUndefinedAddress);
  out.u64(plan->size);
  out.u64(kUndefinedAddress);
  hdf5::write_symbol_entry(out, {0, root_->header_address, true, root_->tree_address, root_->heap_address});
  for (const Node* node : plan->nodes) {
    out.raw(hdf5::object_header(plan->messages(*node)));
    if (node->is_group) out.raw(Plan::blocks_of(*node).bytes(node->heap_address));
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
