// Rows of CSV files. Facts: tensorflow/python/data/experimental/ops/readers.py of TensorFlow 2.21.
#include "lockstep/data/csv_dataset.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/files_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::data::experimental {
namespace {

using formats::RecordFormat;
using formats::RecordReader;

RecordFormat format_of(bool use_quote_delim) { return use_quote_delim ? RecordFormat::kCsv : RecordFormat::kTextLine; }

// How the columns of records become tensors: one for each default.
struct Columns {
  std::vector<CsvDefault> defaults;
  std::string field_delim;
  bool use_quote_delim;
  std::string na_value;
  std::vector<std::int64_t> selected;  // empty: all

  Tensors decode(const Tensor& records) const {
    return io::decode_csv(records, defaults,
                          {.field_delim = field_delim,
                           .use_quote_delim = use_quote_delim,
                           .na_value = na_value,
                           .select_cols = selected});
  }
};

std::vector<std::int64_t> selected_columns(const CsvDatasetOptions& o, std::size_t defaults) {
  if (o.select_cols && o.exclude_cols) {
    throw_invalid_argument("CsvDataset: select_cols and exclude_cols must not be given together");
  }
  if (o.select_cols) {
    if (o.select_cols->size() != defaults) {
      throw_invalid_argument(fmt::format("CsvDataset: select_cols has {} columns, record_defaults has {}",
                                         o.select_cols->size(), defaults));
    }
    return *o.select_cols;
  }
  if (!o.exclude_cols) return {};
  std::vector<std::int64_t> selected;
  for (std::int64_t column = 0; selected.size() < defaults; ++column) {
    if (std::find(o.exclude_cols->begin(), o.exclude_cols->end(), column) == o.exclude_cols->end()) {
      selected.push_back(column);
    }
  }
  return selected;
}

Dataset rows_of(const Dataset& filenames, const std::vector<CsvDefault>& record_defaults, const CsvDatasetOptions& o) {
  const Columns columns{record_defaults, o.field_delim, o.use_quote_delim, o.na_value,
                        selected_columns(o, record_defaults.size())};
  return records_of(filenames, format_of(o.use_quote_delim), o.compression_type, o.header)
      .map([columns](const Element& record) {
        std::vector<Element> fields;
        for (Tensor& field : columns.decode(record.leaf())) fields.push_back(Element(std::move(field)));
        return Element(std::move(fields));
      });
}

// The fields of a record as Python's csv.reader gives them.
std::vector<std::string> fields_of(const std::string& record, char delimiter, bool quotes) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    if (quoted && c == '"' && i + 1 < record.size() && record[i + 1] == '"') {
      fields.back() += record[++i];
    } else if (quotes && c == '"' && (quoted || fields.back().empty())) {
      quoted = !quoted;
    } else if (c == delimiter && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

// The first dtype of int32, int64, float32, float64 and string that can represent the field.
int place_of_type(const std::string& text) {
  const char* const begin = text.c_str();
  char* end = nullptr;
  const auto whole = [&] { return end != begin && text.find_first_not_of(" \t", end - begin) == std::string::npos; };
  errno = 0;
  const long long integer = std::strtoll(begin, &end, 10);
  if (whole() && errno == 0) {
    using Int = std::numeric_limits<std::int32_t>;
    return integer >= Int::min() && integer <= Int::max() ? 0 : 1;
  }
  const double value = std::strtod(begin, &end);
  if (text.find_first_of("xX") != std::string::npos || !whole() || !(value < HUGE_VAL)) return 4;
  return static_cast<float>(value) < HUGE_VALF ? 2 : 3;
}

constexpr DType kTypes[] = {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat64, DType::kString};

// make_csv_dataset's columns, which are the selected ones of those that the files have.
class Table {
 public:
  Table(std::vector<std::string> files, const MakeCsvDatasetOptions& options)
      : files_(std::move(files)), o_(options), delimiter_(options.field_delim.empty() ? ',' : options.field_delim[0]) {
    std::vector<std::string> all = o_.column_names ? *o_.column_names : header();
    if (std::set<std::string>(all.begin(), all.end()).size() != all.size()) bad("column names must be distinct");
    std::vector<std::int64_t> places(all.size());
    std::iota(places.begin(), places.end(), 0);
    if (o_.select_columns) {
      places.clear();
      for (const std::string& name : *o_.select_columns) places.push_back(place(all, name, "select_columns"));
      std::sort(places.begin(), places.end());
      columns_.selected = places;
    }
    for (const std::int64_t at : places) names_.push_back(all[static_cast<std::size_t>(at)]);
    if (o_.label_name) place(names_, *o_.label_name, "label_name");
    columns_.field_delim = o_.field_delim;
    columns_.use_quote_delim = o_.use_quote_delim;
    columns_.na_value = o_.na_value;
    columns_.defaults = o_.column_defaults ? *o_.column_defaults : inferred(all.size(), places);
    if (columns_.defaults.size() != names_.size()) {
      bad(fmt::format("column_defaults has {} values, expected one for each of the {} columns that are read",
                      columns_.defaults.size(), names_.size()));
    }
  }

  const Columns& columns() const { return columns_; }
  const std::vector<std::string>& files() const { return files_; }

  // The dict of the columns, or (dict, label).
  Element element(Tensors values) const {
    std::vector<std::pair<std::string, Element>> features;
    Element label;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (o_.label_name == names_[i]) {
        label = Element(std::move(values[i]));
      } else {
        features.emplace_back(names_[i], Element(std::move(values[i])));
      }
    }
    Element dict = Element::dict(std::move(features));
    return o_.label_name ? Element{std::move(dict), std::move(label)} : dict;
  }

 private:
  [[noreturn]] static void bad(const std::string& what) { throw_invalid_argument("make_csv_dataset: " + what); }

  static std::int64_t place(const std::vector<std::string>& names, const std::string& name, const char* argument) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      bad(fmt::format("unknown column '{1}' in {0}: the columns are {2}", argument, name, fmt::join(names, ", ")));
    }
    return found - names.begin();
  }

  RecordReader open(const std::string& file) const {
    return RecordReader(file, format_of(o_.use_quote_delim), compression_of(o_.compression_type));
  }
  std::vector<std::string> split(const std::string& record) const {
    return fields_of(record, delimiter_, o_.use_quote_delim);
  }

  std::vector<std::string> header() const {
    if (!o_.header) bad("column_names is required where the files have no header");
    std::optional<std::vector<std::string>> names;
    for (const std::string& file : files_) {
      const auto first = open(file).next();
      if (!first) bad(fmt::format("{}: the file is empty, expected a row of column names", file));
      const auto found = split(*first);
      if (names && found != *names) bad(fmt::format("{}: its column names differ from those of {}", file, files_[0]));
      names = found;
    }
    return *names;
  }

  std::vector<CsvDefault> inferred(std::size_t columns, const std::vector<std::int64_t>& places) const {
    std::vector<int> types(places.size(), -1);
    std::int64_t row = 0;
    const auto enough = [&] { return o_.num_rows_for_inference && row >= *o_.num_rows_for_inference; };
    for (const std::string& file : files_) {
      if (enough()) break;
      RecordReader records = open(file);
      if (o_.header) records.next();
      while (!enough()) {
        const auto record = records.next();
        if (!record) break;
        ++row;
        if (record->empty()) continue;
        const auto fields = split(*record);
        if (fields.size() != columns) {
          bad(fmt::format("{}: row {} has {} fields, expected {}", file, row, fields.size(), columns));
        }
        for (std::size_t i = 0; i < places.size(); ++i) {
          const std::string& text = fields[static_cast<std::size_t>(places[i])];
          if (!text.empty() && text != o_.na_value) types[i] = std::max(types[i], place_of_type(text));
        }
      }
    }
    std::vector<CsvDefault> defaults;
    for (const int type : types) {
      const DType dtype = kTypes[type < 0 ? 4 : type];
      defaults.emplace_back(dtype == DType::kString ? Tensor::strings({""}, Shape())
                                                    : ops::cast(Tensor::scalar(std::int32_t{0}), dtype));
    }
    return defaults;
  }

  std::vector<std::string> files_;
  MakeCsvDatasetOptions o_;
  char delimiter_;
  std::vector<std::string> names_;
  Columns columns_;
};

}  // namespace

CsvDataset::CsvDataset(const std::vector<std::string>& filenames, const std::vector<CsvDefault>& record_defaults,
                       const CsvDatasetOptions& options)
    : Dataset(rows_of(names_of(filenames), record_defaults, options)) {}

Dataset make_csv_dataset(const std::vector<std::string>& file_pattern, const MakeCsvDatasetOptions& options) {
  if (!options.batch_size) throw_invalid_argument("make_csv_dataset requires batch_size");
  MakeCsvDatasetOptions others = options;
  others.batch_size.reset();
  return make_csv_dataset(file_pattern, *options.batch_size, others);
}
Dataset make_csv_dataset(const std::vector<std::string>& file_pattern, std::int64_t batch_size,
                         const MakeCsvDatasetOptions& o) {
  if (o.batch_size) throw_invalid_argument("make_csv_dataset: batch_size is given twice");
  std::vector<std::string> files = matching_files(file_pattern);
  if (files.empty()) {
    throw_invalid_argument(fmt::format("make_csv_dataset: no file matches {}", fmt::join(file_pattern, ", ")));
  }
  const auto table = std::make_shared<const Table>(std::move(files), o);
  Dataset names = names_of(table->files());
  if (o.shuffle) names = names.shuffle(static_cast<std::int64_t>(table->files().size()), o.shuffle_seed);
  const auto records = [o](const Dataset& of) {
    return records_of(of, format_of(o.use_quote_delim), o.compression_type, o.header);
  };
  Dataset rows =
      o.num_parallel_reads.value_or(1) <= 1
          ? records(names)
          : names.interleave([records](const Tensor& name) { return records(Dataset::from_tensors(Element(name))); },
                             *o.num_parallel_reads);
  if (o.ignore_errors) {
    rows = rows.map([table](const Element& record) {
                 table->columns().decode(record.leaf());
                 return record;
               })
               .ignore_errors();
  }
  if (o.shuffle) rows = rows.shuffle(o.shuffle_buffer_size, o.shuffle_seed);
  if (o.num_epochs != 1) rows = rows.repeat(o.num_epochs.value_or(-1));
  return rows.batch(batch_size, !o.num_epochs)
      .map([table](const Element& batch) { return table->element(table->columns().decode(batch.leaf())); })
      .prefetch(o.prefetch_buffer_size.value_or(AUTOTUNE));
}

}  // namespace lockstep::data::experimental
