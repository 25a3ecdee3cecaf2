#include "workloads/ops/gradient_norm.hpp"

#include <cmath>

#include "workloads/ops/reference/kernel_access.hpp"
#include "workloads/ops/reference/kernels.hpp"

namespace cgconform::workloads::reference {

void square_sums(const OpCall& call) {
  auto* sums = elements<double>(call, 0);
  const auto* parts = elements<GradientPart>(call, 2);
  with_floating_type(call, 1, [&](auto type) {
    using T = decltype(type);
    const T* grads = elements<T>(call, 1);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      double sum = 0.0;
      const GradientPart& part = parts[i];
      const std::int64_t count = lies_in(part, call.operand(1).elements()) ? part.count : 0;
      for (std::int64_t k = 0; k < count; ++k) {
        const auto grad = static_cast<double>(static_cast<Arithmetic<T>>(grads[part.first + k]));
        sum += grad * grad;
      }
      sums[i] = sum;
    }
  });
}

void clip_factor(const OpCall& call) {
  const auto params = call.params.as<ClipParams>();
  const double norm = std::sqrt(*elements<double>(call, 2));
  const double factor = params.largest_norm / (norm + params.epsilon);
  const bool overflowed = call.operand(3).valid() && *elements<float>(call, 3) != 0.0F;
  *elements<double>(call, 1) = norm;
  *elements<double>(call, 0) = !overflowed && factor < 1.0 ? factor : 1.0;
}

void scale_by(const OpCall& call) {
  const double factor = *elements<double>(call, 1);
  with_floating_type(call, 0, [&](auto type) {
    using T = decltype(type);
    using A = Arithmetic<T>;
    T* tensor = elements<T>(call, 0);
    for (std::int64_t i = 0; i < call.operand(0).elements(); ++i) {
      tensor[i] = static_cast<T>(static_cast<A>(tensor[i]) * static_cast<A>(factor));
    }
  });
}

}  // namespace cgconform::workloads::reference
