// One entry of the logs of fit and evaluate.
#pragma once

#include <array>
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/base/list.h"
#include "lockstep/tensor/structure.h"

namespace lockstep::keras {

// A number, or the numbers of a metric whose result is a vector (F1Score without an average, R2Score by output). As a
// number a vector is its mean, which Keras's bar shows. In the logs of on_predict_batch_end "outputs" are tensors.
class LogValue {
 public:
  LogValue(double number = 0) : numbers_{number} {}
  LogValue(const Tensor& value);  // a scalar, or a vector
  // Of a variable, its value.
  template <typename V>
  requires(std::is_class_v<V> && !std::same_as<V, Tensor> && std::is_convertible_v<const V&, Tensor> &&
           !std::is_convertible_v<const V&, double>) LogValue(const V& value)
      : LogValue(static_cast<Tensor>(value)) {}
  explicit LogValue(std::vector<double> vector) : numbers_(std::move(vector)), is_vector_(true) {}
  explicit LogValue(const Json& json);  // a number or a list, as in Keras's history
  static LogValue of_outputs(Nested<Tensor> outputs);

  operator double() const;  // throws InvalidArgument for outputs
  operator Json() const;
  // Tensor outputs(logs["outputs"]): the outputs of a batch that predict has computed. Throws InvalidArgument where
  // there are several. Of numbers a float32 scalar or vector.
  explicit operator Tensor() const;
  // Throws InvalidArgument for numbers.
  const Nested<Tensor>& outputs() const;
  bool is_vector() const { return is_vector_; }
  const std::vector<double>& numbers() const { return numbers_; }

 private:
  std::vector<double> numbers_;
  bool is_vector_ = false;
  std::shared_ptr<const Nested<Tensor>> outputs_;
};

// The values of one name in a history: losses[-1], double(losses[0]). As a list or a tensor, each is a number.
class LogValues : public List<LogValue> {
 public:
  using List::List;
  operator List<double>() const { return {begin(), end()}; }
  operator Tensor() const { return Tensor(std::vector<double>(begin(), end())); }
};

// Names and values in Keras's order of results: loss, then metrics as declared; results.at("loss") or results["loss"]
// as of a dict (NotFound, naming those that exist), results[0] as of a list.
class Results : public std::vector<std::pair<std::string, LogValue>> {
 public:
  using vector::at;
  using vector::vector;
  const LogValue& at(std::string_view name) const&;
  LogValue at(std::string_view name) && { return std::as_const(*this).at(name); }
  const LogValue& operator[](std::string_view name) const& { return at(name); }
  LogValue operator[](std::string_view name) && { return std::as_const(*this).at(name); }
  // results["loss"] = value adds a name that there is not; reading it throws NotFound.
  class Place {
   public:
    Place(Results& results, std::string_view name) : results_(results), name_(name) {}
    Place& operator=(const LogValue& value);
    Place& operator=(const Place& other) { return *this = other.value(); }
    Place(const Place&) = default;
    const LogValue& value() const { return results_.at(name_); }
    operator const LogValue&() const { return value(); }
    operator double() const { return value(); }
    bool is_vector() const { return value().is_vector(); }
    const std::vector<double>& numbers() const { return value().numbers(); }

   private:
    Results& results_;
    std::string name_;
  };
  // A template, because results[0] could also be a name.
  template <std::convertible_to<std::string_view> Name>
  Place operator[](const Name& name) & {
    return {*this, name};
  }
  // By position, as in the list that Keras's evaluate returns; at(i) is the name and the value. Throws OutOfRange.
  const LogValue& operator[](int index) const&;
  LogValue operator[](int index) && { return std::as_const(*this)[index]; }
  // double loss = model.evaluate(x, y): of one result, as of a model without metrics. Throws InvalidArgument for
  // another number of results. (A template, because results["loss"] could also be an index.)
  template <typename T>
  requires std::is_same_v<T, double> || std::is_same_v<T, float>
  operator T() const { return static_cast<T>(static_cast<double>(require(1)[0])); }
  // const auto [loss, accuracy] = model.evaluate(x, y): the values of two results. Throws InvalidArgument for another
  // number of results.
  template <std::size_t I>
  LogValue get() const {
    return require_two()[static_cast<int>(I)];
  }
  // const auto [loss, accuracy, auc] = model.evaluate(x, y).parts<3>(): the values of N results. Throws InvalidArgument
  // for another number of results.
  template <std::size_t N>
  std::array<LogValue, N> parts() const {
    require(N);
    std::array<LogValue, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = (*this)[static_cast<int>(i)];
    return out;
  }

  // In Keras the metrics of compile() are one entry, "compile_metrics", of what a step returns by
  // `for metric in metrics()`; get_metrics_result() and compute_metrics() return them one by one.
  void set_flat() { flat_ = true; }
  bool flat() const { return flat_; }
  List<std::string> keys() const;
  LogValues values() const;
  bool contains(std::string_view name) const;
  LogValue get(std::string_view name, const LogValue& other = 0) const { return contains(name) ? at(name) : other; }
  // results.update({{"student_loss", loss}}): adds values, and replaces those of names that there are.
  void update(const std::vector<std::pair<std::string, LogValue>>& others);
  const Results& items() const& { return *this; }
  Results items() && { return std::move(*this); }

 private:
  bool flat_ = false;
  const Results& require_two() const { return require(2); }
  const Results& require(std::size_t count) const;
};

}  // namespace lockstep::keras

template <>
struct std::tuple_size<lockstep::keras::Results> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::keras::Results> {
  using type = lockstep::keras::LogValue;
};
