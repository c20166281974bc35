#include "lockstep/train/checkpoint_files_internal.h"

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"

namespace lockstep::train {

bool is_shard(const std::string& file, const std::string& prefix) {
  const std::string pattern = ".data-#####-of-#####";
  if (file.size() != prefix.size() + pattern.size() || !file.starts_with(prefix)) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '#' && pattern[i] != file[prefix.size() + i]) return false;
  }
  return true;
}

bool delete_checkpoint(const std::string& prefix) {
  // The index first, so that the rest is never mistaken for a checkpoint.
  auto& files = io::posix_file_system();
  const std::string index = formats::bundle_index_path(prefix);
  try {
    // Somebody else may have removed it, as tutorials do with the folders of workers that are not the chief.
    if (io::is_file(files, index)) files.remove_file(index);
    if (io::is_file(files, prefix + ".meta")) files.remove_file(prefix + ".meta");
    const std::string folder = io::parent_directory(prefix);
    if (!io::is_directory(files, folder)) return true;
    for (const std::string& name : files.list(folder)) {
      if (is_shard(name, io::base_name(prefix))) files.remove_file(io::join_path(folder, name));
    }
  } catch (const Error& error) {
    log_warning("{}: could not be deleted: {}", prefix, error.message());
    return false;
  }
  return true;
}

}  // namespace lockstep::train
