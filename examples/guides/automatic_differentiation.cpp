// Gradient tapes: what is watched, several gradients, second derivatives, Jacobians, and missing gradients.
#include "guide.h"

void automatic_differentiation(const std::string& folder) {
  namespace keras = ls::keras;
  namespace layers = ls::layers;
  namespace ops = ls::ops;
  ls::random::set_random_seed(24);

  {
    ls::Variable x(3.0);
    ls::GradientTape tape;
    const auto y = ops::pow(x, 2);
    report("dy_dx", tape.gradient(y, x));
  }
  {
    ls::Variable w(waves({3, 2}, 0.4), {.name = "w"});
    ls::Variable b(ops::zeros({2}), {.name = "b"});
    const ls::Tensor x = {{1.0, 2.0, 3.0}};
    ls::GradientTape tape({.persistent = true});
    const auto y = ops::matmul(x, w) + b;
    const auto loss = ops::reduce_mean(ops::pow(y, 2));
    const auto gradients = tape.gradient(loss, {w, b});
    report("dl_dw", ops::reduce_sum(gradients[0]));
    report("dl_db", ops::reduce_sum(gradients[1]));
    report("dy_db", ops::reduce_sum(tape.gradient(y, b)));
  }

  // With respect to a model.
  {
    const ls::Tensor x = {{1.0, 2.0, 3.0}};
    const auto layer = layers::Dense(2, {.activation = "relu"});
    ls::GradientTape tape;
    const ls::Tensor y = layer(x);
    const auto loss = ops::reduce_mean(ops::pow(y, 2));
    for (const auto& gradient : tape.gradient(loss, layer.trainable_variables()))
      report("layer", ops::reduce_sum(gradient));
  }

  // Constants are watched on request; variables only on request with watch_accessed_variables = false.
  {
    auto x = ls::Tensor::scalar(3.0f);
    ls::GradientTape tape;
    tape.watch(x);
    const auto y = ops::pow(x, 2);
    report("watched", tape.gradient(y, x));
  }
  {
    ls::Variable x0(0.0), x1(10.0);
    ls::GradientTape tape({.watch_accessed_variables = false});
    tape.watch(x1);
    const auto y = ops::softplus(x0 + x1);
    const auto gradients = tape.gradient(y, {x0, x1});
    report("not_watched", !gradients[0].defined());
    report("softplus", gradients[1]);
  }

  // With respect to a result in between, and of several targets.
  {
    ls::Tensor x = {1.0, 3.0};
    ls::GradientTape tape;
    tape.watch(x);
    const auto y = x * x;
    const auto z = y * y;
    report("dz_dy", ops::reduce_sum(tape.gradient(z, y)));
  }
  {
    ls::Variable x(2.0);
    ls::GradientTape tape;
    const auto y = x * ls::Tensor{3.0, 4.0};
    report("sum_of_targets", tape.gradient(y, x));
  }

  // Control flow: the branch that was taken.
  {
    ls::Variable v0(2.0), v1(2.0);
    auto x = ls::Tensor::scalar(1.0f);
    ls::GradientTape tape;
    tape.watch(x);
    const auto result = float(x) > 0.0 ? v0 * x : v1 * ops::pow(x, 2);
    const auto gradients = tape.gradient(result, {v0, v1});
    report("branch", gradients[0]);
    report("other_branch", !gradients[1].defined());
  }

  // A gradient goes through stop_gradient as through a constant.
  ls::Variable x(2.0), y(3.0);
  {
    ls::GradientTape t;
    const auto y_sq = ops::pow(y, 2);
    const auto z = ops::pow(x, 2) + ops::stop_gradient(y_sq);
    const auto grad = t.gradient(z, {x, y});
    report("stopped_x", grad[0]);
    report("stopped_y", !grad[1].defined());
  }

  // Second derivatives.
  {
    ls::Variable x1(1.0);
    ls::GradientTape t2;
    ls::Tensor dy_dx;
    {
      ls::GradientTape t1;
      const auto cube = x1 * x1 * x1;
      dy_dx = t1.gradient(cube, x1);
    }
    const auto d2y_dx2 = t2.gradient(dy_dx, x1);
    report("dy_dx", dy_dx);
    report("d2y_dx2", d2y_dx2);
  }

  // The gradient of a gradient's size, as a penalty.
  {
    auto inputs = waves({7, 5}, 0.8);
    const auto layer = layers::Dense(10, {.activation = "relu"});
    ls::GradientTape t2;
    ls::Tensor g1;
    {
      ls::GradientTape t1;
      t1.watch(inputs);
      const auto out = ops::reduce_sum(ops::pow(layer(inputs), 2));
      g1 = t1.gradient(out, inputs);
    }
    const auto g1_mag = ops::global_norm({g1});
    for (const auto& gradient : t2.gradient(g1_mag, layer.trainable_variables()))
      report("penalty", ops::reduce_sum(gradient));
  }

  // Jacobians: of a scalar source, of a layer, and a Hessian from the Jacobian of a gradient.
  {
    const auto points = ops::linspace(ls::Tensor::scalar(-2.0f), ls::Tensor::scalar(2.0f), 5);
    ls::Variable delta(0.0);
    ls::GradientTape tape;
    const auto curve = ops::sigmoid(points + delta);
    const auto jacobian = tape.jacobian(curve, delta);
    for (int i = 0; i < 5; ++i) report("dy_ddelta", jacobian[i]);
  }
  const auto inputs = waves({3, 5}, 0.3);
  {
    const auto layer = layers::Dense(4, {.activation = "tanh"});
    layer(inputs);
    ls::GradientTape tape({.persistent = true});
    const ls::Tensor outputs = layer(inputs);
    const auto j = tape.jacobian(outputs, layer.kernel());
    report("rank", j.rank());
    report("jacobian", ops::reduce_sum(ops::abs(j)));
    const auto gradient = tape.gradient(outputs, layer.kernel());
    report("gradient", ops::reduce_max(ops::abs(gradient - ops::reduce_sum(j, {0, 1}))));
  }

  const auto layer1 = layers::Dense(3, {.activation = "tanh"});
  const auto layer2 = layers::Dense(2, {.activation = "tanh"});
  {
    ls::GradientTape t2;
    ls::Tensor g;
    {
      ls::GradientTape t1;
      const ls::Tensor outputs = layer2(layer1(inputs));
      const auto loss = ops::reduce_mean(ops::pow(outputs, 2));
      g = t1.gradient(loss, layer1.kernel());
    }
    const auto h = t2.jacobian(g, layer1.kernel());
    report("hessian", ops::reduce_sum(h));
    report("hessian_abs", ops::reduce_sum(ops::abs(h)));
  }

  const auto model_inputs = layers::Input({5});
  keras::Model model(model_inputs, layer2(layer1(model_inputs)));
  model.save(folder + "/model.keras");
}
