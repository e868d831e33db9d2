#include "accelerate/comm/followed_by.h"

#include <memory>
#include <utility>

namespace accelerate {
namespace {

class Preceding final : public Work::Pending {
 public:
  explicit Preceding(Work work) : work_(std::move(work)) {}
  void wait() override { work_.wait(); }
  bool is_completed() const override { return work_.is_completed(); }

 private:
  Work work_;
};

}  // namespace

Work followed_by(Work work, std::function<void()> then) {
  return Work(std::make_unique<Preceding>(std::move(work)), std::move(then));
}

}  // namespace accelerate
