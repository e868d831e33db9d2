#include "accelerate/parallel/gradients/buckets.h"

#include <map>
#include <utility>

namespace accelerate {
namespace {

struct OpenBucket {
  std::vector<std::size_t> members;
  std::int64_t bytes = 0;
};

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(const std::vector<at::Tensor>& parameters,
                                                     const BucketLimits& limits) {
  std::vector<std::vector<std::size_t>> closed;
  std::map<std::pair<int, std::string>, OpenBucket> open;
  for (std::size_t i = parameters.size(); i-- > 0;) {
    const auto& parameter = parameters[i];
    auto& bucket = open[{static_cast<int>(parameter.scalar_type()), parameter.device().str()}];
    bucket.members.push_back(i);
    bucket.bytes += static_cast<std::int64_t>(parameter.nbytes());
    if (bucket.bytes >= (closed.empty() ? limits.first_bytes : limits.cap_bytes)) {
      closed.push_back(std::exchange(bucket, {}).members);
    }
  }
  for (auto& [kind, bucket] : open) {
    if (!bucket.members.empty()) closed.push_back(std::move(bucket.members));
  }
  return closed;
}

}  // namespace accelerate
