// The keywords of layers with a kernel and a bias. Internal.
#pragma once

namespace lockstep::keras {

// From kernel_initializer to bias_constraint, in Keras's order.
template <typename V, typename Options>
void kernel_and_bias_fields(V& v, Options& o) {
  v("kernel_initializer", o.kernel_initializer);
  v("bias_initializer", o.bias_initializer);
  v("kernel_regularizer", o.kernel_regularizer);
  v("bias_regularizer", o.bias_regularizer);
  v("activity_regularizer", o.activity_regularizer);
  v("kernel_constraint", o.kernel_constraint);
  v("bias_constraint", o.bias_constraint);
}

}  // namespace lockstep::keras
