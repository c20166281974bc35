// Writes an array as NumPy does and reads it back, with nothing but the file formats.
#include <cstring>
#include <iostream>
#include <vector>

#include <lockstep/formats/formats.h>

int main(int, char** argv) {
  namespace ls = lockstep;
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto written = ls::formats::TensorData::copy_of(ls::DType::kFloat32, {2, 3}, std::as_bytes(std::span(values)));
  ls::formats::write_npy(argv[1], written);
  const auto read = ls::formats::read_npy(argv[1]);
  if (read.shape != written.shape || std::memcmp(read.bytes.data(), values.data(), read.bytes.size()) != 0) {
    std::cerr << argv[1] << " came back with other values\n";
    return 1;
  }
  try {
    ls::formats::read_npy("/nonexistent.npy");
  } catch (const ls::Error& error) {  // errors cross the library's border
    return 0;
  }
  std::cerr << "no error for a file that is not there\n";
  return 1;
}
