// keras.utils.audio_dataset_from_directory.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/directory_dataset_internal.h"
#include "lockstep/ops/audio_functions.h"
#include "lockstep/ops/image_functions.h"

namespace lockstep::utils {

DirectoryDataset audio_dataset_from_directory(const std::string& directory, const AudioDatasetOptions& o) {
  if (o.output_sequence_length && *o.output_sequence_length < 0) {
    throw_invalid_argument(fmt::format("audio_dataset_from_directory: invalid output_sequence_length: found {}",
                                       *o.output_sequence_length));
  }
  DirectoryOptions options = directory_options("audio_dataset_from_directory", {".wav"}, o);
  options.pads_batches = !o.output_sequence_length;
  return dataset_from_directory(directory, options, [samples = o.output_sequence_length](const std::string& path) {
    try {
      return audio::decode_wav(io::read_file(path), {.desired_samples = samples.value_or(-1)}).audio;
    } catch (const Error& error) {
      throw_error(error.code(), fmt::format("audio_dataset_from_directory: '{}': {}", path, error.message()));
    }
  });
}

}  // namespace lockstep::utils
