// Lines that must not compile, each with the message that the compiler must give: see wrong_lines.py.
#include <lockstep/lockstep.h>

namespace ls = lockstep;
namespace keras = lockstep::keras;

class MyLayer : public keras::Layer {
 public:
  MyLayer() : Layer("MyLayer") {}
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override { return x; }
};

class MyMetric : public ls::metrics::Metric {
 public:
  void update_state(const ls::Tensor&, const ls::Tensor&, const ls::Tensor&, const ls::Tensor&) override {}
  ls::Tensor result() const override { return {}; }
};

class Unreadable : public keras::Layer {
 public:
  explicit Unreadable(int) : Layer("Unreadable") {}
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override { return x; }
};

void wrong(keras::Model model, ls::distribute::Strategy& strategy, const ls::Tensor& x) {
  // expect: strategy.run(fn, args...): fn cannot be called with these arguments
  strategy.run([](const ls::Tensor& a, const ls::Tensor& b) { return a + b; }, x);
  // expect: objects of this class cannot be copied: give a pointer, std::make_shared<MyClass>(...)
  MyMetric metric;
  model.compile({.loss = "mse", .metrics = {metric}});
  // expect: a registered class needs a static from_config(const Json&), a constructor that takes const Json&
  keras::register_keras_serializable<Unreadable>();
  // expect: callbacks change in fit and cannot be const objects
  const keras::History history;
  model.fit(x, x, {.callbacks = {history}});
  // expect: objects of this class cannot be moved: make a layer with keras::make_layer<MyLayer>(...)
  keras::Sequential layers({ls::layers::Dense(2), MyLayer()});
  const auto dataset = ls::data::Dataset::range(3);
  // expect: the function must take the element, (const Element& element) or (const Tensor& x), or its two to 16 parts
  dataset.map([](int x) { return ls::Tensor::scalar(x); });
  // expect: the function must return a Tensor or an Element for Dataset.map, a bool for filter and take_while
  dataset.filter([](const ls::Tensor&) { return std::string("yes"); });
  // expect: Dataset.reduce(initial_state, fn): fn must take the state and an element
  dataset.reduce(x, [](const ls::Tensor& state) { return state; });
  // expect: Dataset.window(...).flat_map(fn), map(fn): fn must take a dataset
  dataset.window(2).flat_map([](const ls::Tensor& window) { return window; });
}
