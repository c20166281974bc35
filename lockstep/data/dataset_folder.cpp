// Dataset.save and load. A folder as TensorFlow writes it:
//   dataset_spec.pb                              a StructuredValue: the structure of elements and their types
//   snapshot.metadata                            a SnapshotMetadataRecord: the name of the next folder, dtypes, a count
//   RUN/00000000.shard/00000000.snapshot         a TFRecord file: the components of each element as TensorProtos
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/formats/proto/snapshot.pb.h"
#include "lockstep/formats/proto/struct.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::data {
namespace {

constexpr const char* kSpecFile = "dataset_spec.pb";
constexpr const char* kMetadataFile = "snapshot.metadata";
constexpr const char* kRun = "1";
constexpr std::int64_t kTFRecordVersion = 2;

void write_spec(const ElementSpec& spec, tensorflow::StructuredValue* value) {
  if (spec.is_leaf()) {
    graph::shape_to_proto(spec.leaf().shape, value->mutable_tensor_spec_value()->mutable_shape());
    value->mutable_tensor_spec_value()->set_dtype(static_cast<tensorflow::DataType>(spec.leaf().dtype));
  } else if (spec.is_list()) {
    value->mutable_tuple_value();
    for (const ElementSpec& item : spec.parts()) write_spec(item, value->mutable_tuple_value()->add_values());
  } else {
    auto& fields = *value->mutable_dict_value()->mutable_fields();
    for (const auto& [name, item] : spec.entries()) write_spec(item, &fields[name]);
  }
}

template <typename Values>
ElementSpec::List read_specs(const Values& values);

ElementSpec read_spec(const tensorflow::StructuredValue& value) {
  if (value.has_tensor_spec_value()) {
    const auto& spec = value.tensor_spec_value();
    return TensorSpec(graph::shape_from_proto(spec.shape()), graph::dtype_from_proto(spec.dtype()));
  }
  if (value.has_tuple_value()) return ElementSpec::list(read_specs(value.tuple_value().values()));
  if (value.has_list_value()) return ElementSpec::list(read_specs(value.list_value().values()));
  if (value.has_dict_value()) {
    ElementSpec::Dict entries;
    for (const auto& [name, field] : value.dict_value().fields()) entries.emplace_back(name, read_spec(field));
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    return ElementSpec::dict(std::move(entries));
  }
  throw_unimplemented("the saved dataset has elements that are not tensors, tuples or dicts");
}

template <typename Values>
ElementSpec::List read_specs(const Values& values) {
  ElementSpec::List specs;
  for (const auto& value : values) specs.push_back(read_spec(value));
  return specs;
}

// Texts come as the varints of their sizes followed by their bytes, in the bytes of the tensor.
void unpack_strings(tensorflow::TensorProto& proto, const std::string& path) {
  if (proto.dtype() != tensorflow::DT_STRING || proto.tensor_content().empty()) return;
  const std::optional<std::int64_t> count = graph::shape_from_proto(proto.tensor_shape()).num_elements();
  const std::string content = proto.tensor_content();
  std::span<const std::byte> bytes = io::as_bytes(content);
  std::vector<std::uint64_t> sizes;
  for (std::int64_t i = 0; count && i < *count && !bytes.empty(); ++i)
    sizes.push_back(formats::take_varint(bytes).value_or(bytes.size() + 1));
  for (const std::uint64_t size : sizes) {
    if (size > bytes.size()) break;
    proto.add_string_val(reinterpret_cast<const char*>(bytes.data()), size);
    bytes = bytes.subspan(size);
  }
  if (!count || proto.string_val_size() != *count || !bytes.empty())
    throw_data_loss(fmt::format("{}: invalid texts of a tensor", path));
  proto.clear_tensor_content();
}

std::string join(const std::string& folder, const std::string& name) { return folder + "/" + name; }

template <typename Message>
Message read_message(const std::string& path) {
  Message message;
  formats::parse_proto(message, io::posix_file_system().map(path)->bytes(), path);
  return message;
}

// Element after element of the files of a saved dataset.
Dataset::Generator reader_of(const std::vector<std::string>& files, const ElementSpec& spec) {
  struct State {
    std::vector<std::string> files;
    ElementSpec spec;
    std::size_t next_file = 0;
    std::unique_ptr<formats::RecordReader> reader;
  };
  const auto state = std::make_shared<State>(State{files, spec, 0, nullptr});
  return [state, components = spec.num_leaves()]() -> std::optional<Element> {
    Tensors leaves;
    while (leaves.size() < components) {
      if (!state->reader) {
        if (state->next_file == state->files.size()) return std::nullopt;
        state->reader = std::make_unique<formats::RecordReader>(
            state->files[state->next_file++], formats::RecordFormat::kTFRecord, formats::RecordCompression::kNone);
      }
      const std::string& path = state->files[state->next_file - 1];
      const std::optional<std::string> record = state->reader->next();
      if (!record) {
        if (!leaves.empty()) throw_data_loss(fmt::format("{} ends within an element", path));
        state->reader.reset();
        continue;
      }
      tensorflow::TensorProto proto;
      formats::parse_proto(proto, io::as_bytes(*record), path);
      unpack_strings(proto, path);
      leaves.push_back(graph::tensor_from_proto(proto, path));
    }
    return state->spec.pack(leaves);
  };
}

}  // namespace

void Dataset::save(const std::string& path) const {
  if (cardinality() == kInfiniteCardinality)
    throw_invalid_argument(fmt::format("save: the dataset is infinite and cannot be written to '{}'", path));
  std::vector<std::string> owned{kSpecFile, kMetadataFile, kRun};
  auto& files = io::posix_file_system();
  if (files.stat(join(path, kMetadataFile)))
    owned.push_back(read_message<tensorflow::SnapshotMetadataRecord>(join(path, kMetadataFile)).run_id());
  io::AtomicDirectory folder(path, owned);
  const std::string run = join(folder.staging_path(), kRun), shard = join(run, "00000000.shard");
  files.make_directory(run);
  files.make_directory(shard);

  ElementSpec spec = element_spec();
  std::int64_t count = 0;
  {
    io::AtomicFile records(join(shard, "00000000.snapshot"));
    for (const Element& element : *this) {
      spec = count == 0 && spec.num_leaves() != element.num_leaves() ? spec_of(element)
                                                                     : merge_specs(spec, spec_of(element));
      for (const Tensor& leaf : element.flatten()) {
        tensorflow::TensorProto proto;
        graph::tensor_to_proto(leaf, &proto);
        records.append(formats::tfrecord(formats::serialize_proto(proto, path)));
      }
      ++count;
    }
    records.commit();
  }
  tensorflow::StructuredValue structure;
  write_spec(spec, &structure);
  io::write_atomically(join(folder.staging_path(), kSpecFile), formats::serialize_proto(structure, kSpecFile));
  tensorflow::SnapshotMetadataRecord metadata;
  metadata.set_run_id(kRun);
  metadata.set_version(kTFRecordVersion);
  for (const TensorSpec& leaf : spec.flatten()) metadata.add_dtype(static_cast<tensorflow::DataType>(leaf.dtype));
  metadata.set_num_elements(count);
  metadata.set_finalized(true);
  io::write_atomically(join(folder.staging_path(), kMetadataFile), formats::serialize_proto(metadata, kMetadataFile));
  folder.commit();
}

Dataset Dataset::load(const std::string& path) {
  auto& files = io::posix_file_system();
  if (!files.stat(join(path, kMetadataFile)))
    throw_not_found(fmt::format("'{}' is not a saved dataset: it has no {}", path, kMetadataFile));
  const auto metadata = read_message<tensorflow::SnapshotMetadataRecord>(join(path, kMetadataFile));
  const auto structure = read_message<tensorflow::StructuredValue>(join(path, kSpecFile));
  const ElementSpec spec = read_spec(structure);
  if (spec.num_leaves() == 0) throw_data_loss(fmt::format("{}: no tensor in elements", join(path, kSpecFile)));
  if (metadata.version() != kTFRecordVersion) {
    throw_unimplemented(
        fmt::format("the dataset '{}' was saved with compression: save it with compression=\"NONE\"", path));
  }
  if (metadata.run_id().empty() || metadata.run_id().find('/') != std::string::npos || metadata.run_id() == "..")
    throw_data_loss(fmt::format("{}: invalid run_id", join(path, kMetadataFile)));
  const std::string run = join(path, metadata.run_id());
  std::vector<std::string> records;
  for (const std::string& shard : files.list(run)) {
    for (const std::string& name : files.list(join(run, shard))) records.push_back(join(join(run, shard), name));
  }
  Dataset dataset = from_generator([records, spec] { return reader_of(records, spec); }, spec);
  return dataset.assert_cardinality(metadata.num_elements());
}

// Complete before its first element: what is in the folder does not depend on how far an iterator was read.
Dataset Dataset::snapshot(const std::string& path) const {
  const auto make = [dataset = *this, path]() -> Generator {
    if (!io::posix_file_system().stat(join(path, kMetadataFile))) dataset.save(path);
    const auto iterator = std::make_shared<DatasetIterator>(load(path).make_iterator());
    return [iterator] { return iterator->next(); };
  };
  const Dataset elements = from_generator(make, element_spec());
  return cardinality() >= 0 ? elements.assert_cardinality(cardinality()) : elements;
}

}  // namespace lockstep::data
