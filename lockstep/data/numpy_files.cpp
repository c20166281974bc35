#include "lockstep/data/numpy_files.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/npy.h"

namespace lockstep::np {
namespace {

std::string with_suffix(const std::string& path, std::string_view suffix) {
  return path.ends_with(suffix) ? path : path + std::string(suffix);
}

template <typename Entries>
void write(const std::string& path, const Entries& arrays) {
  formats::NpzWriter writer(with_suffix(path, ".npz"));
  for (const auto& [name, array] : arrays) writer.add(name, array.to_data());
  writer.finish();
}

}  // namespace

const Tensor& Arrays::operator[](std::string_view name) const {
  const auto found = std::find_if(begin(), end(), [&](const Entry& entry) { return entry.first == name; });
  if (found == end())
    throw_not_found(fmt::format("the file has no array '{}'; there are {}", name, fmt::join(files(), ", ")));
  return found->second;
}
bool Arrays::contains(std::string_view name) const {
  return std::any_of(begin(), end(), [&](const Entry& entry) { return entry.first == name; });
}
List<std::string> Arrays::files() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.push_back(entry.first);
  return names;
}
Arrays::operator Tensor() const {
  if (!single_)
    throw_failed_precondition(fmt::format("the arrays of an .npz are read by name: load(path)[name]; there are {}",
                                          fmt::join(files(), ", ")));
  return entries_[0].second;
}

Arrays load(const std::string& path) {
  const formats::Detected found = formats::detect(path);
  if (found.kind == formats::Kind::kNpy)
    return Arrays({{"arr_0", Tensor::from_data(formats::read_npy(path)).numpy()}}, true);
  if (found.kind != formats::Kind::kNpz)
    throw_invalid_argument(
        fmt::format("np.load: {} is a {} file, expected .npy or .npz", path, formats::kind_name(found.kind)));
  const formats::NpzReader reader(path);
  std::vector<Arrays::Entry> entries;
  for (const auto& info : reader.list())
    entries.emplace_back(info.name, Tensor::from_data(reader.read(info.name)).numpy());
  return Arrays(std::move(entries));
}

void save(const std::string& path, const Tensor& array) {
  formats::write_npy(with_suffix(path, ".npy"), array.to_data());
}
void savez(const std::string& path, std::initializer_list<Arrays::Entry> arrays) { write(path, arrays); }
void savez(const std::string& path, const std::vector<Tensor>& arrays) {
  std::vector<Arrays::Entry> entries;
  for (const Tensor& array : arrays) entries.emplace_back(fmt::format("arr_{}", entries.size()), array);
  write(path, entries);
}

}  // namespace lockstep::np
