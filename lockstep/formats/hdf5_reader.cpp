#include "lockstep/formats/hdf5_reader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/formats/hdf5_dense_internal.h"
#include "lockstep/formats/hdf5_image_internal.h"
#include "lockstep/formats/hdf5_messages_internal.h"
#include "lockstep/formats/hdf5_symbols_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

using hdf5::Extent;
using hdf5::Fields;
using hdf5::Image;
using hdf5::kUndefinedAddress;
using hdf5::Message;
using hdf5::Storage;

namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kCopyBlock = std::size_t{4} << 20;
constexpr std::uint64_t kFreeBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kFreeSteps = 4096;

// Real files need about a step for each 30 bytes, and their names and attributes hardly more memory than they take in
// the file. An entry of 16 bytes becomes a node of some 200.
io::Budget parse_budget(std::uint64_t file_size) {
  return io::Budget(kFreeBytes + 16 * file_size, kFreeSteps + file_size / 4);
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
  explicit Parser(State& state) : state_(state), image_(state.image), headers_(image_), heaps_(image_) {
    image_.structure = &structure_;
  }
  ~Parser() { image_.structure = nullptr; }

  void run() {
    parse_object(find_root(), state_.root, 0);
    if (state_.root.kind != Hdf5Node::Kind::kGroup) image_.damaged(0, "the root is not a group");
    // A damaged address makes a link of one object a link of another.
    for (const auto& [address, links] : links_) {
      if (links.found != links.declared) {
        image_.damaged(address,
                       fmt::format("an object with {} links, but it declares {}", links.found, links.declared));
      }
    }
    check_overlaps();
  }

  void run_root_attributes() { parse_attributes(headers_.read(find_root()), state_.root); }

 private:
  std::uint64_t find_root() {
    const std::uint64_t at = hdf5::find_signature(image_.bytes);
    if (at == kUndefinedAddress) {
      throw_data_loss(fmt::format("{}: not an HDF5 file: its signature is missing", image_.what));
    }
    image_.base = at;
    return headers_.read_superblock();
  }

  void parse_object(std::uint64_t address, Hdf5Node& node, int depth) {
    if (depth > kMaxDepth) image_.damaged(address, fmt::format("groups nested deeper than {}", kMaxDepth));
    if (!path_.insert(address).second) image_.damaged(address, "a group that contains itself");
    std::uint64_t declared_links = 0;
    const auto messages = headers_.read(address, &declared_links);
    Links& links = links_[address];
    links.declared = declared_links;
    if (counting_) ++links.found;
    // A group that is reached a second time has no other links than the first time.
    const bool counted = std::exchange(counting_, counting_ && links.found == 1);
    auto has = [&](int type) {
      return std::any_of(messages.begin(), messages.end(), [&](const Message& m) { return m.type == type; });
    };
    parse_attributes(messages, node);
    const bool is_group = has(0x11) || has(0x02) || has(0x06) || has(0x0a);
    if (has(0x08) || has(0x01)) {
      if (is_group) image_.damaged(address, "an object that is both a group and a dataset");
      parse_dataset(messages, node);
      count_references();
    } else if (is_group) {
      parse_group(messages, node, depth);
    } else if (has(0x03)) {
      node.kind = Hdf5Node::Kind::kLink;
      node.unreadable_reason = "it is a named datatype";
    } else {
      image_.damaged(address, "an object that is not a group, a dataset or a datatype");
    }
    path_.erase(address);
    counting_ = counted;
  }

  // With a damaged address, a dataset would have the values of another one, or metadata.
  void check_overlaps() {
    const auto by_begin = [](const Extent& a, const Extent& b) { return a.begin < b.begin; };
    std::sort(values_.begin(), values_.end(), by_begin);
    std::sort(structure_.begin(), structure_.end(), by_begin);
    const auto fail = [&](const Extent& extent) {
      image_.damaged(extent.begin, fmt::format("the {} bytes of a dataset's values overlap other parts of the file",
                                               extent.end - extent.begin));
    };
    std::size_t next = 0;
    std::uint64_t end = 0;  // of the metadata that begin before the values
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (i + 1 < values_.size() && values_[i + 1].begin < values_[i].end) fail(values_[i]);
      for (; next < structure_.size() && structure_[next].begin < values_[i].end; ++next) {
        end = std::max(end, structure_[next].end);
      }
      if (end > values_[i].begin) fail(values_[i]);
    }
  }

  // A message in a named datatype is also a link to the datatype.
  void count_references() {
    for (const auto& [address, declared] : headers_.take_references()) {
      Links& links = links_[address];
      links.declared = declared;
      if (counting_) ++links.found;
    }
  }

  void parse_group(const std::vector<Message>& messages, Hdf5Node& node, int depth) {
    count_references();
    node.kind = Hdf5Node::Kind::kGroup;
    for (const Message& message : messages) {
      Fields fields(image_, message.body);
      if (message.type == 0x11) {
        const auto tree = fields.address();
        const auto heap = fields.address();
        if (fields.left() >= 8) image_.damaged(fields.offset(), "a symbol table message of the wrong size");
        for (const hdf5::Symbol& symbol : hdf5::read_symbol_table(image_, tree, heap)) {
          add_child(node, symbol.name, symbol.soft_link ? "it is a soft link" : "", symbol.address, depth);
        }
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
      add_child(node, std::move(name), type == 1 ? "it is a soft link" : "it is an external or user-defined link", 0,
                depth);
      node.children.back().external = type != 1;
    }
  }

  void add_child(Hdf5Node& node, std::string name, std::string unreadable_reason, std::uint64_t address, int depth) {
    image_.charge_steps(1, address);
    image_.charge_bytes(sizeof(Hdf5Node) + name.size(), address);
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      image_.damaged(address, fmt::format("invalid name of a group or dataset: \"{}\"", name));
    }
    Hdf5Node& child = node.children.emplace_back();
    child.name = std::move(name);
    if (unreadable_reason.empty()) {
      parse_object(address, child, depth + 1);
    } else {
      child.kind = Hdf5Node::Kind::kLink;
      child.unreadable_reason = std::move(unreadable_reason);
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
    image_.charge_steps(1, 0);
    image_.charge_bytes(sizeof(Hdf5Attribute) + body.size(), 0);
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
    if (version > 1 && (flags & 1) != 0) type_bytes = headers_.follow_shared(type_bytes, 0x03);
    if (version > 1 && (flags & 2) != 0) space_bytes = headers_.follow_shared(space_bytes, 0x01);
    Hdf5Attribute attribute;
    attribute.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
    if (attribute.name.find('\0') + 1 != name.size() || name.size() < 2)
      image_.damaged(fields.offset(), fmt::format("an attribute name that does not fill its {} bytes", name.size()));
    attribute.name.pop_back();
    const auto type = hdf5::parse_datatype(image_, type_bytes);
    const auto space = hdf5::parse_dataspace(image_, space_bytes);
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(space.count, type.size, &size))
      image_.damaged(fields.offset(), "an attribute too large");
    auto data = fields.take(size);
    TensorData& value = attribute.value;
    if (type.kind == hdf5::Datatype::Kind::kUnreadable || space.null) return attribute;
    if (type.dtype == DType::kString) {
      value.strings = hdf5::read_strings(image_, type, space.count, data, heaps_);
      value.shape = Shape(space.dims);
      value.dtype = DType::kString;
    } else {
      std::vector<std::byte> copy(data.begin(), data.end());
      if (type.big_endian) io::swap_bytes(copy, type.size);
      value = TensorData::copy_of(type.dtype, Shape(space.dims), copy);
    }
    return attribute;
  }

  void parse_dataset(const std::vector<Message>& messages, Hdf5Node& node) {
    node.kind = Hdf5Node::Kind::kDataset;
    Storage storage;
    // A second message of the type would be merged into the first one.
    const auto count = [&messages](int type) {
      return std::count_if(messages.begin(), messages.end(), [type](const Message& each) { return each.type == type; });
    };
    for (const auto& [type, what] :
         {std::pair{0x01, "shapes"}, {0x03, "datatypes"}, {0x08, "layouts"}, {0x0b, "filter pipelines"}}) {
      if (count(type) > 1) image_.damaged(0, fmt::format("dataset \"{}\" has two {}", node.name, what));
    }
    for (const Message& message : messages) {
      switch (message.type) {
        case 0x01: storage.space = hdf5::parse_dataspace(image_, headers_.shared_body(message)); break;
        case 0x03: storage.type = hdf5::parse_datatype(image_, headers_.shared_body(message)); break;
        case 0x05: storage.fill_is_zero = hdf5::fill_is_zero(image_, headers_.shared_body(message)); break;
        case 0x07:
          node.unreadable_reason = "its values are in another file";
          node.external = true;
          break;
        case 0x0b: storage.filters = hdf5::parse_filters(image_, headers_.shared_body(message)); break;
        default: break;
      }
    }
    if (count(0x01) == 0 || count(0x03) == 0 || count(0x08) == 0)
      image_.damaged(0, fmt::format("dataset \"{}\" has no datatype, shape or layout", node.name));
    for (const Message& message : messages) {
      if (message.type != 0x08) continue;
      if (auto unreadable_reason = hdf5::parse_layout(image_, message.body, storage); !unreadable_reason.empty())
        node.unreadable_reason = std::move(unreadable_reason);
      node.external = node.external || storage.is_virtual;
    }
    finish_dataset(std::move(storage), node);
  }

  void finish_dataset(Storage storage, Hdf5Node& node) {
    hdf5::Datatype& type = storage.type;
    const Hdf5Attribute* declared = node.attribute("dtype");
    if (type.opaque2 && declared != nullptr && declared->value.strings == std::vector<std::string>{"bfloat16"}) {
      type.kind = hdf5::Datatype::Kind::kNumber;
      type.dtype = DType::kBFloat16;
    }
    node.shape = Shape(storage.space.dims);
    if (node.unreadable_reason.empty() && type.kind == hdf5::Datatype::Kind::kUnreadable) {
      node.unreadable_reason = fmt::format("its elements are {}", type.name);
    }
    if (node.unreadable_reason.empty() && storage.space.null)
      node.unreadable_reason = "it has no values (a null dataspace)";
    for (const auto& filter : storage.filters) {
      if (filter.id != 1 && filter.id != 2 && filter.id != 3 && filter.id != 32000 && node.unreadable_reason.empty()) {
        node.unreadable_reason = fmt::format("its chunks are stored with filter {}", filter.id);
      }
    }
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(storage.space.count, type.size, &size) || size >> 62 != 0) {
      image_.damaged(
          0, fmt::format("dataset \"{}\" of {} is larger than memory can be", node.name, node.shape.to_string()));
    }
    if (node.unreadable_reason.empty()) {
      node.dtype = type.dtype;
      if (size > values_left_) {
        image_.damaged(0, fmt::format("its datasets together declare more bytes than a file of {} bytes can hold, the "
                                      "next one is \"{}\" of {}",
                                      image_.bytes.size(), node.name, node.shape.to_string()));
      }
      values_left_ -= size;
      if (storage.layout == Storage::Layout::kCompact && storage.size < size) {
        image_.damaged(0,
                       fmt::format("dataset \"{}\" is shorter than its shape {}", node.name, node.shape.to_string()));
      }
      if (storage.layout == Storage::Layout::kContiguous) {
        if (storage.size != size) {
          image_.damaged(storage.address,
                         fmt::format("dataset \"{}\" of {} bytes is stored in {}", node.name, size, storage.size));
        }
        if (storage.address != kUndefinedAddress && size > 0) {
          image_.block(storage.address, size);
          if (counting_) values_.push_back({storage.address, storage.address + size});
        }
      }
    }
    node.storage = state_.storages.size();
    state_.storages.push_back(std::move(storage));
  }

  State& state_;
  Image& image_;
  hdf5::MessageReader headers_;
  struct Links {
    std::uint64_t declared = 0;
    std::uint64_t found = 0;
  };
  std::map<std::uint64_t, Links> links_;  // by the address of the object
  bool counting_ = true;
  std::vector<Extent> structure_, values_;  // of metadata, and of the values of contiguous datasets
  std::set<std::uint64_t> path_;
  hdf5::GlobalHeaps heaps_;
  std::uint64_t values_left_ = io::most_expanded(image_.bytes.size());  // that the datasets together may declare
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
  io::Budget budget = parse_budget(image.size());
  state_->image.budget = &budget;
  Parser(*state_).run();
  state_->image.budget = nullptr;
}
Hdf5File::~Hdf5File() = default;
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;

bool Hdf5File::has_root_attribute(std::span<const std::byte> image, std::string_view name, std::string what) {
  State state;
  state.image.bytes = image;
  state.image.what = std::move(what);
  io::Budget budget = parse_budget(image.size());
  state.image.budget = &budget;
  Parser(state).run_root_attributes();
  return state.root.attribute(name) != nullptr;
}

bool Hdf5File::recognise(std::span<const std::byte> image) { return hdf5::find_signature(image) != kUndefinedAddress; }

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
  if (dataset.kind != Hdf5Node::Kind::kDataset || !dataset.unreadable_reason.empty()) {
    throw_invalid_argument(
        fmt::format("{}: \"{}\" cannot be read: {}", image.what, dataset.name,
                    dataset.unreadable_reason.empty() ? "it is a group" : dataset.unreadable_reason));
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
    Image charged = image;
    io::Budget budget(kFreeBytes + 64 * image.bytes.size(), kFreeSteps + image.bytes.size() / 4);
    charged.budget = &budget;
    hdf5::GlobalHeaps heaps(charged);
    tensor.strings = hdf5::read_strings(charged, storage.type, storage.space.count, bytes, heaps);
    return tensor;
  }
  // A boolean is copied, so that each of its bytes can be made 0 or 1.
  if (contiguous && size > 0 && !storage.type.big_endian && dataset.dtype != DType::kBool) {
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
  if (dataset.kind != Hdf5Node::Kind::kDataset || !dataset.unreadable_reason.empty() ||
      dataset.dtype == DType::kString) {
    throw_invalid_argument(
        fmt::format("{}: \"{}\" cannot be read as numbers: {}", image.what, dataset.name,
                    dataset.unreadable_reason.empty() ? "it is a group or holds text" : dataset.unreadable_reason));
  }
  const Storage& storage = state_->storages[dataset.storage];
  const std::uint64_t size = storage.space.count * storage.type.size;
  if (target.size() != size) {
    throw_invalid_argument(fmt::format("{}: \"{}\" holds {} bytes, but {} are to be filled", image.what, dataset.name,
                                       size, target.size()));
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
    if (!storage.fill_is_zero) image.unsupported("a dataset that was never written and has a fill value");
    std::memset(target.data(), 0, size);
  }
  if (storage.type.big_endian) io::swap_bytes(target, storage.type.size);
  if (dataset.dtype == DType::kBool) {
    for (std::byte& value : target) value = value == std::byte{0} ? std::byte{0} : std::byte{1};
  }
}

}  // namespace lockstep::formats
