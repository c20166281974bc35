#include "lockstep/formats/saved_model_fingerprint_internal.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/fingerprint.pb.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/fingerprint_internal.h"

namespace lockstep::formats {
namespace {

using io::fingerprint64;
using io::fingerprint_cat;

// Of files of this version, saved_model_checksum is the fingerprint of the message's deterministic serialization. That
// of later versions of TensorFlow depends on how its protobuf library serializes.
constexpr int kProducer = 1;

// Until version 2.13 TensorFlow left the names of the signatures out.
std::uint64_t signature_hash(const tensorflow::MetaGraphDef& meta, bool with_names = true) {
  std::map<std::string, const tensorflow::SignatureDef*> sorted;
  for (const auto& [key, def] : meta.signature_def()) sorted.emplace(key, &def);
  std::uint64_t hash = 0;
  for (const auto& [key, def] : sorted) {
    if (with_names) hash = fingerprint_cat(hash, fingerprint64(key));
    hash = fingerprint_cat(hash, fingerprint64(serialize_proto(*def, "signature")));
  }
  return hash;
}

// In the order of the numbers at the end of the functions' names, which the hash does not contain.
std::uint64_t objects_hash(const tensorflow::SavedObjectGraph& objects) {
  struct Item {
    std::uint64_t number;
    std::string name;
    const tensorflow::SavedConcreteFunction* function;
  };
  std::vector<Item> items;
  for (const auto& [name, function] : objects.concrete_functions()) {
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    std::uint64_t number = 0;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    items.push_back({number, name.substr(0, digits), &function});
  }
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return std::tie(a.number, a.name) < std::tie(b.number, b.name); });
  std::uint64_t hash = 0;
  for (const Item& item : items) {
    hash = fingerprint_cat(hash, fingerprint64(item.name));
    hash = fingerprint_cat(hash, fingerprint64(serialize_proto(*item.function, "function")));
  }
  return hash;
}

}  // namespace

std::string saved_model_fingerprint(const tensorflow::SavedModel& model, std::string_view bytes,
                                    std::string_view index) {
  const auto& meta = model.meta_graphs(0);
  tensorflow::FingerprintDef fingerprint;
  fingerprint.set_saved_model_checksum(fingerprint64(bytes));
  fingerprint.set_graph_def_program_hash(fingerprint64(serialize_proto(meta.graph_def(), "graph")));
  fingerprint.set_signature_def_hash(signature_hash(meta));
  fingerprint.set_saved_object_graph_hash(objects_hash(meta.object_graph_def()));
  fingerprint.set_checkpoint_hash(fingerprint64(index));
  fingerprint.mutable_version()->set_producer(kProducer);
  return serialize_proto(fingerprint, "fingerprint.pb");
}

void check_saved_model_fingerprint(const std::string& directory, io::FileSystem& files) {
  const std::string path = io::join_path(directory, "fingerprint.pb");
  const std::string model_path = io::join_path(directory, "saved_model.pb");
  // The fingerprint is of the bytes, not of text.
  if (!io::is_file(files, path) || !io::is_file(files, model_path)) return;
  tensorflow::FingerprintDef stored;
  parse_proto(stored, files.map(path)->bytes(), path);
  const auto model_file = files.map(model_path);
  tensorflow::SavedModel model;
  parse_proto(model, model_file->bytes(), model_path);
  if (model.meta_graphs_size() == 0) throw_data_loss(model_path + ": no meta graph");
  const auto expect = [&](std::uint64_t found, std::uint64_t expected, const std::string& where, const char* what) {
    if (found == expected) return;
    throw_data_loss(
        fmt::format("{}: its {} have the fingerprint {:016x}, but {} has {:016x}: one of the files is damaged, or was "
                    "changed after the model was saved",
                    where, what, found, path, expected));
  };
  const auto& meta = model.meta_graphs(0);
  if (signature_hash(meta, false) != stored.signature_def_hash()) {
    expect(signature_hash(meta), stored.signature_def_hash(), model_path, "signatures");
  }
  expect(objects_hash(meta.object_graph_def()), stored.saved_object_graph_hash(), model_path, "objects");
  if (stored.version().producer() == 0) {
    expect(fingerprint64(serialize_proto(meta.graph_def(), model_path)), stored.saved_model_checksum(), model_path,
           "graph");
  }
  if (stored.version().producer() == kProducer) {
    // TensorFlow hashes the message before it is written, this library the written bytes.
    const std::uint64_t bytes = fingerprint64(io::as_text(model_file->bytes()));
    if (bytes != stored.saved_model_checksum()) {
      expect(fingerprint64(serialize_proto(model, model_path)), stored.saved_model_checksum(), model_path, "bytes");
    }
  }
  const std::string index = bundle_index_path(io::join_path(directory, "variables/variables"));
  if (io::is_file(files, index)) {
    expect(fingerprint64(io::as_text(files.map(index)->bytes())), stored.checkpoint_hash(), index, "bytes");
  }
}

}  // namespace lockstep::formats
