// `.keras` archives: config.json, model.weights.h5 and assets in a zip, or the same in a folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// The Keras whose files we write, as metadata.json names it.
inline constexpr std::string_view kKerasVersion = "3.15.1";

struct KerasAsset {
  std::string path;  // below "assets/": "layers/string_lookup/vocabulary.txt"
  std::string bytes;
};

// The content of a `.keras` archive that is written.
struct KerasArchivePlan {
  Json config;
  WeightsPlan weights;
  std::vector<KerasAsset> assets;
  std::string keras_version{kKerasVersion};
};

// Writes the archive as one transaction. The same plan gives the same bytes: `date_saved` is the time in the
// environment variable SOURCE_DATE_EPOCH, or 1980-01-01@00:00:00 as all the zip's dates are. Weights are streamed:
// no second copy of them is made. Throws InvalidArgument for an asset path that leaves its folder.
void write_keras_archive(const std::string& path, const KerasArchivePlan& plan,
                         io::FileSystem& files = io::posix_file_system());
// The unzipped form, a folder that appears whole.
void write_keras_directory(const std::string& path, const KerasArchivePlan& plan,
                           io::FileSystem& files = io::posix_file_system());

class KerasArchive {
 public:
  // A `.keras` zip or a folder that holds config.json. Throws NotFound, DataLoss, and Unimplemented for weights
  // in a `.npz` (pickled, never read).
  static KerasArchive open(const std::string& path, io::FileSystem& files = io::posix_file_system());

  const Json& config() const { return config_; }
  const Json& metadata() const { return metadata_; }  // null without metadata.json
  const KerasWeights& weights() const { return *weights_; }
  // Paths below "assets/". Those that would leave the folder are not listed.
  std::vector<std::string> assets() const;
  // Throws NotFound.
  std::string asset(const std::string& asset_path) const;

 private:
  struct Source;
  std::shared_ptr<const Source> source_;
  Json config_;
  Json metadata_;
  std::shared_ptr<const KerasWeights> weights_;
};

}  // namespace lockstep::formats
