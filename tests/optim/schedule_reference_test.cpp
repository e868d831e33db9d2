// Every schedule against transformers and PyTorch: tests/reference/schedules.jsonl.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/optim/schedule_reference.h"

namespace accelerate {
namespace {

using testing::Json;
using testing::Numbers;

// Before any test registers one of its own.
const std::vector<std::string> kOriginals = scheduler_names();

// A row being replayed on our side.
struct Replay {
  explicit Replay(const Json& row)
      : row(row), optimizer(testing::make_optimizer(row.at("optimizer"), row.at("rates"))) {
    for (const Json& spec : row.at("schedules")) {
      schedules.push_back(testing::make_schedule(spec, *optimizer));
    }
  }
  void step(std::int64_t now) {
    for (const auto& schedule : schedules) {
      schedule->needs_metric() ? schedule->step(testing::metric_at(row.at("metric"), now))
                               : schedule->step();
    }
  }
  [[nodiscard]] Numbers momenta() const {
    const auto* cycle = dynamic_cast<const OneCycleLR*>(schedules.front().get());
    return cycle != nullptr ? cycle->get_last_momentum() : Numbers();
  }

  const Json& row;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::vector<std::shared_ptr<LRScheduler>> schedules;
};

// The arithmetic is the original's, operation by operation: on one machine all rates agree in every
// bit. What may differ between machines is the last bit of cos() and pow(): two units in the last
// place of the row's largest rate for closed forms, and for recurrences, which carry it along for a
// thousand steps, a hundred times that.
double tolerance(const Json& row) {
  double peak = 0;
  for (const Json& rates : row.at("lr")) {
    for (const double rate : rates) peak = std::max(peak, std::abs(rate));
  }
  static const std::vector<std::string> recurrences = {"CosineAnnealingLR", "MultiStepLR",
                                                       "SequentialLR"};
  const std::string name = row.at("schedules")[0].at("name");
  const bool carries = std::count(recurrences.begin(), recurrences.end(), name) > 0;
  return peak * std::numeric_limits<double>::epsilon() * (carries ? 200 : 2);
}

void expect_near(const Numbers& ours, const Numbers& theirs, double tolerance,
                 const std::string& where) {
  ASSERT_EQ(ours.size(), theirs.size()) << where;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_NEAR(ours[i], theirs[i], tolerance) << where << " group " << i;
  }
}

// Steps `replay` from `first` on and compares whatever the row has; returns how many steps it had.
std::size_t expect_rates_from(Replay& replay, std::int64_t first, const std::string& name) {
  const Json& row = replay.row;
  const auto at = row.at("at").get<testing::Steps>();
  std::size_t compared = 0;
  for (std::int64_t now = first; now <= row.at("steps"); ++now) {
    if (const auto set = row.find("set"); set != row.end() && set->contains(std::to_string(now))) {
      detail::set_group_rates(*replay.optimizer, set->at(std::to_string(now)));
    }
    const auto found = std::lower_bound(at.begin(), at.end(), now);
    if (found != at.end() && *found == now) {
      const auto i = static_cast<std::size_t>(found - at.begin());
      const std::string where = name + " step " + std::to_string(now);
      expect_near(detail::group_rates(*replay.optimizer), row.at("lr")[i], tolerance(row), where);
      if (row.contains("momentum")) {
        expect_near(replay.momenta(), row.at("momentum")[i], 1e-15, where + " momentum");
      }
      ++compared;
    }
    if (now < row.at("steps")) replay.step(now);
  }
  return compared;
}

std::string name_of(const Json& row, std::size_t number) {
  return "row " + std::to_string(number) + " " + row.at("schedules").dump() + " " +
         row.at("optimizer").get<std::string>();
}

TEST(ScheduleReference, RatesAreThoseOfThePythonOriginals) {
  const auto [header, rows] = testing::schedule_rows();
  ASSERT_EQ(rows.size(), header.at("rows").get<std::size_t>());
  ASSERT_GE(rows.size(), 90u);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Replay replay(rows[i]);
    const auto compared = expect_rates_from(replay, 0, name_of(rows[i], i));
    EXPECT_EQ(compared, rows[i].at("lr").size()) << name_of(rows[i], i);
    EXPECT_GE(compared, 12u);
  }
}

TEST(ScheduleReference, EveryNameOfTheOriginalHasATableAndThreeCurves) {
  std::map<std::string, int> curves;
  for (const Json& row : testing::schedule_rows().rows) ++curves[row.at("schedules")[0].at("name")];
  for (const std::string& name : kOriginals) EXPECT_GE(curves[name], 4) << name;
  for (const char* name : {"LambdaLR", "StepLR", "MultiStepLR", "ExponentialLR",
                           "CosineAnnealingLR", "OneCycleLR", "LinearLR"}) {
    EXPECT_GE(curves[name], 4) << name;
  }
  EXPECT_GE(curves["SequentialLR"], 2);
}

void expect_same_value(const StateValue& ours, const StateValue& theirs, const std::string& where) {
  const auto number = [](const StateValue& value) -> Numbers {
    if (const auto* one = std::get_if<double>(&value)) return {*one};
    if (const auto* one = std::get_if<std::int64_t>(&value)) return {static_cast<double>(*one)};
    if (const auto* all = std::get_if<Numbers>(&value)) return *all;
    if (const auto* all = std::get_if<testing::Steps>(&value)) return {all->begin(), all->end()};
    return {};
  };
  const Numbers a = number(ours), b = number(theirs);
  if (b.empty()) {  // texts, truth values, and lists, which have no type while they are empty
    const bool list =
        std::holds_alternative<Numbers>(theirs) || std::holds_alternative<testing::Steps>(theirs);
    EXPECT_TRUE(ours == theirs || (list && a.empty())) << where;
    return;
  }
  ASSERT_EQ(a.size(), b.size()) << where;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i] == b[i] || std::abs(a[i] - b[i]) <= std::abs(b[i]) * 1e-12) << where;
  }
}

void expect_has_all_of(const SchedulerState& ours, const SchedulerState& theirs,
                       const std::string& where) {
  for (const auto& [key, value] : theirs.values) {
    ASSERT_TRUE(ours.values.contains(key)) << where << " lacks " << key;
    expect_same_value(ours.values.at(key), value, where + " " + key);
  }
  for (const auto& [key, states] : theirs.nested) {
    ASSERT_TRUE(ours.nested.contains(key)) << where << " lacks " << key;
    ASSERT_EQ(ours.nested.at(key).size(), states.size()) << where;
    for (std::size_t i = 0; i < states.size(); ++i) {
      expect_has_all_of(ours.nested.at(key)[i], states[i], where + " " + key);
    }
  }
}

TEST(ScheduleReference, StatesHaveTheOriginalsKeysAndValues) {
  std::size_t states = 0;
  const auto all = testing::schedule_rows();
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    const Json& row = all.rows[i];
    if (!row.contains("state")) continue;
    Replay replay(row);
    for (std::int64_t now = 0; now < row.at("state_at"); ++now) replay.step(now);
    expect_has_all_of(replay.schedules[0]->state_dict(), testing::state_of(row.at("state")),
                      name_of(row, i));
    ++states;
  }
  EXPECT_GE(states, 50u);
}

TEST(ScheduleReference, TrainingThatPythonBeganIsContinuedFromItsState) {
  std::size_t resumed = 0;
  const auto all = testing::schedule_rows();
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    const Json& row = all.rows[i];
    if (!row.contains("state")) continue;
    Replay replay(row);
    const auto at = row.at("at").get<testing::Steps>();
    const std::int64_t when = row.at("state_at");
    const auto index = std::lower_bound(at.begin(), at.end(), when) - at.begin();
    detail::set_group_rates(*replay.optimizer, row.at("lr")[static_cast<std::size_t>(index)]);
    replay.schedules[0]->load_state_dict(testing::state_of(row.at("state")));
    if (row.contains(
            "momentum")) {  // Is the optimizer's to restore; from the next step on it is set.
      replay.step(when);
      expect_rates_from(replay, when + 1, name_of(row, i) + " resumed");
    } else {
      expect_rates_from(replay, when, name_of(row, i) + " resumed");
    }
    ++resumed;
  }
  EXPECT_GE(resumed, 50u);
}

// Our own state: nothing is lost, so the rates after a resume are the same in every bit.
TEST(ScheduleReference, AResumedScheduleIsTheSameInEveryBit) {
  const auto all = testing::schedule_rows();
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    const Json& row = all.rows[i];
    const std::int64_t half = row.at("steps").get<std::int64_t>() / 2;
    Replay whole(row), resumed(row);
    for (std::int64_t now = 0; now < half; ++now) whole.step(now);
    detail::set_group_rates(*resumed.optimizer, detail::group_rates(*whole.optimizer));
    for (std::size_t s = 0; s < whole.schedules.size(); ++s) {
      resumed.schedules[s]->load_state_dict(whole.schedules[s]->state_dict());
    }
    for (std::int64_t now = half; now < row.at("steps"); ++now) {
      whole.step(now);
      resumed.step(now);
      ASSERT_EQ(detail::group_rates(*whole.optimizer), detail::group_rates(*resumed.optimizer))
          << name_of(row, i) << " step " << now;
      ASSERT_EQ(whole.momenta(), resumed.momenta()) << name_of(row, i) << " step " << now;
    }
    for (std::size_t s = 0; s < whole.schedules.size(); ++s) {
      EXPECT_EQ(whole.schedules[s]->state_dict(), resumed.schedules[s]->state_dict());
    }
  }
}

}  // namespace
}  // namespace accelerate
