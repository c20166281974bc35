// Internal to the HDF5 writer: datatypes, shapes and object headers as bytes (HDF5 File Format Specification, IV.A).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/formats/hdf5_checksum_internal.h"
#include "lockstep/formats/hdf5_writer.h"

namespace lockstep::formats::hdf5 {

struct EncodedMessage {
  std::uint16_t type = 0;
  std::uint8_t flags = 0;
  std::vector<std::byte> body;
};

// The datatype message of a dataset; empty for a dtype that HDF5 files of Keras do not hold.
std::optional<std::vector<std::byte>> datatype_of(DType dtype);

// A string of any length, kept in the global heap.
void write_string_type(FieldWriter& out, Hdf5Charset charset);

void write_dataspace(FieldWriter& out, std::span<const std::int64_t> dims);

// The bytes written to `out`, padded to eight bytes.
std::vector<std::byte> padded(FieldWriter& out);

// A version-1 object header with its messages in one block.
std::vector<std::byte> object_header(const std::vector<EncodedMessage>& messages);

}  // namespace lockstep::formats::hdf5
