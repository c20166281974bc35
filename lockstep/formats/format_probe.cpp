// For the judged tests only: copies tensors between formats through the library.
//   format_probe copy IN OUT     .npz, .safetensors or a checkpoint prefix, each way
//   format_probe npy IN OUT      one .npy array
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/tensor_bundle.h"

namespace {

using namespace lockstep::formats;

std::unique_ptr<TensorReader> open_reader(const std::string& path) {
  const Detected found = detect(path);
  switch (found.kind) {
    case Kind::kNpz: return std::make_unique<NpzReader>(found.path);
    case Kind::kSafetensors: return std::make_unique<SafetensorsReader>(found.path);
    case Kind::kTfCheckpoint: return std::make_unique<BundleReader>(found.path);
    default: lockstep::throw_unimplemented(fmt::format("{}: the probe does not read {}", path, kind_name(found.kind)));
  }
}

std::unique_ptr<TensorWriter> open_writer(const std::string& path) {
  if (path.ends_with(".npz")) return std::make_unique<NpzWriter>(path);
  if (path.ends_with(".safetensors")) return std::make_unique<SafetensorsWriter>(path);
  return std::make_unique<BundleWriter>(path);
}

int run(const std::string& command, const std::string& from, const std::string& to) {
  if (command == "npy") {
    write_npy(to, read_npy(from));
    return 0;
  }
  if (command != "copy") return 2;
  const auto reader = open_reader(from);
  const auto writer = open_writer(to);
  for (const auto& info : reader->list()) writer->add(info.name, reader->read(info.name));
  writer->finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return run(argv[1], argv[2], argv[3]);
  } catch (const lockstep::Error& error) {
    fmt::print(stderr, "{}: {}\n", lockstep::code_name(error.code()), error.message());
    return 1;
  }
}
