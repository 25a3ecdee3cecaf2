#include "workloads/device/cuda/cuda_user_object.hpp"

#include <utility>

#include "workloads/device/cuda/cuda_error.hpp"

namespace cgconform::workloads::cuda {
namespace {

/// What the runtime keeps for the object; ends with its last reference.
struct Payload {
  Payload(std::shared_ptr<CudaState> owner, std::function<void()> told)
      : state(std::move(owner)),
        live(state->live_objects().user_objects),
        released(std::move(told)) {}
  std::shared_ptr<CudaState> state;
  LiveObject live;
  std::function<void()> released;
};

void CUDART_CB release(void* payload) {
  const std::unique_ptr<Payload> owned(static_cast<Payload*>(payload));
  owned->released();
}

/// The caller's reference.
class Reference {
 public:
  explicit Reference(cudaUserObject_t object) : object_(object) {}
  ~Reference() { static_cast<void>(cudaUserObjectRelease(object_, 1)); }
  Reference(const Reference&) = delete;
  Reference& operator=(const Reference&) = delete;
  cudaUserObject_t handle() const { return object_; }

 private:
  cudaUserObject_t object_;
};

}  // namespace

std::shared_ptr<void> make_user_object(std::shared_ptr<CudaState> state,
                                       std::function<void()> released) {
  auto payload = std::make_unique<Payload>(std::move(state), std::move(released));
  cudaUserObject_t object = nullptr;
  CGCONFORM_CUDA_TRY(
      cudaUserObjectCreate(&object, payload.get(), release, 1, cudaUserObjectNoDestructorSync));
  static_cast<void>(payload.release());
  return std::make_shared<Reference>(object);
}

cudaUserObject_t user_object_handle(const std::shared_ptr<void>& user_object) {
  return static_cast<const Reference*>(user_object.get())->handle();
}

}  // namespace cgconform::workloads::cuda
