#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/transformers/trainer/metrics/class_counts.h"
#include "accelerate/transformers/trainer/metrics/metric.h"

namespace accelerate {
namespace {

class CombinedMetric : public Metric {
 public:
  explicit CombinedMetric(std::vector<MetricHandle> metrics) : metrics_(std::move(metrics)) {
    for (const MetricHandle& metric : metrics_) {
      if (!metric.shared()) throw ConfigError("combine() was given a metric that is null");
      for (std::string& name : metric.shared()->names()) add_name(std::move(name));
    }
  }

  void reset() override {
    for (const MetricHandle& metric : metrics_) metric.shared()->reset();
  }

  // The search over, say, 30,000 classes costs more than all that is done with its result, so it is
  // done once.
  void update(const MetricBatch& batch) override {
    MetricBatch shared = batch;
    if (reads_classes()) shared.classes = detail::likeliest_classes(batch);
    for (const MetricHandle& metric : metrics_) metric.shared()->update(shared);
  }

  [[nodiscard]] Metrics compute(Communicator& communicator) const override {
    Metrics all;
    for (const MetricHandle& metric : metrics_) {
      for (auto& value : metric.shared()->compute(communicator)) all.push_back(std::move(value));
    }
    return all;
  }

  [[nodiscard]] std::vector<std::string> names() const override { return names_; }

  [[nodiscard]] bool reads_classes() const override {
    return std::any_of(metrics_.begin(), metrics_.end(),
                       [](const MetricHandle& one) { return one.shared()->reads_classes(); });
  }

 private:
  void add_name(std::string name) {
    if (std::find(names_.begin(), names_.end(), name) != names_.end())
      throw ConfigError("two of the combined metrics give '" + name +
                        "'; set `name` in the options of one of them");
    names_.push_back(std::move(name));
  }

  std::vector<MetricHandle> metrics_;
  std::vector<std::string> names_;
};

}  // namespace

std::shared_ptr<Metric> combine(std::vector<MetricHandle> metrics) {
  return std::make_shared<CombinedMetric>(std::move(metrics));
}

}  // namespace accelerate
