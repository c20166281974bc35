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
  model.compile({.loss = "mse", .metrics = {MyMetric()}});
  // expect: a registered class needs a static from_config(const Json&), a constructor that takes const Json&
  keras::register_keras_serializable<Unreadable>();
  // expect: callbacks change in fit and cannot be const objects
  const keras::History history;
  model.fit(x, x, {.callbacks = {history}});
}
