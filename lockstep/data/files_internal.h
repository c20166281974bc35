// Records of the files that a dataset names.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/formats/record_file_internal.h"

namespace lockstep::data {

// From "", "GZIP" or "ZLIB". Throws InvalidArgument for another text.
formats::RecordCompression compression_of(const std::string& type);

// The names as string scalars.
Dataset names_of(const std::vector<std::string>& filenames);

// The records of the files named by `names`, as string scalars; with `header` without each file's first one.
Dataset records_of(const Dataset& names, formats::RecordFormat format, const std::string& compression_type,
                   bool header = false);

// The names that match glob patterns, sorted.
std::vector<std::string> matching_files(const std::vector<std::string>& patterns);

}  // namespace lockstep::data
