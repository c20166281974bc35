#include "lockstep/keras/callbacks/csv_logger.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::callbacks {
namespace {

class CsvWriter final : public Callback, public keras::ReadsTogether {
 public:
  explicit CsvWriter(CSVLoggerOptions options) : options_(std::move(options)) {
    if (options_.separator.size() != 1) {
      throw_invalid_argument(
          fmt::format("CSVLogger: the separator must be one character, not '{}'", options_.separator));
    }
  }

  void on_train_begin(const Logs&) override {
    columns_.clear();
    header_ = true;
    resumed_.reset();
    out_.close();
    out_.clear();
  }
  // A resumed fit that does not append keeps the rows of the epochs before.
  void on_epoch_begin(int, const Logs&) override { open(); }

  void on_epoch_end(int epoch, Logs& logs) override {
    if (!writes()) return;
    open();
    if (columns_.empty()) choose_columns(logs);
    if (header_) {
      std::vector<std::string> names{"epoch"};
      names.insert(names.end(), columns_.begin(), columns_.end());
      row(names);
      header_ = false;
    }
    std::vector<std::string> fields{std::to_string(epoch)};
    for (const std::string& name : columns_) {
      const auto value = logs.find(name);
      fields.push_back(value == logs.end() ? "NA" : field_of(value->second));
    }
    row(fields);
    out_.flush();
    check("written");
  }

  void on_train_end(const Logs&) override {
    open();
    out_.close();
  }
  std::string class_name() const override { return "CSVLogger"; }
  CallbackState save_state() const override {
    const auto found = io::posix_file_system().stat(options_.filename);
    return {{{"columns", columns_}, {"header", header_}, {"size", found ? found->size : 0}}, {}};
  }
  void restore_state(const CallbackState& state) override {
    columns_ = state.values.at("columns").get<std::vector<std::string>>();
    header_ = state.values.at("header").get<bool>();
    resumed_ = state.values.at("size").get<std::uint64_t>();
  }

 private:
  // Of several workers the chief writes.
  bool writes() const { return !trainer_ || !trainer_->strategy() || trainer_->strategy()->is_chief(); }

  void open() {
    if (out_.is_open() || !writes()) return;
    const auto found = io::posix_file_system().stat(options_.filename);
    bool keep = options_.append;
    if (resumed_ && found && found->size >= *resumed_) {
      std::error_code error;  // rows of epochs that will come again
      std::filesystem::resize_file(options_.filename, *resumed_, error);
      keep = true;
    } else if (options_.append) {
      header_ = !found || found->size == 0;
    } else {
      header_ = true;
    }
    io::make_directories(io::posix_file_system(), io::parent_directory(options_.filename));
    out_.open(options_.filename, std::ios::binary | (keep ? std::ios::app : std::ios::trunc));
    check("opened");
  }
  void choose_columns(const Logs& logs) {
    bool validated = false;
    for (const auto& [name, value] : logs) {
      columns_.push_back(name);
      validated = validated || name.starts_with("val_");
    }
    std::sort(columns_.begin(), columns_.end());
    if (validated) return;
    const std::size_t known = columns_.size();
    for (std::size_t i = 0; i < known; ++i) columns_.push_back("val_" + columns_[i]);
  }

  // A vector as Keras writes it: "[1.0, 0.5]".
  static std::string field_of(const keras::LogValue& value) {
    if (!value.is_vector()) return python_float(value);
    std::string numbers;
    for (const double number : value.numbers())
      numbers += (numbers.empty() ? "" : ", ") + fmt::format("{}", static_cast<float>(number));
    return "\"[" + numbers + "]\"";
  }

  void row(const std::vector<std::string>& fields) {
    std::string line;
    for (const std::string& field : fields) line += (line.empty() ? "" : options_.separator) + quoted(field);
    out_ << line << "\r\n";
  }
  std::string quoted(const std::string& field) const {
    if (field.find_first_of(options_.separator + "\"\r\n") == std::string::npos) return field;
    std::string out = "\"";
    for (const char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
  }
  void check(const char* what) const {
    if (!out_) throw_unavailable(fmt::format("CSVLogger: {} cannot be {}", options_.filename, what));
  }

  CSVLoggerOptions options_;
  std::vector<std::string> columns_;
  bool header_ = true;
  std::optional<std::uint64_t> resumed_;  // the file's size when the state was saved
  std::ofstream out_;
};

}  // namespace

keras::CallbackPtr CSVLogger(CSVLoggerOptions options) { return std::make_shared<CsvWriter>(std::move(options)); }

}  // namespace lockstep::callbacks
