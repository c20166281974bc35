// Dataset.cache(filename): the elements in a tensor bundle, as TensorFlow stores them. Component c of element e has the
// key "<e>_<c>", both padded on the left, e to the width of TensorFlow's largest number of elements.
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMaxElements = 10000000;

std::string key_of(std::int64_t element, std::size_t component, std::size_t components) {
  return fmt::format("{:>{}}_{:>{}}", element, std::to_string(kMaxElements - 1).size(), component,
                     std::to_string(components - 1).size());
}

// The structure of elements, once one is known.
class KnownSpec {
 public:
  ElementSpec get(const DatasetNode& input) {
    const std::lock_guard lock(mutex_);
    if (!spec_) spec_ = input.element_spec();
    return *spec_;
  }
  void set(const Element& element) {
    const std::lock_guard lock(mutex_);
    if (!spec_) spec_ = spec_of(element);
  }

 private:
  std::mutex mutex_;
  std::optional<ElementSpec> spec_;
};

class FileCacheIterator : public NodeIterator {
 public:
  FileCacheIterator(NodePtr input, const std::string& filename, std::shared_ptr<KnownSpec> known)
      : node_(std::move(input)), filename_(filename), known_(std::move(known)) {
    begin();
  }
  bool next(Item& out) override {
    if (ended_) return false;
    if (reader_) return read(out);
    if (!input_->next(out)) {
      finish();
      return false;
    }
    write(out.element());
    ++position_;
    if (size_ == position_) finish();  // as in memory
    return true;
  }
  Json save() const override { return {{"start", start_}, {"position", position_}, {"ended", ended_}}; }
  void restore(const Json& state) override {
    const std::int64_t position = state_count(state, "position");
    begin();
    if (input_ && !state_at(state, "start").is_null()) input_->restore(start_ = state_at(state, "start"));
    advance(position);
    ended_ = state_at(state, "ended") == Json(true);
  }

 private:
  void finish() {
    writer_->finish();
    writer_.reset();
    ended_ = true;
  }
  void begin() {
    reader_.reset();
    writer_.reset();
    input_.reset();
    start_ = nullptr;
    position_ = 0;
    ended_ = false;
    if (io::posix_file_system().stat(filename_ + ".index")) {
      reader_ = std::make_unique<formats::BundleReader>(filename_);
      spec_ = known_->get(*node_);
      components_ = spec_.num_leaves();
    } else {
      input_ = node_->make_iterator();
      size_ = known(node_->cardinality());
      start_ = input_->save();
      writer_ = std::make_unique<formats::BundleWriter>(filename_);
    }
  }
  bool read(Item& out) {
    if (!reader_->contains(key_of(position_, 0, components_))) {
      ended_ = true;
      return false;
    }
    Tensors leaves;
    for (std::size_t i = 0; i < components_; ++i)
      leaves.push_back(Tensor::from_data(reader_->read(key_of(position_, i, components_))));
    out = Item(spec_.pack(leaves));
    ++position_;
    return true;
  }
  void write(const Element& element) {
    if (position_ >= static_cast<std::int64_t>(kMaxElements)) {
      throw_invalid_argument(
          fmt::format("cache '{}' has room for {} elements: remove it and do not cache in a file, or cache batches",
                      filename_, kMaxElements));
    }
    known_->set(element);
    const Tensors leaves = element.flatten();
    for (std::size_t i = 0; i < leaves.size(); ++i)
      writer_->add(key_of(position_, i, leaves.size()), leaves[i].to_data());
  }

  NodePtr node_;
  std::string filename_;
  std::shared_ptr<KnownSpec> known_;
  std::unique_ptr<formats::BundleReader> reader_;  // where the files were there
  std::unique_ptr<NodeIterator> input_;            // else
  std::optional<std::int64_t> size_;               // of the input, where it is known
  std::unique_ptr<formats::BundleWriter> writer_;
  Json start_;  // where the input stood when the pass began
  ElementSpec spec_;
  std::size_t components_ = 1;
  std::int64_t position_ = 0;
  bool ended_ = false;
};

class FileCacheNode : public PassingNode {
 public:
  FileCacheNode(NodePtr input, std::string filename)
      : PassingNode("cache", {std::move(input)}), filename_(std::move(filename)) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<FileCacheIterator>(input(), filename_, known_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return file_cache_node(inputs[0], filename_); }

 private:
  std::string filename_;
  std::shared_ptr<KnownSpec> known_ = std::make_shared<KnownSpec>();
};

}  // namespace

NodePtr file_cache_node(NodePtr input, std::string filename) {
  return std::make_shared<FileCacheNode>(std::move(input), std::move(filename));
}

}  // namespace lockstep::data
