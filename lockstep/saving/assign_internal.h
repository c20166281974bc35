// Assigns tensors of files to variables, all or none.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/distribute/variable.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/tensor_data.h"

namespace lockstep::saving {

// Tensors that are assigned to variables after everything has been read and checked.
class Assignment {
 public:
  // Reads `name` and notes it for `variable`. The dtype is converted; throws InvalidArgument when the shape differs,
  // naming `owner`.
  void add(const distribute::VariablePtr& variable, const formats::TensorReader& reader,
           const formats::TensorInfo& info, const std::string& owner);
  // The same of a value that was read as `name`.
  void add(const distribute::VariablePtr& variable, Tensor value, const std::string& name, const std::string& owner);
  // What a user's class does with its values, after all others have been written.
  void add(std::function<void()> load) { loads_.push_back(std::move(load)); }
  // Writes all of them; cannot fail halfway, but for the functions of users' classes.
  void commit();

 private:
  struct Item {
    distribute::VariablePtr variable;
    Tensor value;
  };
  std::vector<Item> items_;
  std::vector<std::function<void()>> loads_;
};

// The variable's value across replicas for a file; read on demand.
formats::TensorData variable_data(const distribute::VariablePtr& variable);
// The same under a path of the file.
formats::WeightEntry weight_entry(std::string path, const distribute::VariablePtr& variable);

}  // namespace lockstep::saving
