// What text_dataset_from_directory and image_dataset_from_directory have in common.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/keras/utils.h"

namespace lockstep::utils {

// See TextDatasetOptions.
struct DirectoryOptions {
  std::string function;  // in errors
  std::vector<std::string_view> extensions;
  std::string_view labels, label_mode;
  std::vector<std::string> class_names;
  std::optional<std::int64_t> batch_size;
  bool shuffle = true;
  std::optional<std::int64_t> seed;
  std::optional<double> validation_split;
  std::optional<std::string> subset;
  bool follow_links = false;
  bool verbose = true;
  bool in_new_order_each_time = true;  // with shuffle
  bool prints_total = true;            // with verbose
  bool pads_batches = false;           // elements of different shapes get zeros
};
template <typename Options>
DirectoryOptions directory_options(std::string function, std::vector<std::string_view> extensions, const Options& o) {
  return {std::move(function),
          std::move(extensions),
          o.labels,
          o.label_mode,
          o.class_names,
          o.batch_size,
          o.shuffle,
          o.seed,
          o.validation_split,
          o.subset,
          o.follow_links,
          o.verbose};
}

// The files with these extensions, in Keras's order, each read by `read` for each iteration.
DirectoryDataset dataset_from_directory(const std::string& directory, const DirectoryOptions& options,
                                        const std::function<Tensor(const std::string& path)>& read);

}  // namespace lockstep::utils
