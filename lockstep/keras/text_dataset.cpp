// keras.utils.text_dataset_from_directory.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/directory_dataset_internal.h"

namespace lockstep::utils {

DirectoryDataset text_dataset_from_directory(const std::string& directory, const TextDatasetOptions& o) {
  if (o.max_length && *o.max_length < 0)
    throw_invalid_argument(fmt::format("text_dataset_from_directory: invalid max_length: found {}", *o.max_length));
  return dataset_from_directory(directory, directory_options("text_dataset_from_directory", {".txt"}, o),
                                [length = o.max_length](const std::string& path) {
                                  const auto file = io::posix_file_system().map(path);
                                  const auto bytes = file->bytes();
                                  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                                  if (length && static_cast<std::int64_t>(text.size()) > *length)
                                    text.resize(static_cast<std::size_t>(*length));
                                  return Tensor::strings({std::move(text)}, Shape{});
                                });
}

}  // namespace lockstep::utils
